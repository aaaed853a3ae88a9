"""Stop sequences in a text that comes in pieces."""

from __future__ import annotations

from collections.abc import Sequence


class StopCutter:
    """Holds back what may be the beginning of a stop sequence, so that no part of one is ever passed on."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._held = ""
        self.stopped = False
        """A stop sequence was met; nothing comes after it."""

    def feed(self, text: str) -> str:
        """What of the text so far can be passed on."""
        if self.stopped or not self._stops:
            return "" if self.stopped else text
        self._held += text
        met = [at for stop in self._stops if (at := self._held.find(stop)) >= 0]
        if met:
            self.stopped = True
            passed, self._held = self._held[: min(met)], ""
            return passed
        keep = max(self._beginning(stop) for stop in self._stops)
        cut = len(self._held) - keep
        passed, self._held = self._held[:cut], self._held[cut:]
        return passed

    def rest(self) -> str:
        """What was held back, at the end."""
        rest, self._held = self._held, ""
        return rest

    def _beginning(self, stop: str) -> int:
        """Length of the longest proper beginning of ``stop`` that the held text ends with."""
        longest = min(len(stop) - 1, len(self._held))
        return next((n for n in range(longest, 0, -1) if self._held.endswith(stop[:n])), 0)
