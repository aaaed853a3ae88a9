"""Kept episodes, read as anybody would read them: by ``apex report`` and ``apex compare``."""

from __future__ import annotations

import gzip
import json
import re
import tarfile
from collections.abc import Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from apex_framework.analysis import EpisodeRow, RunData, read_run

from .numbers import DATA, NUMBER, printed


class Episodes:
    """A run folder, and the numbers that ``apex`` prints of it."""

    def __init__(self, run: Path) -> None:
        self.run = str(run)

    @cached_property
    def data(self) -> RunData:
        return read_run(Path(self.run))

    @property
    def rows(self) -> Sequence[EpisodeRow]:
        return self.data.rows

    @cached_property
    def records(self) -> Sequence[dict[str, Any]]:
        """Lines of episodes.jsonl, with columns that no statistic needs."""
        lines = (Path(self.run) / "episodes.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    @property
    def suite_digest(self) -> str:
        """As pages show it."""
        return self.data.suite_digest[:12]

    @cached_property
    def digest(self) -> str:
        """That of the plan, as pages show it."""
        return str(json.loads((Path(self.run) / "run.json").read_text(encoding="utf-8"))["digest"])[:12]

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

    def table(self, heading: str) -> list[str]:
        """Its rows, without head and rule, as they stand on a page."""
        return [f"| {' | '.join(row)} |" for row in self.tables[heading][2:]]

    def column(self, heading: str, name: str) -> dict[str, str]:
        """First cell of each row -> cell of the column."""
        head, _, *rows = self.tables[heading]
        return {row[0]: row[head.index(name)] for row in rows}

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
        tokens: dict[str, Any] = next(
            (cost for cost in told["costs"] if cost["quantity"] == "tokens" and cost["estimate"] is not None), {}
        )
        shift = {"tokens": f"{tokens['estimate']:.0f}"} if tokens else {}
        if tokens and tokens["interval"]:
            shift |= {"fewest": f"{tokens['interval']['low']:.0f}", "most": f"{tokens['interval']['high']:.0f}"}
        return {**told, **points, "shift": shift}

    def figure(self, name: str, *others: Episodes) -> str:
        """A file of those that ``apex report --figures`` makes of this run, or of several."""
        made = Path(self.run).with_suffix(".figures")
        if not made.exists():
            runs = [self.run, *(other.run for other in others)]
            printed(
                "report", *runs, "--format", "html", "--out", str(made.with_suffix(".html")), "--figures", str(made)
            )
        return (made / name).read_text(encoding="utf-8")

    def solved(self, arm: str) -> dict[tuple[str, int], bool]:
        return {(row.task_id, row.seed): row.success for row in self.rows if row.arm == arm}

    def tokens(self, arm: str) -> dict[tuple[str, int], int | None]:
        return {(row.task_id, row.seed): row.tokens for row in self.rows if row.arm == arm}

    def mean(self, arm: str, what: str) -> float:
        """Of a column, over all episodes of the arm."""
        values = [getattr(row, what) for row in self.rows if row.arm == arm]
        return float(sum(values) / len(values))

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


def imported(name: str, home: Path, suite: str = "mini/test") -> Episodes:
    """Of ``data/NAME.jsonl.gz``, verdicts and tokens."""
    folder = home / name
    if not folder.exists():
        printed("suite", "import", str(DATA / f"{name}.jsonl.gz"), "--suite", suite, "--out", str(folder))
    return Episodes(folder)


def unpacked(name: str, home: Path) -> dict[str, Episodes]:
    """Of ``data/NAME.tar.xz``, folders of runs as they were made: plan, settings, episodes."""
    with tarfile.open(DATA / f"{name}.tar.xz") as packed:
        packed.extractall(home, filter="data")
    return {path.parent.name: Episodes(path.parent) for path in sorted(home.glob("*/run.json"))}


def kept_lines(name: str) -> list[dict[str, Any]]:
    """Lines of a run, with the columns that an import has no place for."""
    with gzip.open(DATA / name, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
