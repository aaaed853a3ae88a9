"""admitted = acked + dead + waiting + leased + backoff after every step, whatever is asked and whatever the lane does."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hostile_lanes import HARMLESS, NAMED, Discipline, Honest, RaisesOnTake
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from rig import TOPOLOGIES, team

from apex_framework.errors import PluginError
from apex_framework.interfaces import AgentID, Epoch, Message, MessagePriority
from apex_framework.runtime import Lease, Router, RouteTable
from apex_framework.runtime.gate import EpochGate
from apex_framework.runtime.mailbox import Mailbox, Stopgap
from apex_framework.runtime.pairs import Pairs
from apex_framework.runtime.pressure import RetryBudget, Throttle
from apex_framework.runtime.record import Tally
from apex_framework.testing.history import HistoryChecker
from apex_lanes.drr_wred import DrrWred
from apex_lanes.fifo import Fifo
from apex_transports.inproc import InProcess

PRIORITIES = [*MessagePriority, "urgent", None]
AUDIENCES = ["BROADCAST", "planner", "coder", "coder+critic", "runner", "nobody"]


class Hands:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now


class Conservation(RuleBasedStateMachine):
    """Random operations on a router with random settings; ``lanes`` is what it is given."""

    lanes = st.sampled_from([Fifo(), DrrWred(), DrrWred(thresholds={"draft": 0.0, "critic": 0.0})])
    ordered = True
    named = 0

    @initialize(
        data=st.data(),
        topology=st.sampled_from(sorted(TOPOLOGIES)),
        options=st.fixed_dictionaries(
            {},
            optional={
                "strict_pair_fifo": st.just(True),
                "dedup_cap": st.sampled_from([1, 50]),
                "lane_bytes": st.sampled_from([60, 500]),
                "total_bytes": st.sampled_from([100, 800]),
                "retry_budget": st.just(RetryBudget(0.1, 1.0, 1.0)),
                "throttle": st.just(Throttle(sheds=2)),
            },
        ),
    )
    def start(self, data: Any, topology: str, options: dict[str, Any]) -> None:
        self.clock, self.roster = Hands(), team()
        self.history = HistoryChecker(self.roster, strict_pairs="strict_pair_fifo" in options)
        self.faults = 0
        self.same_team = True
        self.leases: list[Lease] = []
        self.ended: list[Lease] = []
        self.sent = 0
        self.router = Router(
            RouteTable.compile(TOPOLOGIES[topology], self.roster),
            lanes=data.draw(self.lanes),
            transport=InProcess(),
            clock=self.clock,
            rng=random.Random(1),
            capacity=5,
            ttl_s=3.0,
            lease_s=2.0,
            on_event=self.history,
            **options,
        )
        self.gate = EpochGate(self.router)

    def message(self, sender: str, audience: str, priority: Any, size: int) -> Message:
        self.sent += 1
        message = Message("e", f"m{self.sent}", AgentID(sender), AgentID(audience), Epoch(0), {"t": "x" * size})
        message.audience, message.priority, message.created_ts = audience, priority, 0.0
        return message

    def ask(self, call: Any, *arguments: Any) -> Any:
        """Call; a lane's fault is named, and counted."""
        try:
            return call(*arguments)
        except PluginError as fault:
            assert "hostile" in fault.cause and fault.remedy
            self.faults += 1
            return None

    @rule(
        sender=st.sampled_from(["planner", "coder", "critic"]),
        audience=st.sampled_from(AUDIENCES),
        priority=st.sampled_from(PRIORITIES),
        size=st.integers(0, 60),
        count=st.integers(1, 4),
    )
    def send(self, sender: str, audience: str, priority: Any, size: int, count: int) -> None:
        for _ in range(count):
            self.ask(self.router.send, self.message(sender, audience, priority, size))

    @rule(recipient=st.sampled_from(["planner", "coder"]), priority=st.sampled_from(PRIORITIES))
    def inject(self, recipient: str, priority: Any) -> None:
        message = self.message("user", recipient, priority, 3)
        self.ask(self.router.inject, message)

    @rule(agent=st.sampled_from(team().ids), count=st.integers(1, 3))
    def lease(self, agent: AgentID, count: int) -> None:
        for _ in range(count):
            if (lease := self.ask(self.router.try_lease, agent)) is not None:
                self.leases.append(lease)

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), what=st.sampled_from(["ack", "ack", "nack"]))
    def end(self, data: Any, what: str) -> None:
        lease = self.leases.pop(data.draw(st.integers(0, len(self.leases) - 1)))
        live = lease.live
        answer = self.router.ack(lease) if what == "ack" else self.router.nack(lease, "no")
        assert answer is live
        self.ended.append(lease)

    @precondition(lambda self: self.ended)
    @rule(data=st.data(), what=st.sampled_from(["ack", "nack", "renew"]))
    def end_again(self, data: Any, what: str) -> None:
        lease, before = data.draw(st.sampled_from(self.ended)), self.router.stats
        answer = getattr(self.router, what)(lease, *(["again"] if what == "nack" else []))
        assert not answer and self.router.stats == replace(before, late=before.late + 1)

    @rule(seconds=st.sampled_from([0.05, 0.2, 1.0, 2.5]))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    @precondition(lambda self: not self.gate.is_shut)
    @rule()
    def shut(self) -> None:
        self.gate.shut()

    @precondition(lambda self: self.gate.is_shut)
    @rule(
        topology=st.sampled_from([*sorted(TOPOLOGIES), None]),
        members=st.sampled_from(["planner coder runner critic summarizer", "planner coder critic", "coder planner"]),
    )
    def decide(self, topology: str | None, members: str) -> None:
        if topology is None:
            self.gate.abort()
        else:
            self.gate.commit(RouteTable.compile(TOPOLOGIES[topology], team(members)))
            self.same_team &= team(members) == self.roster

    @invariant()
    def everything_is_accounted_for(self) -> None:
        if not hasattr(self, "router"):
            return
        router, stats = self.router, self.router.audit()
        for one in stats.classes.values():
            assert one.admitted == one.acked + one.dead + one.waiting + one.leased + one.backoff
            assert min(one.waiting, one.leased, one.backoff) >= 0
        for total in ("admitted", "acked", "waiting", "leased", "backoff"):
            assert sum(getattr(one, total) for one in stats.classes.values()) == getattr(stats, total)
        assert sum(one.dead for one in stats.classes.values()) == sum(stats.dead.values())
        assert sum(one.refused for one in stats.classes.values()) == sum(stats.refused.values())
        assert router.open == stats.waiting + stats.leased + stats.backoff
        assert stats.waiting - stats.held == sum(
            router.waiting(a) for a in router._boxes
        ) - stats.backoff  # fmt: skip
        if router._bytes is not None:
            exact = {
                agent: sum(e.size for e in box.pending()) + sum(x.message.size for x in box.leases.values())
                for agent, box in router._boxes.items()
            }
            assert {agent: box.bytes for agent, box in router._boxes.items()} == exact
            assert router._bytes.total == sum(exact.values()) + sum(held.size for held in router._next)

    def teardown(self) -> None:
        """Let everybody work: nothing is left after a while."""
        if not hasattr(self, "router"):
            return
        if self.gate.is_shut:
            self.gate.abort()
        for _ in range(100):
            for lease in self.leases:
                self.router.ack(lease)
            self.leases.clear()
            for agent in list(self.router._boxes):
                while (lease := self.ask(self.router.try_lease, agent)) is not None:
                    self.router.ack(lease)
            self.clock.now += 0.1
            if not self.router.open:
                break
        assert not self.router.open, "something waits for ever"
        self.everything_is_accounted_for()
        self.router.close_episode()
        stats = self.router.audit()
        assert stats.waiting == stats.leased == stats.backoff == self.router.open == 0
        self.history.finish()
        if not self.same_team:  # the history knows one roster: who has left need not be reached
            del self.history.violations["lost"]
        if not self.ordered:
            del self.history.violations["reordered"]
        assert not self.history.violations, self.history.examples
        type(self).named += self.faults


