"""The fault catalogue's rows for the router, F14 to F20: the documented outcome, and nobody else is harmed."""

from __future__ import annotations

import asyncio
import random
import tracemalloc
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rig import Rig, on_virtual_time, team

from apex_framework.interfaces import AgentID, MessagePriority, RouteResult
from apex_framework.runtime import Router
from apex_framework.runtime.pressure import Retries, RetryBudget
from apex_framework.testing.history import HistoryChecker
from apex_framework.timeloop import run
from apex_lanes.drr_wred import DrrWred

CODER = AgentID("coder")
SEVEN = "a b c d e f stuck"
FINAL, DRAFT, CRITIC = MessagePriority


# --- F14: duplicate, reordered, late -------------------------------------------------------------


@on_virtual_time
async def test_f14_a_duplicate_is_delivered_and_flagged() -> None:
    rig = Rig("flat", dedup_cap=100)
    message = rig.message("planner", "coder")
    for _ in range(3):
        rig.router.send(message)
    assert [rig.take("coder").message.redelivered for _ in range(3)] == [False, True, True]
    assert rig.router.audit().duplicates == 2


@on_virtual_time
async def test_f14_a_message_stamped_with_an_old_epoch_belongs_to_the_one_that_admits_it() -> None:
    rig = Rig("flat")
    late = rig.message("planner", "coder")
    assert (await rig.engine.switch_to("star")).ok and (await rig.engine.switch_to("flat")).ok
    assert late.topo_epoch == 0 and rig.router.send(late)
    assert rig.take("coder").message.topo_epoch == rig.router.epoch == 2


@on_virtual_time
async def test_f14_what_comes_back_after_a_switch_is_counted_as_migrated_and_flagged() -> None:
    rig = Rig("flat")
    rig.send("planner", "coder")
    lease = rig.take("coder")
    assert (await rig.engine.switch_to("star")).ok
    rig.router.nack(lease, "late")
    await asyncio.sleep(0.2)
    again = rig.take("coder").message
    assert (again.topo_epoch, again.redelivered) == (1, True) and rig.router.audit().migrated == 1


@given(st.permutations(range(8)))
@settings(deadline=None, max_examples=30)
def test_f14_what_a_carrier_reordered_is_served_as_it_arrived(order: list[int]) -> None:
    async def main() -> None:
        rig = Rig("flat")
        messages = [rig.message("planner", "coder") for _ in order]
        for place in order:
            rig.router.send(messages[place])
        assert [rig.pass_on("coder") for _ in order] == [messages[place].msg_id for place in order]

    run(main())


# --- F15: expiry ---------------------------------------------------------------------------------

Fate = tuple[str, float, float]


@given(
    st.lists(
        st.tuples(st.sampled_from(["queued", "in hands", "retry"]), st.floats(0.0, 4.0), st.floats(0.0, 4.0)),
        min_size=1,
        max_size=8,
    )
)
@settings(deadline=None, max_examples=60)
def test_f15_wherever_its_time_runs_out_a_message_ends_once(fates: list[Fate]) -> None:
    """Queued it expires; in an agent's hands its time stands still; in backoff it goes on: one end for each."""
    ends: Counter[str] = Counter()

    async def main() -> None:
        rig = Rig("flat", ttl_s=2.0, lease_s=3.0, on_event=lambda e: ends.update([e.what] * (e.what in ENDS)))
        for where, before, after in fates:
            rig.send("planner", "coder")
            await asyncio.sleep(before)
            lease = None if where == "queued" else rig.router.try_lease(CODER)
            if lease is not None:
                await asyncio.sleep(after)
                if where == "retry":
                    rig.router.nack(lease, "again")
                rig.router.ack(lease)
            rig.router.audit()
        while rig.router.open:
            await asyncio.sleep(1.5)
            if (lease := rig.router.try_lease(CODER)) is not None:
                rig.router.ack(lease)
        stats = rig.router.audit()
        assert stats.admitted == len(fates) == ends.total() == stats.acked + stats.dead.get("expired", 0)

    run(main())


ENDS = ("acked", "dead")


@on_virtual_time
async def test_f15_an_acknowledgement_after_the_lease_counts_until_the_message_is_given_out_again() -> None:
    rig = Rig("flat", lease_s=1.0, ttl_s=0.5)
    rig.send("planner", "coder")
    first = rig.take("coder")
    await asyncio.sleep(5)
    assert rig.idle("coder")  # looking ends the lease: the message is in backoff now
    assert not rig.router.ack(first)
    await asyncio.sleep(0.2)
    second = rig.take("coder")
    await asyncio.sleep(5)
    assert rig.router.ack(second) and not rig.router.ack(second) and not rig.router.nack(second, "late")
    stats = rig.router.audit()
    assert (stats.acked, stats.late, stats.dead) == (1, 3, {})


