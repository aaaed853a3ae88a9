"""Loops: the same call with the same result, again and again."""

from __future__ import annotations

from collections import deque

from .settings import LOOP_WINDOW


class LoopGuard:
    """Looks back on the last calls, by role: digest of the call, digest of its result.

    A call that changes something and has not been seen with this result before is news: whatever was repeated until
    then may have another result now, and is counted anew. Two calls that take turns are no news the second time.
    """

    def __init__(self, after: int, window: int = LOOP_WINDOW) -> None:
        self._after = after
        self._seen: deque[tuple[str, str, str]] = deque()
        self._window = window
        self._count: dict[tuple[str, str], int] = {}
        self._told: set[tuple[str, str]] = set()

    def times(self, role: str, call: str) -> int:
        """How often this call has had its last result in a row, when that is too often; else 0."""
        if not self._after or self._count.get((role, call), 0) < self._after:
            return 0
        results = [result for who, what, result in self._seen if who == role and what == call]
        times = 0
        for result in reversed(results):
            if result != results[-1]:
                break
            times += 1
        return times if times >= self._after else 0

    def is_news(self, role: str, call: str) -> bool:
        """Whether this loop was not told of yet; from now on it was."""
        known = (role, call) in self._told
        self._told.add((role, call))
        return not known

    def note(self, role: str, call: str, result: str, *, changes: bool) -> None:
        """A call has had a result."""
        if not self._after:
            return
        seen = (role, call, result)
        if changes and seen not in self._seen:
            self._seen.clear()
            self._count.clear()
            self._told.clear()
        elif len(self._seen) == self._window:
            self._forget_one()
        self._seen.append(seen)
        self._count[role, call] = self._count.get((role, call), 0) + 1

    def _forget_one(self) -> None:
        role, call, _ = self._seen.popleft()
        self._count[role, call] -= 1
        if not self._count[role, call]:
            del self._count[role, call]