def run_machine(machine: type[Conservation], examples: int, phases: tuple[Phase, ...] = tuple(Phase)) -> None:
    chosen = settings(
        max_examples=examples,
        stateful_step_count=30,
        deadline=None,
        database=None,
        phases=phases,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=chosen)  # type: ignore[no-untyped-call]  # Hypothesis has no types here


def test_conservation_holds_after_every_step_with_the_shipped_lanes_and_every_setting() -> None:
    run_machine(Conservation, 200)
    assert Conservation.named == 0


@pytest.mark.parametrize("kind", [*NAMED, *HARMLESS])
def test_a_lane_that_breaks_its_contract_is_named_and_loses_nothing(kind: type[Honest]) -> None:
    class Hostile(Conservation):
        lanes = st.just(Discipline(kind))
        ordered = kind is Honest  # order is the lane's own promise

    run_machine(Hostile, 25)
    assert (Hostile.named > 0) == (kind in NAMED)


def forgets_to_count_an_ack(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Tally, "acked", property(lambda self: 0, lambda self, value: None))


def forgets_a_retry(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Mailbox, "hasten", lambda self, now: self.retries.clear())


def forgets_bytes_of_the_dead(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Router, "_bury", lambda self, box, e, why: self._record.bury(e, why, box.agent, e.size))


def forgets_that_a_pair_may_go_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Pairs, "ready", lambda self: None)


def lets_a_pair_overtake_its_backoff(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Pairs, "serve", lambda self, turn: turn and self._oldest(turn.holder))
    patch.setattr(Pairs, "end", lambda self, envelope: False)


def loses_what_a_broken_lane_had(patch: pytest.MonkeyPatch) -> None:
    init = Stopgap.__init__
    patch.setattr(Stopgap, "__init__", lambda self, messages=(), fault=None: init(self, list(messages)[1:], fault))


def drops_duplicates(patch: pytest.MonkeyPatch) -> None:
    pick = Router._pick
    patch.setattr(
        Router, "_pick", lambda self, box, now: None if (e := pick(self, box, now)) and e.redelivered else e
    )  # fmt: skip


PLANTED = [
    forgets_to_count_an_ack,
    forgets_a_retry,
    forgets_bytes_of_the_dead,
    forgets_that_a_pair_may_go_on,
    lets_a_pair_overtake_its_backoff,
    loses_what_a_broken_lane_had,
    drops_duplicates,
]


@pytest.mark.slow
@pytest.mark.parametrize("bug", PLANTED)
def test_each_planted_bug_is_found(bug: Callable[[pytest.MonkeyPatch], None]) -> None:
    class Planted(Conservation):
        lanes = st.sampled_from([Fifo(), Discipline(RaisesOnTake)])
        ordered = True

    with pytest.MonkeyPatch.context() as patch, pytest.raises((AssertionError, KeyError, AttributeError)):
        bug(patch)
        run_machine(Planted, 2000, (Phase.generate,))


@pytest.mark.slow
@pytest.mark.parametrize("examples", [700, pytest.param(2000, marks=pytest.mark.rest)])
def test_conservation_holds_over_many_more_steps(examples: int) -> None:
    run_machine(Conservation, examples)