@on_virtual_time
async def test_f15_a_lease_of_another_router_is_unknown() -> None:
    here, there = Rig("flat"), Rig("flat")
    for rig in (here, there):
        rig.send("planner", "coder")
    foreign = there.take("coder")
    mine = here.take("coder")
    assert not here.router.ack(foreign) and not here.router.nack(foreign, "x") and here.router.ack(mine)
    here.router.renew(foreign)
    assert here.router.audit().late == 3 and there.router.audit().leased == 1 and there.router.ack(foreign)


# --- F16: a storm of retries ---------------------------------------------------------------------


async def storm(budget: RetryBudget | None, messages: int, arrivals_s: float = 0.0) -> tuple[Rig, list[float], float]:
    """Everything fails at once; returns when which retry was handed out, and how long it took."""
    rig = Rig("flat", retry_budget=budget, ttl_s=600.0, capacity=messages)
    retries: list[float] = []

    async def consume(agent: AgentID) -> None:
        while (lease := await rig.router.lease(agent)) is not None:
            if lease.message.attempt:
                retries.append(rig.clock.monotonic())
            rig.router.nack(lease, "everything fails")
            rig.router.audit()

    async with asyncio.TaskGroup() as group:
        consumers = [group.create_task(consume(agent)) for agent in rig.roster.ids]
        for number in range(messages):
            rig.send("planner", rig.roster.ids[1 + number % 4])
            if arrivals_s:
                await asyncio.sleep(arrivals_s)
        while rig.router.open:  # noqa: ASYNC110 - virtual time: nothing else says that everything has ended
            await asyncio.sleep(1)
        took = rig.clock.monotonic()
        rig.router.close_episode()
        await asyncio.wait(consumers)
    assert rig.router.audit().dead == {"max_retries": messages}
    return rig, retries, took


def peak(retries: list[float]) -> int:
    """Most retries within a millisecond."""
    return max(Counter(int(at * 1000) for at in retries).values())


def test_f16_jitter_spreads_a_storm() -> None:
    _, retries, _ = run(storm(None, 400))
    assert len(retries) == 1600 and peak(retries) < 60


def test_f16_without_jitter_it_would_strike_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random.Random, "uniform", lambda self, low, high: 1.0)
    _, retries, _ = run(storm(None, 400))
    assert peak(retries) == 400


def bounded(budget: RetryBudget, messages: int, arrivals_s: float) -> bool:
    _, retries, _ = run(storm(budget, messages, arrivals_s))
    allowed = True
    for seen, at in enumerate(retries, 1):
        firsts = min(messages, int(at / arrivals_s) + 1)
        allowed &= seen <= budget.reserve + budget.ratio * firsts + budget.floor_per_s * at + 1
    return allowed


@pytest.mark.parametrize("arrivals_s", [0.001, 0.01])
def test_f16_retries_are_at_most_a_tenth_of_deliveries_beyond_the_floor_and_nothing_is_lost(arrivals_s: float) -> None:
    assert bounded(RetryBudget(ratio=0.1, floor_per_s=5.0, reserve=10.0), 300, arrivals_s)


def test_f16_a_budget_that_nobody_asks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Retries, "spend", lambda self, now: True)
    assert not bounded(RetryBudget(ratio=0.1, floor_per_s=5.0, reserve=10.0), 300, 0.001)


# --- F17, F18, F20: one of seven is slow, never acknowledges, or is poisoned ------------------------


async def seven(
    sick: Callable[[Rig, Any], Any] | None, seconds: float = 20.0, **router: Any
) -> tuple[Rig, Counter[str]]:
    """Seven agents, each sent to a thousand times a second, 0.5 ms a message; ``sick`` handles for ``stuck``."""
    options = {"capacity": 500, "lanes": DrrWred(), "on_event": None, **router}
    rig = Rig("flat", team(SEVEN), **options)
    done: Counter[str] = Counter()

    async def consume(agent: AgentID) -> None:
        while (lease := await rig.router.lease(agent)) is not None:
            if agent == "stuck" and sick is not None:
                await sick(rig, lease)
            else:
                await asyncio.sleep(0.0005)
                rig.router.ack(lease)
                done[agent] += 1

    async with asyncio.TaskGroup() as group:
        consumers = [group.create_task(consume(agent)) for agent in rig.roster.ids]
        for number in range(int(seconds * 1000)):
            for agent in rig.roster.ids:
                sender = "a" if agent != "a" else "b"
                rig.send(sender, agent, priority=list(MessagePriority)[number % 3])
            await asyncio.sleep(0.001)
        for consumer in consumers:
            consumer.cancel()
    rig.router.audit()
    return rig, done


async def slow(rig: Rig, lease: Any) -> None:
    await asyncio.sleep(5.0)
    rig.router.ack(lease)


async def never_acks(rig: Rig, lease: Any) -> None:
    await asyncio.sleep(0.01)


async def poisoned(rig: Rig, lease: Any) -> None:
    rig.router.nack(lease, "ZeroDivisionError")


