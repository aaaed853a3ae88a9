"""Decisions of an episode: decision 0 chooses the start, one more after every step, each with what followed it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from ..errors import PluginError
from ..events import DecisionTaken, SwitchFinished
from ..interfaces import STAY, Controller, Decision, Observation, Outcome, Transition
from ..ports import Clock
from ..runtime import Deferred, HealthPin, SwitchResult
from ..session import Step
from .motion import Motion
from .watch import Watch

ELSEWHERE: Final = frozenset({"step", "topology", "topologies", "token_budget"})
"""Of an observation: what a logged decision says beside it, and what the arm has."""
LOGGED: Final = tuple(part.name for part in fields(Observation) if part.name not in ELSEWHERE)
"""Everything else: off-policy values need whatever another controller might decide on."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Counters at the time of a decision."""

    step: int
    tokens: int
    time: float
    best_pass_rate: float
    phases: int
    denied: int
    denied_tokens: int


@dataclass
class Deciding:
    """Asks the controller, checks its answer, carries it out, and pairs every decision with its outcome.

    ``clock`` gives episode time; ``machine`` the machine's, for latencies.
    """

    episode_id: str
    controller: Controller
    watch: Watch
    headroom: Callable[[], Mapping[str, float]]
    clock: Clock
    machine: Clock
    on_event: Callable[[DecisionTaken | SwitchFinished], None]
    transitions: list[Transition] = field(default_factory=list)
    latencies_ms: list[float] = field(default_factory=list)
    _last: tuple[Observation, Decision, Mark] | None = None
    _switched: bool = False
    _aborted: bool = False
    _deferred: bool = False
    _overruns: int = 0

    def open(self) -> Decision:
        """Decision 0, before the first message: where to start."""
        return self._decide(self.watch.observe("", None, None, self.headroom()))

    async def after(self, step: Step, motion: Motion) -> None:
        """Count a step; unless it is the last, decide, and switch if dwell and cooldown allow it.

        A wish that had to wait is carried out as soon as it may, unless a later one replaced it. What health
        or pressure demands comes first.
        """
        coordinator, router = motion.coordinator, motion.router
        self.watch.stepped(step, router.table.name)
        coordinator.step()
        if step.final:
            return
        seen = self.machine.monotonic()
        observation = self.watch.observe(router.table.name, coordinator, router, self.headroom())
        decision = self._decide(observation, (self.machine.monotonic() - seen) * 1000, motion.pin)
        wished = self.clock.monotonic()
        if (forced := await motion.forced()) is not None:
            self._switched_to(step, forced, (self.clock.monotonic() - wished) * 1000)
            wished = self.clock.monotonic()
        if decision.action == STAY:
            result: SwitchResult | Deferred | None = await coordinator.apply_deferred()
        else:
            result = await coordinator.request(decision.action)
        if isinstance(result, SwitchResult):
            self._switched_to(step, result, (self.clock.monotonic() - wished) * 1000)
        elif result is not None and result.reason != "active":
            self._deferred = True

    def _decide(self, observation: Observation, observe_ms: float = 0.0, pin: HealthPin | None = None) -> Decision:
        """The controller's decision. Raises PluginError when it is no decision or names an unknown topology."""
        before = self.machine.monotonic()
        self._close(observation, terminal=False, success=False)
        started = self.machine.monotonic()
        if pin is None:
            decision = self.controller.decide(observation)
        else:
            pin.tried(self.watch.overruns > self._overruns)
            self._overruns = self.watch.overruns
            decision = pin.timed(lambda: self.controller.decide(observation))
        latency = (self.machine.monotonic() - started) * 1000
        self.latencies_ms.append(latency)
        self._check(decision, observation)
        self._last = (observation, decision, self._mark())
        self.on_event(
            DecisionTaken(
                self.episode_id,
                observation.step,
                observation.topology,
                decision.action,
                decision.propensity,
                decision.epsilon,
                dict(decision.scores),
                decision.features,
                latency,
                observe_ms,
                (started - before) * 1000,
                _told(observation),
            )
        )
        return decision

    def _switched_to(self, step: Step, result: SwitchResult, whole_ms: float) -> None:
        self._switched |= result.ok
        self._aborted |= not result.ok
        self.watch.switches += result.ok
        self.watch.aborted += not result.ok
        self.on_event(
            SwitchFinished(
                self.episode_id,
                step.number,
                result.origin,
                result.target,
                result.ok,
                result.epoch,
                result.reason,
                dict(result.stats.phase_ms),
                result.stats.migrated,
                dict(result.stats.dropped_by_reason),
                whole_ms,
            )
        )

    def close(self, success: bool) -> None:
        """The episode is over."""
        self._close(None, terminal=True, success=success)

    def _check(self, decision: Decision, observation: Observation) -> None:
        name = self.controller.name
        if not isinstance(decision, Decision):
            raise PluginError(f"controller {name!r} returned a {type(decision).__name__}, not a Decision")
        if decision.action != STAY and decision.action not in observation.topologies:
            raise PluginError(f"controller {name!r} chose {decision.action!r}, which is not in its topology set")

    def _mark(self) -> Mark:
        w = self.watch
        return Mark(
            w.step, w.tokens, self.clock.monotonic(), w.best_pass_rate, w.phases.advanced, w.denied, w.denied_tokens
        )

    def _close(self, observation: Observation | None, *, terminal: bool, success: bool) -> None:
        if self._last is None:
            return
        before, decision, then = self._last
        now = self._mark()
        outcome = Outcome(
            duration=max(1, now.step - then.step),
            tokens=now.tokens - then.tokens,
            elapsed_ms=(now.time - then.time) * 1000,
            pass_rate_delta=now.best_pass_rate - then.best_pass_rate if then.best_pass_rate or then.step else 0.0,
            phase_advanced=now.phases > then.phases,
            switched=self._switched,
            aborted=self._aborted,
            deferred=self._deferred,
            denied=now.denied - then.denied,
            denied_tokens=now.denied_tokens - then.denied_tokens,
            terminal=terminal,
            success=success,
        )
        transition = Transition(before, decision, outcome, observation)
        self.transitions.append(transition)
        self.controller.learn(transition)
        self._last = None
        self._switched = self._aborted = self._deferred = False


def _told(observation: Observation) -> dict[str, Any]:
    return {name: getattr(observation, name) for name in LOGGED}
