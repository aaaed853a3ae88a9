"""How likely each edit is: suspicion of its line x prior of its operator x hints of the failure."""

from __future__ import annotations

import math
from random import Random
from typing import Final

from .evidence import Evidence, same_file
from .fragment import Fragment
from .hints import Hints
from .proposal import Proposal

PRIORS: Final[dict[str, float]] = {
    "comparison": 1.0,
    "negation": 0.9,
    "off_by_one": 0.85,
    "boolean": 0.85,
    "arithmetic": 0.8,
    "wrong_name": 0.6,
    "constant": 0.6,
    "boundary_slice": 0.6,
    "argument_swap": 0.5,
    "missing_return": 0.45,
    "missing_guard": 0.35,
}
"""Weight of each operator: small changes of conditions and bounds before anything that adds code. A
matter of judgement, not of measurement on any suite."""

UNLISTED: Final = 0.3
"""Suspicion of an unlisted line relative to the lowest listed: a list is cut short, so it says of the others
only that they are no more suspicious."""
ELSEWHERE: Final = 0.1
"""The same in a file of which no line is listed."""
TIE: Final = 0.1
"""Scores this close (as a fraction) are in the hands of the seed."""
REPEAT: Final = 0.85
"""Factor for each candidate of the same line and operator that an answer already holds."""


class Suspicion:
    """Suspicion of the rows of one fragment, 0 to 1."""

    def __init__(self, source: Fragment, evidence: Evidence) -> None:
        self._rows = self._measured(source, evidence) or self._from_frames(source, evidence)
        for (path, line), place in evidence.causes.items():
            row = line - source.first
            if same_file(path, source.path) and row in self._rows:
                self._rows[row] *= 1.5 / (1 + 0.2 * place)
        name = f"{source.path}::{source.qualname}"
        self._factor = 1.4 if any(focus == name or name.endswith("/" + focus) for focus in evidence.focus[:1]) else 1.0

    @staticmethod
    def _measured(source: Fragment, evidence: Evidence) -> dict[int, float]:
        """From SUSPICIOUS lines; empty when none is of this file."""
        listed = {line: s for (path, line), s in evidence.suspicion.items() if same_file(path, source.path)}
        if not evidence.suspicion:
            return {}
        rest = min(evidence.suspicion.values()) * (UNLISTED if listed else ELSEWHERE)
        return {row: listed.get(source.first + row, rest) for row in range(len(source.lines))}

    @staticmethod
    def _from_frames(source: Fragment, evidence: Evidence) -> dict[int, float]:
        """From the tracebacks' lines: less with distance and depth; without any, all rows alike."""
        rows = dict.fromkeys(range(len(source.lines)), 0.3)
        for frame in evidence.frames:
            if same_file(frame.path, source.path):
                for row in rows:
                    near = math.exp(-abs(source.first + row - frame.line) / 3) / (1 + 0.5 * frame.depth)
                    rows[row] = max(rows[row], 0.2 + 0.8 * near)
        return rows

    def of(self, row: int, end_row: int) -> float:
        """Suspicion of some rows: that of the worst of them."""
        return self._factor * max((self._rows.get(r, 0.0) for r in range(row, end_row + 1)), default=0.0)


def score(proposal: Proposal, suspicion: float, hints: Hints, random: Random) -> float:
    """The score of a proposal; ``random`` decides near-ties."""
    known = hints.factor(proposal.operator, proposal.name)
    return suspicion * PRIORS[proposal.operator] * proposal.weight * known * (1 + TIE * random.random())
