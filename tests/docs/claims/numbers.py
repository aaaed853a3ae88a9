"""Numbers on a page: what ``apex`` prints, and whether the page says it."""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from apex_framework.cli.boundary import run

ROOT = Path(__file__).parents[3]
EVIDENCE = ROOT / "docs" / "evidence"
DATA = EVIDENCE / "data"
NUMBER = r"\d(?:[\d.,]*\d)?"
WORDS = {0: "none", 1: "one", 2: "two", 3: "three", 4: "four", 5: "five"}


def page_of(name: str) -> str:
    return (EVIDENCE / f"{name}.md").read_text(encoding="utf-8")


def one_line(text: str) -> str:
    return " ".join(text.split())


def wrong(page: str, claims: Iterable[str]) -> list[str]:
    """Claims that a page does not make, or makes somewhere with another number."""
    told = one_line(page)
    found = []
    for claim in map(one_line, claims):
        form = NUMBER.join(map(re.escape, re.split(NUMBER, claim)))
        says = set(re.findall(rf"(?<![\d.,]){form}" if claim[0].isdigit() else form, told))
        if says != {claim}:
            found.append(f"{claim!r}, the page: {sorted(says) or 'nothing of the kind'}")
    return found


def untold(page: str, claims: Iterable[str]) -> list[str]:
    """Numbers of a page, with what stands around them, that no claim holds. Commands, names in code and links are no numbers."""
    told = one_line(re.sub(r"```sh.*?```", " ", page, flags=re.DOTALL))
    held = [(at.start(), at.end()) for part in claims for at in re.finditer(re.escape(one_line(part)), told)]
    held += [(at.start(), at.end()) for at in re.finditer(r"`[^`]*`|\]\([^)]*\)", told)]
    return [
        told[max(0, at.start() - 40) : at.end() + 20]
        for at in re.finditer(rf"(?<![\w.]){NUMBER}", told)
        if not any(start <= at.start() and at.end() <= end for start, end in held)
    ]


def printed(*arguments: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert run(arguments) == 0, arguments
    return out.getvalue()


def upper_bound(n: int) -> str:
    """One-sided 95 % bound on a share of which none of n was seen, in per cent."""
    return f"{100 * (1 - 0.05 ** (1 / n)):.2f}"


def signed(number: str) -> str:
    """With the minus of a printed page."""
    return number.replace("-", "−")


def spaced(number: str) -> str:
    return number.replace("+", "+ ")


def listed(values: Sequence[object]) -> str:
    """``1, 2 and 3``."""
    *first, last = map(str, values)
    return f"{', '.join(first)} and {last}" if first else last


def points(text: str) -> str:
    """Of ``+8.3 pp``."""
    return text.split()[0].lstrip("+")


def registered(name: str) -> Iterator[str]:
    """What a page says of its plan, from the plan's lock."""
    lock = json.loads((EVIDENCE / "plans" / f"{name}.lock.json").read_text(encoding="utf-8"))
    rule, (part,), hashes = lock["plan"]["prereg"], lock["plan"]["parts"], lock["hashes"]
    yield f"{lock['registered'].replace('+00:00', ' UTC')}, digest `{lock['digest'][:12]}`"
    yield f"solves more tasks within {rule['budget']:,} tokens than every static topology and the single agent"
    claim = f"{100 * rule['claim']:g}"
    yield (
        f"every one-sided {100 * (1 - rule['alpha']):g} % lower bound above 0, and +{claim} points over the best static: GO;"
        f" upper bound over the best static below +{claim}: KILL; else EXTEND"
    )
    yield f"suite digest `{hashes['suite.' + part['suite']][:12]}` (CPython {lock['versions']['python']}"
    yield f"seeds {listed(range(part['seed'], part['seed'] + part['seeds']))}"
    yield f"solver `{hashes['solver.repair'][:12]}`, team `{hashes['team.swe'][:12]}`"
    yield f"`{hashes['policy.bandit_v1'][:12]}`"
