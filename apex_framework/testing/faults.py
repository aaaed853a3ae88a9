"""What may go wrong in a simulated run, drawn from its seed, and how often it did."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from ..ports import derive_seed

FAULTS: Mapping[str, str] = MappingProxyType(
    {
        "drop": "a message is lost before the router admits it",
        "duplicate": "a message reaches the router twice under one id",
        "delay": "a message reaches the router late, timers of others in between",
        "reorder": "two messages of one sender reach the router in the other order",
        "corrupt": "a message does not survive its transport: PayloadError, nothing admitted",
        "oversized": "a message above 512 KB: PayloadTooLargeError, nothing admitted",
        "slow_consumer": "a handler takes a hundred times as long",
        "never_acks": "a lease runs out in its agent's hands",
        "acks_late": "an agent acknowledges after its lease ran out, and once more",
        "exception": "a handler fails: the message comes back after a backoff",
        "poison": "a message fails every handler until its attempts run out",
        "cancel_lease": "a consumer is cancelled while it waits for a message",
        "cancel_switch": "a switch is cancelled at a random await",
        "warm_up_fails": "a warm-up in PREPARE raises",
        "warm_up_hangs": "a warm-up in PREPARE never ends",
        "unknown_target": "a switch to a topology that does not exist",
        "second_switch": "a switch is asked for while one is in flight",
        "agent_gone": "a member leaves the roster with a switch; it may come back with a later one",
        "disk_full": "ENOSPC when the switch log is written",
        "disk_error": "EIO when the switch log is synced",
        "crash": "the process dies between two callbacks; what was not fsynced is lost, kept in part, or out of order",
        "crash_io": "the process dies in an I/O call of the switch log",
        "wall_jump": "the wall clock jumps by up to ten years, either way",
        "clock_pause": "the machine sleeps for up to an hour, and the monotonic clock does not count it",
        "clock_leap": "the machine sleeps for up to an hour, and the monotonic clock counts it: timers come late",
        "equal_ticks": "the clock ticks in steps of 15 ms",
        "overspend": "a call costs more than was reserved for it",
        "abandoned": "a reservation is never settled: it expires, and may be settled late and twice",
        "controller_slow": "the controller's decisions take longer than health allows",
        "sick_agent": "a probe finds an agent of the target unwell, or hangs",
    }
)
"""Fault -> what happens."""


class Faults:
    """The faults of one run: a random half of those allowed, so that each run is sick in a way of its own.

    (Swarm testing: Groce et al., ISSTA 2012.) Everything is drawn from ``seed``. After ``heal`` nothing strikes.
    """

    def __init__(self, seed: int, allowed: Iterable[str] = FAULTS) -> None:
        names = sorted(set(allowed))
        if strangers := set(names) - set(FAULTS):
            raise ValueError(f"no such fault: {', '.join(sorted(strangers))}")
        self._rng = random.Random(derive_seed("faults", seed))
        self.enabled = frozenset(name for name in names if self._rng.random() < 0.5)
        self.counts: Counter[str] = Counter()
        """Fault -> how often it struck."""

    def strikes(self, name: str, chance: float) -> bool:
        """Whether a fault happens now; counted when it does."""
        if name not in self.enabled or self._rng.random() >= chance:
            return False
        self.counts[name] += 1
        return True

    def heal(self) -> None:
        """From now on everything goes well."""
        self.enabled = frozenset()
