"""What the router does under load, all of it off unless asked for: byte caps, the retry budget, the ladder.

The ladder has three rungs, in this order: a sender is made to wait (throttle), the lane refuses (shed),
somebody is told that refusing has not helped (reconfigure).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..events import PressureChanged
from ..interfaces.message import AgentID
from .mailbox import Mailbox

UNBOUNDED = 1 << 62
RUNGS = ("calm", "throttle", "shed", "reconfigure")


def _between(what: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise ValueError(f"{what} is {value!r}, not in [{low}, {high}]")


class Bytes:
    """Payload bytes in front of receivers and at the gate, and their caps.

    A payload counts once for every hop: what waits, is in backoff or in an agent's hands.
    """

    __slots__ = ("lane_cap", "total", "total_cap")

    def __init__(self, lane_cap: int | None, total_cap: int | None) -> None:
        for what, cap in (("lane_bytes", lane_cap), ("total_bytes", total_cap)):
            if cap is not None and cap < 1:
                raise ValueError(f"{what} is {cap!r}, not at least 1 byte")
        self.lane_cap = UNBOUNDED if lane_cap is None else lane_cap
        self.total_cap = UNBOUNDED if total_cap is None else total_cap
        self.total = 0

    def add(self, box: Mailbox | None, size: int) -> None:
        """Count bytes in front of a receiver, or at the gate; fewer when ``size`` is negative."""
        self.total += size
        if box is not None:
            box.bytes += size


@dataclass(frozen=True, slots=True)
class RetryBudget:
    """Bounds retries to a share of first deliveries, as in Finagle's retry budgets, so that failing cannot feed on itself.

    A retry for which there is no budget waits on, with its place, until there is; its time to live goes on.
    """

    ratio: float = 0.1
    """Retries per first delivery."""
    floor_per_s: float = 1.0
    """Retries per second that are granted whatever the deliveries, so that a message alone is tried again."""
    reserve: float = 10.0
    """Retries that can be saved up, and with which a router begins."""

    def __post_init__(self) -> None:
        _between("ratio", self.ratio, 0.0, 1.0)
        _between("floor_per_s", self.floor_per_s, 1e-3, 1e6)
        _between("reserve", self.reserve, 1.0, 1e9)


class Retries:
    """The account of a retry budget, on the router's clock."""

    __slots__ = ("_at", "_budget", "_saved", "resume_at")

    def __init__(self, budget: RetryBudget, now: float) -> None:
        self._budget, self._saved, self._at = budget, budget.reserve, now
        self.resume_at = now
        """No retry before this."""

    def earn(self) -> None:
        """A message was delivered for the first time."""
        self._saved += self._budget.ratio

    def spend(self, now: float) -> bool:
        """Whether a retry may take place now; pays for it, or says in ``resume_at`` when to ask again."""
        budget = self._budget
        self._saved = min(self._saved + (now - self._at) * budget.floor_per_s, budget.reserve)
        self._at = now
        if self._saved < 1.0:
            self.resume_at = now + max(1.0 - self._saved, 0.01) / budget.floor_per_s
            return False
        self._saved -= 1.0
        return True


@dataclass(frozen=True, slots=True)
class Throttle:
    """When senders wait, and when refusing counts as sustained. Occupancy is a lane's taken share, of messages or bytes."""

    above: float = 0.5
    """Occupancy from which ``route`` makes a sender wait; below the lane's own threshold of early refusal."""
    longest_s: float = 0.05
    """The wait at the brim; it grows linearly from ``above``."""
    sheds: int = 100
    """So many refusals in front of one receiver ..."""
    within_s: float = 1.0
    """... within so many seconds ask for another topology, and again after as many seconds."""

    def __post_init__(self) -> None:
        _between("above", self.above, 0.0, 0.999)
        _between("longest_s", self.longest_s, 0.0, 60.0)
        _between("sheds", self.sheds, 1, 1e9)
        _between("within_s", self.within_s, 1e-3, 1e6)


class Pressure:
    """The rung of every receiver. Every change is told: up at once, down to calm when its lane has room again."""

    __slots__ = ("_rungs", "_tell", "_throttle", "_windows")

    def __init__(self, throttle: Throttle, tell: Callable[[PressureChanged], None] | None) -> None:
        self._throttle, self._tell = throttle, tell
        self._rungs: dict[AgentID, int] = {}
        self._windows: dict[AgentID, tuple[float, int]] = {}
        """Receiver -> since when refusals are counted, and how many there were."""

    def rung(self, receiver: AgentID) -> str:
        """Where a receiver stands."""
        return RUNGS[self._rungs.get(receiver, 0)]

    def wait_s(self, episode_id: str, receiver: AgentID, occupancy: float) -> float:
        """How long a sender has to wait, in seconds, before it may send to a receiver."""
        over = occupancy - self._throttle.above
        if over <= 0:
            self._set(episode_id, receiver, occupancy, 0)
            return 0.0
        if not self._rungs.get(receiver):
            self._set(episode_id, receiver, occupancy, 1)
        return self._throttle.longest_s * min(over / (1 - self._throttle.above), 1.0)

    def shed(self, episode_id: str, receiver: AgentID, occupancy: float, now: float) -> None:
        """A lane has refused a message."""
        since, count = self._windows.get(receiver, (now, 0))
        if now - since >= self._throttle.within_s:
            since, count = now, 0
        self._windows[receiver] = (since, count + 1)
        if count + 1 == self._throttle.sheds:
            self._set(episode_id, receiver, occupancy, 3, again=True)
        elif self._rungs.get(receiver, 0) < 2:
            self._set(episode_id, receiver, occupancy, 2)

    def _set(self, episode_id: str, receiver: AgentID, occupancy: float, rung: int, *, again: bool = False) -> None:
        if self._rungs.get(receiver, 0) != rung or again:
            self._rungs[receiver] = rung
            if rung == 0:
                self._windows.pop(receiver, None)
            if self._tell is not None:
                self._tell(PressureChanged(episode_id, RUNGS[rung], receiver, min(occupancy, 1.0)))
