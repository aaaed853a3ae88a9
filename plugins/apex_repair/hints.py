"""What a failure's words say about the kind of fault."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

_WORDS: tuple[tuple[str, dict[str, float]], ...] = (
    (r"IndexError|out of range", {"off_by_one": 1.6, "boundary_slice": 1.5, "comparison": 1.3}),
    (r"NoneType|\bNone is not|None !=|!= None|got None|returned None", {"missing_return": 2.5, "missing_guard": 1.6}),
    (r"NameError|UnboundLocalError|AttributeError|KeyError", {"wrong_name": 1.6}),
    (r"KeyError", {"constant": 1.3, "missing_guard": 1.3}),
    (r"TypeError", {"wrong_name": 1.3, "argument_swap": 1.6, "missing_return": 1.2, "missing_guard": 1.2}),
    (r"ZeroDivisionError", {"missing_guard": 1.8, "comparison": 1.3, "arithmetic": 1.3, "off_by_one": 1.2}),
    (r"RecursionError|maximum recursion|[Tt]imed? ?out|infinite", {"comparison": 1.4, "off_by_one": 1.4, "arithmetic": 1.3}),
    (r"StopIteration|empty", {"missing_guard": 1.3, "boundary_slice": 1.2}),
    (r"ValueError|not raised|unexpected(ly)? rais", {"comparison": 1.3, "negation": 1.3, "boolean": 1.2}),
    (r"True is not false|False is not true|True != False|False != True", {"negation": 1.7, "comparison": 1.5, "boolean": 1.4}),
    (r"\b(first|last|missing|extra|one (more|less|too)|off by one|boundary)\b", {"off_by_one": 1.3, "boundary_slice": 1.4, "comparison": 1.1}),
    (r"\b(sign|negative|opposite|reversed|inverted|wrong order)\b", {"arithmetic": 1.3, "negation": 1.3, "argument_swap": 1.2}),
)  # fmt: skip
_UNKNOWN_NAME = re.compile(r"name '(\w+)' is not defined|local variable '(\w+)'|has no attribute '(\w+)'")
_NUMBERS = re.compile(r"(-?\b\d{1,15}(?:\.\d{1,15})?) != (-?\d{1,15}(?:\.\d{1,15})?)")
_EXPECTED = re.compile(
    r"expected:?\s+(-?\d{1,15})\b.{0,20}?\b(?:got|but was|actual):?\s+(-?\d{1,15})", re.IGNORECASE | re.DOTALL
)
_TEXTS = re.compile(r"AssertionError: ('[^'\n]*'|\"[^\"\n]*\"|\[[^\n]*\]) != ('[^'\n]*'|\"[^\"\n]*\"|\[[^\n]*\])")


@dataclass(frozen=True, slots=True)
class Hints:
    """Factors per operator, and names that a failure calls unknown."""

    factors: dict[str, float]
    missing: frozenset[str]

    def factor(self, operator: str, name: str) -> float:
        """How much more likely an edit is, given the failure."""
        known = 6.0 if name and name in self.missing else 1.0
        return self.factors.get(operator, 1.0) * known


def read_hints(text: str) -> Hints:
    """Hints of an issue and failing output."""
    factors: defaultdict[str, float] = defaultdict(lambda: 1.0)

    def raise_by(more: dict[str, float]) -> None:
        for operator, factor in more.items():
            factors[operator] *= factor

    for pattern, more in _WORDS:
        if re.search(pattern, text):
            raise_by(more)
    for one, other in [*_NUMBERS.findall(text), *_EXPECTED.findall(text)][:20]:
        a, b = float(one), float(other)
        if abs(a - b) == 1:
            raise_by({"off_by_one": 1.8, "comparison": 1.4, "boundary_slice": 1.3})
            break
        if a == -b:
            raise_by({"arithmetic": 1.6, "argument_swap": 1.4})
            break
    for one, other in _TEXTS.findall(text)[:5]:
        if one != other and (one[1:-1] in other or other[1:-1] in one):
            raise_by({"boundary_slice": 1.5, "off_by_one": 1.3, "comparison": 1.2})
            break
    missing = frozenset(name for match in _UNKNOWN_NAME.findall(text) for name in match if name)
    return Hints(dict(factors), missing)
