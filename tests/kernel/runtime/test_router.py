"""Every message is routed by the table, kept in order, and ends in exactly one way."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rig import Rig, on_virtual_time, team

from apex_framework.errors import PayloadError, PayloadTooLargeError, UnknownNameError
from apex_framework.interfaces import MAX_PAYLOAD_BYTES, AgentID, Roster, RouteResult, Routes, Ruling
from apex_framework.runtime import RouteTable
from apex_framework.timeloop import run
from apex_transports.pipe import Pipe

CODER, PLANNER = AgentID("coder"), AgentID("planner")


@on_virtual_time
async def test_a_star_message_passes_the_hub_which_is_a_relay() -> None:
    rig = Rig("star")
    assert rig.send("coder", "critic+runner", {"text": "x"}) is RouteResult.ENQUEUED
    relay = rig.take("planner")
    assert relay.is_relay and relay.message.via is None and relay.message.recipient == "planner"
    assert rig.idle("critic")
    rig.router.ack(relay)
    for agent in ("runner", "critic"):
        lease = rig.take(agent)
        assert not lease.is_relay
        assert (lease.message.sender, lease.message.via, lease.message.audience) == (
            "coder",
            "planner",
            "critic+runner",
        )
        rig.router.ack(lease)
    stats = rig.router.audit()
    assert (stats.admitted, stats.acked, stats.forwarded, stats.bytes) == (3, 3, 2, 3 * len('{"text":"x"}'))


@on_virtual_time
async def test_a_member_that_is_meant_serves_those_behind_it() -> None:
    rig = Rig("chain")
    rig.send("planner", "BROADCAST")
    for agent in ("coder", "runner", "critic", "summarizer"):
        lease = rig.take(agent)
        assert not lease.is_relay
        rig.router.ack(lease)
    assert rig.idle("planner")
    assert rig.router.audit().acked == 4


@on_virtual_time
async def test_flat_serves_two_and_rotates_over_the_rest() -> None:
    rig = Rig("flat")
    seen = []
    for _ in range(4):
        rig.send("planner", "BROADCAST")
        seen.append([a for a in rig.roster.ids if not rig.idle(a)])
    assert seen == [["coder", "runner"], ["critic", "summarizer"]] * 2
    assert rig.router.stats.fanout_cut == 8


@on_virtual_time
async def test_nobody_meant_is_no_route() -> None:
    rig = Rig("flat")
    assert rig.send("coder", "coder") is RouteResult.NO_ROUTE
    assert rig.send("coder", "nobody") is RouteResult.NO_ROUTE
    assert rig.send("stranger", "coder") is RouteResult.NO_ROUTE
    assert rig.router.audit().refused == {"dropped_no_route": 3}


class Islands:
    """Coder and runner reach each other and nobody else."""

    name = "islands"

    def routes(self, roster: Roster) -> Routes:
        return Routes({CODER: (AgentID("runner"),), AgentID("runner"): (CODER,)})


@on_virtual_time
async def test_who_can_be_reached_is_served_and_the_rest_counted() -> None:
    rig = Rig("star")
    rig.router._table = RouteTable.compile(Islands(), rig.roster)
    rig.router._plans = rig.router._table.plans
    assert rig.send("coder", "BROADCAST")
    assert rig.pass_on("runner") == "m1"
    assert rig.router.audit().refused == {"dropped_no_route": 3}


@on_virtual_time
async def test_messages_from_outside_go_straight_to_their_recipient() -> None:
    rig = Rig("star")
    assert rig.router.inject(rig.message("user", "planner", {"issue": "x"}))
    assert rig.router.inject(rig.message("user", "nobody")) is RouteResult.NO_ROUTE
    lease = rig.take("planner")
    assert not lease.is_relay and lease.message.sender == "user"


@pytest.mark.parametrize(("size", "fits"), [(MAX_PAYLOAD_BYTES, True), (MAX_PAYLOAD_BYTES + 1, False)])
def test_the_size_guard_is_exact(size: int, fits: bool) -> None:
    async def main() -> None:
        rig = Rig("flat")
        payload = {"t": "x" * (size - len('{"t":""}'))}
        for door in (rig.router.send, rig.router.inject):
            if fits:
                assert door(rig.message("planner", "coder", payload))
            else:
                with pytest.raises(PayloadTooLargeError):
                    door(rig.message("planner", "coder", payload))
        rig.router.audit()

    run(main())


@on_virtual_time
async def test_a_payload_must_be_json() -> None:
    rig = Rig("flat")
    with pytest.raises(PayloadError):
        rig.send("planner", "coder", {"x": object()})
    assert rig.router.audit().admitted == 0


@on_virtual_time
async def test_a_full_lane_refuses_and_a_policy_denies() -> None:
    rig = Rig("flat", capacity=2, allow=lambda m: Ruling(m.sender != "critic", "quiet"))
    assert [rig.send("planner", "coder") for _ in range(3)] == [RouteResult.ENQUEUED] * 2 + [RouteResult.FULL]
    assert rig.router.occupancy() == 1.0
    assert rig.send("critic", "runner") is RouteResult.POLICY
    assert rig.events[-1].reason == "quiet"
    assert rig.router.audit().refused == {"dropped_full": 1, "dropped_policy": 1}


@on_virtual_time
async def test_a_relay_is_never_refused_what_it_forwards() -> None:
    rig = Rig("star", capacity=1)
    rig.send("coder", "critic")
    lease = rig.take("planner")
    assert rig.send("planner", "critic")
    rig.router.ack(lease)
    assert [rig.pass_on("critic"), rig.pass_on("critic")] == ["m2", "m1"]


@on_virtual_time
async def test_a_refused_handling_is_tried_five_times_with_growing_jittered_pauses() -> None:
    rig = Rig("flat")
    rig.send("planner", "coder")
    times = []
    for attempt in range(5):
        lease = await rig.router.lease(CODER)
        assert lease is not None
        assert (lease.message.attempt, lease.message.redelivered) == (attempt, attempt > 0)
        times.append(rig.clock.monotonic())
        rig.router.nack(lease, "failed")
        rig.router.audit()
    pauses = [b - a for a, b in itertools.pairwise(times)]
    for pause, nominal in zip(pauses, (0.1, 0.2, 0.4, 0.8), strict=True):
        assert nominal * 0.9 <= pause <= nominal * 1.1
    assert len({round(p / n, 6) for p, n in zip(pauses, (0.1, 0.2, 0.4, 0.8), strict=True)}) > 1
    assert rig.router.audit().dead == {"max_retries": 1}
    assert rig.router.dead_letters[0].drop_reason == "max_retries"


@on_virtual_time
async def test_later_messages_overtake_one_in_backoff_which_is_served_first_when_due() -> None:
    rig = Rig("flat")
    for _ in range(3):
        rig.send("planner", "coder")
    rig.router.nack(rig.take("coder"), "busy")
    assert rig.pass_on("coder") == "m2"
    await asyncio.sleep(0.2)
    assert [rig.pass_on("coder"), rig.pass_on("coder")] == ["m1", "m3"]


@on_virtual_time
async def test_a_message_expires_in_its_lane() -> None:
    rig = Rig("flat", ttl_s=1.0)
    rig.send("planner", "coder")
    await asyncio.sleep(1.5)
    assert rig.idle("coder")
    assert rig.router.audit().dead == {"expired": 1}


@on_virtual_time
async def test_time_to_live_stands_still_while_the_receiver_holds_a_lease() -> None:
    rig = Rig("flat", ttl_s=1.0)
    rig.send("planner", "coder")
    lease = rig.take("coder")
    rig.send("planner", "coder")
    await asyncio.sleep(100)
    rig.router.ack(lease)
    await asyncio.sleep(0.9)
    assert rig.pass_on("coder") == "m2"


@on_virtual_time
async def test_expiry_set_by_the_sender_is_respected() -> None:
    rig = Rig("flat")
    await asyncio.sleep(5)
    assert rig.send("planner", "coder", expires_ts=4.0) is RouteResult.EXPIRED
    rig.send("planner", "coder", expires_ts=6.0)
    await asyncio.sleep(1.1)
    assert rig.idle("coder")
    assert rig.router.audit().dead == {"expired": 1}


@on_virtual_time
async def test_a_lease_that_runs_out_comes_back_and_cannot_be_acknowledged() -> None:
    rig = Rig("flat", lease_s=2.0)
    rig.send("planner", "coder")
    lost = rig.take("coder")
    again = await rig.router.lease(CODER)
    assert again is not None and again.message.redelivered
    assert rig.router.ack(lost) is False and rig.router.nack(lost, "late") is False
    await asyncio.sleep(1.9)
    rig.router.renew(again)
    await asyncio.sleep(1.9)
    assert rig.router.ack(again) is True
    assert rig.router.audit().acked == 1


@on_virtual_time
async def test_dequeue_is_a_lease_without_waiting() -> None:
    rig = Rig("flat")
    assert await rig.router.dequeue(CODER) is None
    rig.send("planner", "coder")
    message = await rig.router.dequeue(CODER)
    assert message is not None and message.msg_id == "m1"
    assert rig.router.audit().leased == 1


@on_virtual_time
async def test_a_cancelled_wait_passes_its_wake_up_on() -> None:
    rig = Rig("flat")
    first = asyncio.ensure_future(rig.router.lease(CODER))
    second = asyncio.ensure_future(rig.router.lease(CODER))
    await asyncio.sleep(0)
    rig.send("planner", "coder")
    first.cancel()
    lease = await second
    assert lease is not None and lease.message.msg_id == "m1"
    assert first.cancelled()


@on_virtual_time
async def test_the_end_of_the_episode_ends_every_message() -> None:
    rig = Rig("star")
    waiting = asyncio.ensure_future(rig.router.lease(AgentID("runner")))
    for audience in ("planner", "planner", "critic"):
        rig.send("coder", audience)
    held = rig.take("planner")
    rig.router.nack(rig.take("planner"), "again")
    rig.router.close_episode()
    rig.router.close_episode()
    assert rig.router.audit().dead == {"episode_over": 3}
    assert await waiting is None
    assert rig.router.ack(held) is False
    assert rig.send("coder", "planner") is RouteResult.CLOSED
    assert rig.idle("planner")


@on_virtual_time
async def test_strangers_have_no_mailbox() -> None:
    with pytest.raises(UnknownNameError):
        Rig("flat").router.try_lease(AgentID("codre"))


@on_virtual_time
async def test_over_a_transport_without_shared_memory_the_receiver_gets_a_copy() -> None:
    rig = Rig("flat", transport=Pipe())
    payload = {"list": [1, 2]}
    rig.send("planner", "coder", payload)
    message = rig.take("coder").message
    assert message.payload == payload and message.payload is not payload


@given(st.lists(st.tuples(st.sampled_from(["send", "lease", "ack", "nack", "wait"]), st.integers(0, 4)), max_size=60))
@settings(max_examples=60, deadline=None)
def test_conservation_holds_after_every_step(steps: list[tuple[str, int]]) -> None:
    async def main() -> None:
        rig = Rig("chain", capacity=5, ttl_s=3.0, lease_s=2.0)
        leases = []
        for what, number in steps:
            agent = rig.roster.ids[number]
            if what == "send":
                rig.send(agent, ("BROADCAST", "planner", "coder+critic", "runner", "nobody")[number])
            elif what == "lease" and (lease := rig.router.try_lease(agent)) is not None:
                leases.append(lease)
            elif what == "ack" and leases:
                rig.router.ack(leases.pop(number % len(leases)))
            elif what == "nack" and leases:
                rig.router.nack(leases.pop(number % len(leases)), "no")
            elif what == "wait":
                await asyncio.sleep(number / 2)
            rig.router.audit()
        rig.router.close_episode()
        stats = rig.router.audit()
        assert stats.waiting == stats.leased == stats.backoff == 0

    run(main())


@given(st.lists(st.sampled_from(["coder", "runner"]), min_size=1, max_size=30))
@settings(max_examples=30, deadline=None)
def test_I3_first_in_first_out_per_sender_and_receiver(senders: list[str]) -> None:
    async def main() -> None:
        rig = Rig("flat", team("planner coder runner"))
        for sender in senders:
            rig.send(sender, "planner")
        got = [rig.pass_on("planner") for _ in senders]
        assert got == [f"m{i + 1}" for i in range(len(senders))]

    run(main())