@pytest.mark.parametrize("sick", [slow, never_acks, poisoned])
def test_f17_f18_f20_the_other_six_keep_their_throughput(sick: Callable[[Rig, Any], Any]) -> None:
    _, healthy = run(seven(None, 2.0))
    _, others = run(seven(sick, 2.0))
    for agent in SEVEN.split()[:-1]:
        assert others[agent] >= 0.99 * healthy[agent] > 1900


def test_f17_a_slow_consumer_holds_no_more_than_its_lane_and_everybody_knows_what_was_refused() -> None:
    rig, _ = run(seven(slow, 3.0))
    stats = rig.router.stats
    assert rig.router.waiting(AgentID("stuck")) <= 500
    assert stats.lanes["stuck"] > 0.6 and all(stats.lanes[agent] < 0.02 for agent in SEVEN.split()[:-1])
    assert sum(stats.refused.values()) == 7 * 3000 - stats.admitted > 2000


def test_f17_memory_is_bounded_by_the_byte_cap_however_long_it_goes_on() -> None:
    """4 KB payloads, never the same object: one second more of overload keeps not one message more."""

    async def overload(messages: int) -> int:
        rig = Rig("flat", lane_bytes=400_000, on_event=None)
        tracemalloc.start()
        for _ in range(messages):
            rig.send("planner", "coder", {"t": "x" * random.Random(1).randint(4000, 4001)})
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return kept

    short, long = run(overload(200)), run(overload(2000))
    assert short < 1_000_000 and long < short * 1.1


@on_virtual_time
async def test_f18_what_is_never_acknowledged_comes_again_five_times_and_dies_with_its_reason() -> None:
    rig = Rig("flat", lease_s=1.0)
    rig.send("planner", "coder")
    flags = []
    for _ in range(5):
        lease = await rig.router.lease(CODER)
        assert lease is not None
        flags.append(lease.message.redelivered)
    await asyncio.sleep(1.1)
    assert rig.idle("coder")
    assert flags == [False, True, True, True, True]
    assert rig.router.audit().dead == {"max_retries": 1}
    assert [event.reason for event in rig.events if event.what == "nacked"] == ["lease_expired"] * 5


@on_virtual_time
async def test_f19_a_full_queue_refuses_early_the_least_urgent_first_and_tells_the_sender() -> None:
    rig = Rig("flat", lanes=DrrWred(), capacity=1000)
    answers: dict[MessagePriority, Counter[RouteResult]] = {p: Counter() for p in MessagePriority}
    for number in range(6000):
        priority = list(MessagePriority)[number % 3]
        answers[priority][rig.send("planner", "coder", priority=priority)] += 1
    shed = {priority: answers[priority][RouteResult.WRED] for priority in MessagePriority}
    assert shed[CRITIC] > shed[DRAFT] > shed[FINAL]
    stats = rig.router.audit()
    assert stats.admitted <= 1000 and stats.refused["dropped_wred"] == sum(shed.values())
    for priority in MessagePriority:
        one, told = stats.classes[priority], answers[priority]
        assert one.refused == told[RouteResult.WRED] + told[RouteResult.FULL]
        assert one.admitted == told[RouteResult.ENQUEUED]


@on_virtual_time
async def test_f19_an_admitted_message_is_never_shed() -> None:
    checker = HistoryChecker(team())
    rig = Rig("flat", lanes=DrrWred(), capacity=50, on_event=checker)
    for number in range(500):
        rig.send("planner", "coder", priority=list(MessagePriority)[number % 3])
    admitted = rig.router.stats.admitted
    for _ in range(admitted):
        rig.pass_on("coder")
    checker.finish()
    assert rig.router.audit().acked == admitted and not checker.violations


@on_virtual_time
async def test_f20_a_poison_message_dies_after_five_deliveries_and_delays_nobody_behind_it() -> None:
    rig = Rig("flat")
    for _ in range(20):
        rig.send("planner", "coder")
    handled = []
    while rig.router.open:
        lease = await rig.router.lease(CODER)
        assert lease is not None
        if lease.message.msg_id == "m1":
            rig.router.nack(lease, "ZeroDivisionError")
        else:
            rig.router.ack(lease)
            handled.append((lease.message.msg_id, rig.clock.monotonic()))
    assert handled == [(f"m{n}", 0.0) for n in range(2, 21)]
    assert rig.router.audit().dead == {"max_retries": 1}
    (letter,) = rig.router.dead_letters
    assert (letter.msg_id, letter.drop_reason, letter.attempt) == ("m1", "max_retries", 5)


def test_f20_a_router_that_tries_for_ever_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def patient(self: Router, *args: Any, **options: Any) -> None:
        init(self, *args, **{**options, "max_attempts": 10**9})

    init = Router.__init__
    monkeypatch.setattr(Router, "__init__", patient)

    async def main() -> None:
        rig = Rig("flat", ttl_s=1e9)
        rig.send("planner", "coder")
        for _ in range(6):
            rig.router.nack(await rig.router.lease(CODER), "poison")  # type: ignore[arg-type]  # there is one
        assert rig.router.audit().dead != {"max_retries": 1}

    run(main())
