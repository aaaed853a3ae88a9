"""The health pin: while the controller or the runtime is not well, the team works in one dependable topology."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from math import ceil
from typing import TypeVar

from ..errors import ConfigError
from ..events import HealthPinned
from ..ports import Clock
from .evidence import lower_bound

T = TypeVar("T")


class HealthPin:
    """Decides, on evidence alone, whether the topology is pinned; the coordinator carries it out.

    It pins when the 95th percentile (nearest rank) of the last ``window`` decisions' latencies exceeds
    ``latency_limit_ms``, or when the one-sided lower Clopper-Pearson bound of the rate of violations in the
    last ``trials`` trials, at least ``minimum`` of them, exceeds ``violation_limit``. A lower bound, because
    a breach has to be shown: the upper one is above 1 % until 299 trials went well.

    It unpins after ``healthy_windows`` windows of decisions in a row, none of which was slow or had a share
    of violations above the limit; then, as when it pins, evidence is gathered anew.

    The topology is the first of ``prefer`` that the episode has. Raises ConfigError when there is none.
    ``clock`` measures decisions: under virtual time the same seed pins at the same decision.
    """

    def __init__(
        self,
        topologies: Collection[str],
        *,
        clock: Clock,
        prefer: Sequence[str] = ("chain",),
        window: int = 20,
        latency_limit_ms: float = 10.0,
        violation_limit: float = 0.01,
        confidence: float = 0.95,
        minimum: int = 30,
        trials: int = 1000,
        healthy_windows: int = 3,
        episode_id: str = "",
        on_event: Callable[[HealthPinned], None] | None = None,
    ) -> None:
        if min(window, minimum, healthy_windows) < 1 or trials < minimum:
            raise ConfigError("windows and samples of the health pin are at least 1, and trials at least the minimum")
        chosen = [name for name in prefer if name in topologies]
        if not chosen:
            raise ConfigError(
                f"the health pin needs one of {', '.join(prefer)}; the episode has {', '.join(sorted(topologies))}",
                "add it to the topologies, or give another to pin to",
            )
        self.topology = chosen[0]
        """Where the team works while pinned."""
        self.reason = ""
        """The evidence on which it was last pinned or unpinned."""
        self.pins = self.unpins = 0
        """How often it was pinned, and unpinned."""
        self._pinned = False
        self._clock = clock
        self._window, self._healthy_windows = window, healthy_windows
        self._latency_limit_ms, self._violation_limit = latency_limit_ms, violation_limit
        self._confidence, self._minimum = confidence, minimum
        self._latencies: deque[float] = deque(maxlen=window)
        self._trials: deque[bool] = deque(maxlen=trials)
        self._violations = 0
        self._decided = self._healthy = 0
        self._window_trials = self._window_violations = 0
        self._episode_id, self._on_event = episode_id, on_event

    @property
    def pinned(self) -> bool:
        """Whether the topology is pinned."""
        return self._pinned

    def timed(self, decide: Callable[[], T]) -> T:
        """Let the controller decide, and take its time as evidence, also when it raises."""
        started = self._clock.monotonic()
        try:
            return decide()
        finally:
            self.decided((self._clock.monotonic() - started) * 1000)

    def decided(self, latency_ms: float) -> None:
        """One decision took so long."""
        self._latencies.append(latency_ms)
        self._decided += 1
        if self._pinned:
            if self._decided == self._window:
                self._close_window()
        elif len(self._latencies) == self._window and (p95 := self._p95()) > self._latency_limit_ms:
            limit = f"{self._latency_limit_ms:g} ms over {self._window} decisions"
            self._turn(True, f"controller p95 {p95:.1f} ms > {limit}")

    def tried(self, violated: bool) -> None:
        """One thing that could go against a promise was done: did it?"""
        if len(self._trials) == self._trials.maxlen:
            self._violations -= self._trials[0]
        self._trials.append(violated)
        self._violations += violated
        self._window_trials += 1
        self._window_violations += violated
        n = len(self._trials)
        # Only a violation strengthens the evidence, or the sample growing large enough to count.
        if self._pinned or n < self._minimum or not (violated or (n == self._minimum and self._violations)):
            return
        bound = lower_bound(self._violations, n, self._confidence)
        if bound > self._violation_limit:
            share = f"at least {bound:.1%} ({self._confidence:.0%} confidence) > {self._violation_limit:.1%}"
            self._turn(True, f"violations {self._violations} of {n}, {share}")

    def _close_window(self) -> None:
        """While pinned: was the window that ends now a healthy one?"""
        slow = self._p95() > self._latency_limit_ms
        breached = self._window_violations > self._violation_limit * self._window_trials
        self._healthy = 0 if slow or breached else self._healthy + 1
        self._decided = self._window_trials = self._window_violations = 0
        if self._healthy >= self._healthy_windows:
            self._turn(False, f"{self._healthy} healthy windows of {self._window} decisions")

    def _p95(self) -> float:
        return sorted(self._latencies)[ceil(0.95 * len(self._latencies)) - 1]

    def _turn(self, pinned: bool, reason: str) -> None:
        self._pinned, self.reason = pinned, reason
        self.pins += pinned
        self.unpins += not pinned
        self._latencies.clear()
        self._trials.clear()
        self._violations = self._decided = self._healthy = 0
        self._window_trials = self._window_violations = 0
        if self._on_event is not None:
            self._on_event(HealthPinned(self._episode_id, pinned, self.topology, reason))
