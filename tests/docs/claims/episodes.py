"""Sentences, lines and table rows of the pages with experiments, made of what ``apex`` prints of the kept episodes."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from apex_framework.cli.boundary import run
from apex_framework.cli.verdicts import ImportedVerdict, read_verdicts

EVIDENCE = Path(__file__).parents[2] / "docs" / "evidence"
DATA = EVIDENCE / "data"
NUMBER = r"\d(?:[\d.,]*\d)?"
WORDS = {0: "none", 1: "one", 2: "two", 3: "three", 4: "four", 5: "five"}


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


def printed(*arguments: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert run(arguments) == 0, arguments
    return out.getvalue()


@dataclass(frozen=True)
class Kept:
    """Kept episodes, imported as anybody would import them."""

    name: str
    home: Path

    @cached_property
    def rows(self) -> Sequence[ImportedVerdict]:
        return read_verdicts(DATA / f"{self.name}.jsonl.gz")

    @cached_property
    def run(self) -> str:
        folder = self.home / self.name
        printed("suite", "import", str(DATA / f"{self.name}.jsonl.gz"), "--suite", "mini/test", "--out", str(folder))
        return str(folder)

    @cached_property
    def tables(self) -> dict[str, list[list[str]]]:
        """Heading -> rows of its table, as ``apex report`` prints them."""
        text = printed("report", self.run, "--format", "markdown")
        sections = (part.partition("\n") for part in text.split("\n## ")[1:])
        return {
            head: [
                [cell.strip() for cell in line.strip("|").split("|")] for line in body.splitlines() if line[:1] == "|"
            ]
            for head, _, body in sections
        }

    def arm(self, name: str) -> list[str]:
        """Solved, ends of the interval, tokens."""
        _, _, solved, interval, tokens, *_ = next(row for row in self.tables["Arms"] if row[0] == name)
        return [*re.findall(NUMBER, solved), *re.findall(NUMBER, interval), tokens]

    def family_rows(self, *groups: str) -> list[str]:
        """Rows of the table of families with a column per group of arms; arms of a group that differ make no such row."""
        head, _, *rows = self.tables["Solved per family"]
        places = [[head.index(arm) for arm in group.split()] for group in groups]
        return [
            f"| {row[0]} | {row[1]} | "
            + " | ".join("/".join(sorted({row[i] for i in group})) for group in places)
            + " |"
            for row in rows
        ]

    @cache  # noqa: B019 - as long as the tests
    def lift(self, arm: str, against: str, *options: str) -> dict[str, Any]:
        """What ``apex compare`` says, shares as points with their sign."""
        told = json.loads(printed("compare", self.run, "--arm", arm, "--against", against, "--json", *options))
        low, high = told["interval"]["low"], told["interval"]["high"]
        points = {
            key: f"{100 * value:+.1f}" for key, value in (("lift", told["estimate"]), ("low", low), ("high", high))
        }
        (tokens,) = (cost for cost in told["costs"] if cost["quantity"] == "tokens")
        shift = {"tokens": f"{tokens['estimate']:.0f}"}
        if tokens["interval"]:
            shift |= {"fewest": f"{tokens['interval']['low']:.0f}", "most": f"{tokens['interval']['high']:.0f}"}
        return {**told, **points, "shift": shift}

    def solved(self, arm: str) -> dict[tuple[str, int], bool]:
        return {(row.task, row.seed): row.success for row in self.rows if row.arm == arm}

    def tokens(self, arm: str) -> dict[tuple[str, int], int | None]:
        return {(row.task, row.seed): row.tokens for row in self.rows if row.arm == arm}

    def apart(self, one: str, other: str) -> int:
        """Episodes with another outcome."""
        others = self.solved(other)
        return sum(success != others[key] for key, success in self.solved(one).items())

    def oracle(self, *arms: str) -> str:
        best = [self.solved(arm) for arm in arms]
        return f"{100 * sum(any(one[key] for one in best) for key in best[0]) / len(best[0]):.1f}"

    def line(self, arm: str, of: str) -> str:
        """The line of an arm on a page, up to its p-value, with the lift of another one over it."""
        solved, low, high, tokens = self.arm(arm)
        text = f"{arm} {solved} % [{low}, {high}] {tokens} tokens"
        if of:
            lift = self.lift(of, arm)
            text += f" {of} {lift['lift']} pp [{lift['low']} pp, {lift['high']} pp]"
        return text

    def lines(self, page: str) -> list[str]:
        """One per line of arms on the page."""
        form = re.compile(r"^  (\S+) +[\d.]+ % \[.*tokens(?:  (\S+) [-+].*pp\](, Holm p )?)?", re.MULTILINE)
        said = form.findall(page)
        assert {arm for arm, _, _ in said} == {row[0] for row in self.tables["Arms"][2:]}
        return [
            self.line(arm, of) + (f", Holm p {self.holm[f'{of} - {arm}']:.3f}" if corrected else "")
            for arm, of, corrected in said
        ]

    @cached_property
    def holm(self) -> dict[str, float]:
        """Corrected p-values of the first arm's lifts over all others."""
        return dict(json.loads(printed("compare", self.run, "--json"))["holm"])


def upper_bound(n: int) -> str:
    """One-sided 95 % bound on a share of which none of n was seen, in per cent."""
    return f"{100 * (1 - 0.05 ** (1 / n)):.2f}"


def kept_lines(name: str) -> list[dict[str, Any]]:
    """Lines of a run, with the columns that an import has no place for."""
    with gzip.open(DATA / name, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
