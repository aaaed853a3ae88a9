"""What simulated runs did, and what was wrong."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field

from .faults import FAULTS, Faults
from .invariants import INVARIANTS, Findings
from .trace import Trace

COUNTS = (
    "seeds",
    "steps",
    "events",
    "lives",
    "switches",
    "committed",
    "cancelled",
    "sent",
    "acked",
    "dead",
    "migrated",
)
EXAMPLES_KEPT = 10


@dataclass
class Outcome:
    """What one or many simulated runs did, and what was wrong: nothing, if ``violations`` is empty."""

    seeds: int = 0
    steps: int = 0
    """Callbacks after which everything was checked."""
    events: int = 0
    lives: int = 0
    """Starts, the ones after a crash included."""
    switches: int = 0
    """Switches and wishes for one, whatever came of them."""
    committed: int = 0
    cancelled: int = 0
    sent: int = 0
    acked: int = 0
    dead: int = 0
    migrated: int = 0
    aborted: Counter[str] = field(default_factory=Counter)
    """Switches that did not happen, by reason."""
    faults: Counter[str] = field(default_factory=Counter)
    """How often each fault struck."""
    violations: Counter[str] = field(default_factory=Counter)
    """By invariant."""
    examples: list[str] = field(default_factory=list)
    """The first few violations in words, each with its seed."""
    failed: list[int] = field(default_factory=list)
    """Seeds that broke something: ``simulate(seed=s, seeds=1, …)`` repeats one."""
    trace_hash: str = ""
    """Over every callback and event of all seeds."""

    def add(self, other: Outcome) -> None:
        """Count another outcome in."""
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.aborted.update(other.aborted)
        self.faults.update(other.faults)
        self.violations.update(other.violations)
        self.examples = (self.examples + other.examples)[:EXAMPLES_KEPT]
        self.failed += other.failed
        self.trace_hash = hashlib.blake2b((self.trace_hash + other.trace_hash).encode(), digest_size=16).hexdigest()

    @property
    def silent(self) -> list[str]:
        """Faults that never struck."""
        return sorted(set(FAULTS) - set(self.faults))

    def report(self) -> str:
        """A few lines for a failing test."""
        if not self.violations:
            return f"{self.steps:,} checked steps over {self.seeds:,} seeds: nothing broken"
        lines = [f"{n} x {name}: {INVARIANTS.get(name, '')}" for name, n in self.violations.most_common()]
        return "\n".join([*lines, *self.examples, f"repeat one with seed={self.failed[0]}, seeds=1"])

    def closed(self, seed: int, findings: Findings, faults: Faults, trace: Trace) -> Outcome:
        """One run is over: put together what it found."""
        self.violations.update(findings.violations)
        self.examples = [f"seed {seed}: {example}" for example in self.examples + findings.examples][:EXAMPLES_KEPT]
        self.failed = [seed] if self.violations else []
        self.faults = faults.counts
        self.trace_hash = trace.hash
        return self


def words(error: BaseException) -> str:
    """An error in one line, with those inside a group."""
    inner = "".join(f"; {words(e)}" for e in error.exceptions) if isinstance(error, BaseExceptionGroup) else ""
    return f"{type(error).__name__}: {error}{inner}"
