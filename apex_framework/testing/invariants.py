"""What must hold in a simulated run, by name; and where violations are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

INVARIANTS: Mapping[str, str] = {
    "conservation": "admitted = acked + dead + waiting + leased + backoff, and each counter is what the events say",
    "early": "I2: no message of epoch N+1 is delivered while one of epoch N waits",
    "wrong_epoch": "what is delivered belongs to the epoch in force; epochs grow one by one, at COMMIT only",
    "reordered": "I3: first in, first out per (hop sender, receiver, priority, epoch), over COMMIT and ABORT",
    "lost": "every admitted message ends, and reaches its audience unless a hop of it died",
    "phantom": "no delivery and no end of what is not there",
    "off_route": "every hop is an edge of the topology in force, within its fan-out",
    "attempts": "at most max_attempts deliveries; max_retries after exactly so many",
    "backoff": "a retry waits for 0.1 s x 2^n, at most 10 % less",
    "expiry": "nothing dies before its time to live or is delivered after it",
    "lease": "a lease does not end before its time; what ended is not acknowledged",
    "capacity": "a lane holds no more new messages than its capacity, and none is refused as full before",
    "flag": "what was delivered before is flagged redelivered, and nothing else is",
    "payload": "a receiver gets what was sent",
    "one_switch": "at most one switch is in flight",
    "result": "a switch answers as it ended: ok with the next epoch, or not ok with the old one and a reason",
    "durable": "the epoch in force is that of the last COMMIT record, after a crash too",
    "dwell": "a topology stays for its dwell, and cooldown passes between attempts",
    "budget": "I4: used + reserved <= limit in every scope; a settlement counts once; replay rebuilds the ledger",
    "pin": "I5: while health is pinned the topology is the safe one",
    "idle": "no message waits in the lane of an agent that waits for one",
    "liveness": "when nothing goes wrong any more, everything finishes",
    "agent": "an agent handles whatever comes without raising, and its snapshot restores it",
    "harness": "the simulated code raised something that its contract does not name",
}
"""Violation -> the guarantee that it breaks."""


@dataclass
class Findings:
    """Violations by name, and the first few in words."""

    violations: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    closed: bool = False
    """Nothing counts any more."""

    def blame(self, kind: str, what: str) -> None:
        """Count one."""
        if self.closed:
            return
        self.violations[kind] += 1
        if len(self.examples) < 10:
            self.examples.append(f"{kind}: {what}")
