"""What models report teaches how far our own counts are off."""

from __future__ import annotations

from collections import deque
from typing import Final

MARGIN: Final = 1.1
"""An estimate is admitted at least this many times as large as it is."""
UNLEARNED: Final = 1.5
"""The same until ``LEAST`` calls have taught better."""
LEAST: Final = 3
ALLOWANCE: Final = 64
"""Tokens that an unknown chat template may add to a prompt."""
WINDOW: Final = 30
DECAY: Final = 0.95


class Line:
    """actual = slope x estimate + offset, by least squares with exponentially decaying weights.

    The offset is a chat template's part. While prompts are all about as long it cannot be told from the slope, and the
    slope alone is fitted: an exponential moving average of actual / estimate, weighted by length.
    """

    def __init__(self) -> None:
        self._n = self._x = self._y = self._xx = self._xy = 0.0

    def add(self, estimate: int, actual: int) -> None:
        """One prompt."""
        x, y = float(estimate), float(actual)
        self._n = self._n * DECAY + 1
        self._x = self._x * DECAY + x
        self._y = self._y * DECAY + y
        self._xx = self._xx * DECAY + x * x
        self._xy = self._xy * DECAY + x * y

    @property
    def slope(self) -> float:
        """Tokens per estimated token, from 1/4 to 4; 1.0 before anything is known."""
        return self._fit()[0]

    def __call__(self, estimate: int) -> int:
        """The estimate, corrected."""
        slope, offset = self._fit()
        return round(slope * estimate + offset)

    def _fit(self) -> tuple[float, float]:
        if not self._x:
            return 1.0, 0.0
        slope, offset = self._y / self._x, 0.0
        spread = self._xx - self._x * self._x / self._n
        if spread > 0.05 * self._xx:
            steep = (self._xy - self._x * self._y / self._n) / spread
            start = (self._y - steep * self._x) / self._n
            if steep > 0 and start >= 0:
                slope, offset = steep, start
        return min(4.0, max(0.25, slope)), offset


class Calibration:
    """One model's counts: ``exact`` ones lack at most a chat template, others are only proportional."""

    def __init__(self, exact: bool) -> None:
        self.exact = exact
        self._line = Line()
        self._added: deque[int] = deque(maxlen=WINDOW)
        self._worst = 1.0
        """How many times the guess, as it is made now, the dearest of the last prompts was."""
        self._seen: deque[tuple[int, int]] = deque(maxlen=WINDOW)

    @property
    def slope(self) -> float:
        """Tokens of a text per counted token."""
        return 1.0 if self.exact else self._line.slope

    def raw(self, counted: int) -> int:
        """The best guess of what the model will report."""
        if self.exact:
            return counted + (sorted(self._added)[len(self._added) // 2] if self._added else 0)
        return self._line(counted)

    def admitted(self, counted: int) -> int:
        """What to reserve: at least ``MARGIN`` above the truth where the count is a guess."""
        if self.exact:
            return counted + max(self._added, default=ALLOWANCE)
        if len(self._seen) < LEAST:
            return -int(-UNLEARNED * self.raw(counted) // 1) + ALLOWANCE
        return -int(-MARGIN * self._worst * self.raw(counted) // 1)

    def learn(self, counted: int, actual: int) -> None:
        """The model reported ``actual`` for a prompt that was counted at ``counted``."""
        if counted < 1 or actual < 1:
            return
        if self.exact:
            self._added.append(max(0, actual - counted))
            return
        self._line.add(counted, actual)
        self._seen.append((counted, actual))
        self._worst = max(1.0, *(min(2.0, actual / max(1, self._line(counted))) for counted, actual in self._seen))
