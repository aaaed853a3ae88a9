"""The phase of an episode by simple rules, for baselines and rewards; learned controllers do not look at it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

WINDOW: Final = 5
"""Handled messages that the rules look at."""

PHASES: Final = ("planning", "implementation", "debug")


@dataclass
class PhaseTracker:
    """Planning, implementation or debug, judged over what happened since the phase began.

    Taken literally, "no test run yet" never lets go of planning before a test run and "failing tests"
    never lets go of debug after one; so events count from the beginning of the phase on. The nearest
    later phase whose rule holds is entered: a change and its failing test come as one event, and would
    otherwise tie implementation and debug for ever. Back goes only what no longer holds, to the one
    earlier phase that does; ties keep the phase.
    """

    phase: str = "planning"
    advanced: int = 0
    """How often a later phase than any before was entered."""
    _roles: deque[str] = field(default_factory=lambda: deque(maxlen=WINDOW))
    _edits: int = 0
    _failing_runs: int = 0
    _furthest: int = 0

    def edited(self) -> None:
        """A change was proposed or made."""
        self._edits += 1

    def tested(self, all_passed: bool) -> None:
        """Tests were run."""
        self._failing_runs += not all_passed

    def stepped(self, role: str) -> str:
        """A message was handled by this role; returns the phase after it."""
        self._roles.append(role)
        count = len(self._roles)
        planner = sum(r in ("planner", "manager") for r in self._roles) / count
        workers = sum(r in ("coder", "runner") for r in self._roles) / count
        critic = sum(r == "critic" for r in self._roles) / count
        holds = {
            "planning": planner >= 0.60,
            "implementation": workers >= 0.50 and self._edits > 0,
            "debug": critic >= 0.40 or (self._failing_runs > 0 and self._edits > 0),
        }
        at = PHASES.index(self.phase)
        later = [p for p in PHASES[at + 1 :] if holds[p]]
        earlier = [p for p in PHASES[:at] if holds[p] and not holds[self.phase]]
        if later:
            self._enter(later[0])
        elif len(earlier) == 1:
            self._enter(earlier[0])
        return self.phase

    def _enter(self, phase: str) -> None:
        self.phase = phase
        self._edits = self._failing_runs = 0
        rank = PHASES.index(phase)
        if rank > self._furthest:
            self._furthest = rank
            self.advanced += 1
