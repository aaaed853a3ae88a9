"""Inputs: placeholders in the table's expressions become literals drawn from a seeded generator per kind."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from apex_framework.ports import rng

from .sources import Source

CASES_PER_SOURCE = 72
"""Wanted expressions per source; about a third of them may become visible tests."""
MOST_CHARACTERS = 200

PLACEHOLDER = re.compile(r"@(-?\d+\.\.-?\d+|[a-z][a-z0-9_]*)")

# fmt: off
WORDS = (
    "amber", "basin", "cedar", "delta", "ember", "fjord", "grove", "harbor", "island", "jetty", "kernel", "lantern",
    "meadow", "nickel", "orchard", "pebble", "quartz", "river", "saddle", "timber", "under", "valley", "willow",
    "yellow", "zenith", "a", "to", "of", "in", "well-known", "e-mail", "x9",
)
# fmt: on
ODD = ("", " ", "\t", "ä", "ß", "日本", "'", '"', "\\", "%", "&", "<", ">", "=", ";", ",", "#", "\n", "@", "é", "0")


@dataclass(frozen=True, slots=True)
class Case:
    """One differential test: an expression, and whether agents may see it."""

    expression: str
    visible: bool
    number: int
    mode: str = ""
    """``value`` (equal to a literal), ``repr`` (same text), ``raises`` or ``named`` (an exception)."""
    expected: str = ""

    @property
    def called(self) -> str:
        """Name of the function that the expression calls first."""
        names = re.findall(r"([A-Za-z_]\w*)\s*\(", self.expression)
        return next((n for n in names if n not in COMMON), names[0] if names else "value")


COMMON = frozenset(
    [
        "list",
        "tuple",
        "dict",
        "sorted",
        "str",
        "repr",
        "len",
        "set",
        "next",
        "iter",
        "sum",
        "bool",
        "int",
        "float",
        "bytes",
        "type",
        "lambda",
    ]
)


def text(draw: random.Random) -> str:
    words = [draw.choice(WORDS) for _ in range(draw.randint(3, 14))]
    for _ in range(draw.randint(0, 2)):
        words.insert(draw.randint(0, len(words)), draw.choice(["", "end.", "(so)", "--", "What?", "e.g.,"]))
    if draw.random() < 0.3:
        words[draw.randrange(len(words))] += draw.choice(["\n", "\t", "  "])
    return " ".join(words)


def odd(draw: random.Random) -> str:
    return "".join(draw.choice((*ODD, *WORDS)) for _ in range(draw.randint(1, 6)))


def lines(draw: random.Random) -> str:
    indent = draw.choice(["", "  ", "    ", "\t"])
    some = [
        indent + draw.choice(["", " ", "  "]) + " ".join(draw.choices(WORDS, k=draw.randint(0, 4))) for _ in range(4)
    ]
    return "\n".join(some[: draw.randint(2, 4)]) + draw.choice(["", "\n"])


def ints(draw: random.Random) -> list[int]:
    return [draw.randint(-20, 40) for _ in range(draw.randint(1, 9))]


def value(draw: random.Random, depth: int = 0) -> object:
    """A nested value of the kinds that JSON knows."""
    kind = draw.randrange(8 if depth < 2 else 6)
    if kind == 6:
        return [value(draw, depth + 1) for _ in range(draw.randint(0, 3))]
    if kind == 7:
        return {draw.choice(WORDS): value(draw, depth + 1) for _ in range(draw.randint(0, 3))}
    simple = (None, draw.random() < 0.5, draw.randint(-1000, 1000), draw.randint(-400, 400) / 8, odd(draw))
    return simple[min(kind, 4)]


GENERATORS: Mapping[str, Callable[[random.Random], object]] = {
    "text": text,
    "odd": odd,
    "lines": lines,
    "ints": ints,
    "value": value,
    "word": lambda d: d.choice(WORDS),
    "words": lambda d: [d.choice(WORDS) for _ in range(d.randint(1, 6))],
    "int": lambda d: d.randint(-50, 200),
    "big": lambda d: d.randint(-(10**12), 10**12),
    "small": lambda d: d.randint(0, 9),
    "float": lambda d: d.randint(-4000, 4000) / 16,
    "unit": lambda d: d.randint(0, 20) / 20,
    "floats": lambda d: [d.randint(-200, 400) / 8 for _ in range(d.randint(2, 8))],
    "bytes": lambda d: bytes(d.choice([0, 10, 13, 32, 61, 65, 97, 127, 200, 255, d.randrange(256)]) for _ in range(d.randint(0, 12))),
    "bool": lambda d: d.random() < 0.5,
    "pairs": lambda d: [(d.choice(WORDS), d.randint(0, 30)) for _ in range(d.randint(1, 5))],
}  # fmt: skip


def expand(template: str, pools: Mapping[str, tuple[str, ...]], draw: random.Random) -> str:
    """The expression with every placeholder replaced."""

    def one(match: re.Match[str]) -> str:
        name = match[1]
        if ".." in name:
            low, high = name.split("..")
            return str(draw.randint(int(low), int(high)))
        if name in pools:
            return draw.choice(pools[name])
        if name in GENERATORS:
            return repr(GENERATORS[name](draw))
        return match[0]

    return PLACEHOLDER.sub(one, template)


def make_cases(source: Source, salt: str) -> tuple[Case, ...]:
    """The expressions of a source, each once, every third one visible; expectations are not known yet."""
    each = max(2, -(-CASES_PER_SOURCE // len(source.calls)))
    found: dict[str, bool] = {}
    for position, template in enumerate(source.calls):
        draw = rng(salt, source.name, "inputs", template)
        new: list[str] = []
        for _ in range(each * 3 if PLACEHOLDER.search(template) else 1):
            expression = expand(template, source.pools, draw)
            if expression not in found and expression not in new and len(expression) <= MOST_CHARACTERS:
                new.append(expression)
        for index, expression in enumerate(new[:each]):
            found[expression] = (index + position) % 3 == 0 if len(new) > 1 else position % 3 == 0
    return tuple(Case(e, visible, n) for n, (e, visible) in enumerate(found.items(), 1))
