"""What the kernel sees of a running episode: raw counters, and the observation made of them."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ..errors import Failure
from ..events import CallDenied, CallSettled
from ..interfaces import Observation, ToolResult
from ..runtime import Coordinator, Router
from ..session import Step
from .phases import PhaseTracker

ROLE_WINDOW: Final = 10
"""Handled messages whose roles an observation lists."""

EDITING_TOOLS: Final = frozenset({"fs.write", "fs.patch"})

ANSWERED: Final = frozenset({"ok", "length"})
"""Statuses of calls that have an answer."""


@dataclass
class Watch:
    """Counts what happens; every quantity is the same for the same seed, whatever the machine."""

    topologies: tuple[str, ...]
    token_budget: int
    phases: PhaseTracker = field(default_factory=PhaseTracker)
    step: int = 0
    tokens: int = 0
    message_tokens: int = 0
    calls: int = 0
    denied: int = 0
    denied_tokens: int = 0
    failed: int = 0
    """Calls that have no answer, but for those that were cancelled: their answers nobody waited for."""
    failures: Counter[str] = field(default_factory=Counter)
    """Kind of failure -> how many of them were for the server's sake."""
    overruns: int = 0
    """Calls that cost more than was reserved for them."""
    test_runs: int = 0
    edits: int = 0
    pass_rate: float | None = None
    best_pass_rate: float = 0.0
    switches: int = 0
    aborted: int = 0
    steps_in: Counter[str] = field(default_factory=Counter)
    """Topology -> steps taken under it."""
    _roles: deque[str] = field(default_factory=lambda: deque(maxlen=ROLE_WINDOW))
    _progress_at: int = 0

    def stepped(self, step: Step, topology: str) -> None:
        """A message was handled under this topology."""
        self.step = step.number
        self._roles.append(step.role)
        self.steps_in[topology] += 1
        self.phases.stepped(step.role)

    def used_tool(self, tool: str, result: ToolResult) -> None:
        """An agent used a tool."""
        if tool in EDITING_TOOLS and result.ok:
            self.edits += 1
            self.phases.edited()
        elif tool == "test.run" and result.ok:
            self.test_runs += 1
            rate = float(result.value.get("pass_rate", 0.0))
            if self.test_runs > 1:  # the first run shows the fault; later ones try a change
                self.phases.edited()
            self.phases.tested(rate == 1.0)
            if self.pass_rate is not None and rate > self.best_pass_rate:
                self._progress_at = self.step
            self.pass_rate = rate
            self.best_pass_rate = max(self.best_pass_rate, rate)

    def called(self, event: CallSettled | CallDenied) -> None:
        """A model call was made or refused."""
        if isinstance(event, CallDenied):
            self.denied += 1
            self.denied_tokens += event.estimate
        else:
            self.calls += 1
            self.overruns += event.tokens_in + event.tokens_out > event.reserved
            self.tokens += event.tokens_in + event.tokens_out
            self.message_tokens += min(event.message_tokens, event.tokens_in)
            if event.status not in ANSWERED:
                kind = _failure(event)
                self.failed += kind is not Failure.CANCELLED
                self.failures[kind] += kind.infrastructure

    @property
    def unanswered(self) -> str:
        """Why this episode tells nothing of its arm: no call was answered, and each for the server's sake; else empty."""
        kinds = {kind: count for kind, count in self.failures.items() if count}
        if not self.calls or sum(kinds.values()) < self.calls:
            return ""
        told = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items(), key=lambda pair: -pair[1]))
        return f"none of {self.calls} model calls was answered: {told}"

    def observe(
        self, topology: str, coordinator: Coordinator | None, router: Router | None, headroom: Mapping[str, float]
    ) -> Observation:
        """A snapshot; ``topology`` is empty, and router and coordinator are None, before the first message."""
        return Observation(
            step=self.step,
            topology=topology,
            topologies=self.topologies,
            epoch=router.epoch if router else 0,
            steps_since_switch=coordinator.steps_since_switch if coordinator else 0,
            switches=self.switches,
            can_switch=coordinator.can_switch if coordinator else True,
            recent_roles=tuple(self._roles),
            headroom=dict(headroom),
            tokens_used=self.tokens,
            token_budget=self.token_budget,
            occupancy=router.occupancy() if router else 0.0,
            shed=sum(router.stats.refused.values()) if router else 0,
            denied=self.denied,
            aborted_switches=self.aborted,
            fanout_cut=router.stats.fanout_cut if router else 0,
            test_runs=self.test_runs,
            edits=self.edits,
            pass_rate=self.pass_rate,
            steps_since_progress=self.step - self._progress_at,
            phase=self.phases.phase,
        )


def _failure(event: CallSettled) -> Failure:
    """The kind of a call's failure; a backend may say any text, or nothing."""
    try:
        return Failure(event.failure)
    except ValueError:
        return Failure.CANCELLED if event.status == "cancelled" else Failure.UNKNOWN
