"""Numbers of the experiments' pages are made again from the episodes that are kept beside them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from apex_framework.analysis import EpisodeRow, lift_between, summarize_arm
from apex_framework.cli.verdicts import ImportedVerdict, read_verdicts

ROOT = Path(__file__).parents[2]
EVIDENCE = ROOT / "docs" / "evidence"
KEPT = sorted((EVIDENCE / "data").glob("*.jsonl.gz"))
LINE = re.compile(
    r"^  (?P<arm>\S+) +(?P<solved>[\d.]+) % \[(?P<low>[\d.]+), (?P<high>[\d.]+)\] +(?P<tokens>[\d,]+) tokens"
    r"(?:  (?P<of>\S+) (?P<lift>[-+][\d.]+) pp \[(?P<under>[-+][\d.]+) pp, (?P<over>[-+][\d.]+) pp\])?",
    re.MULTILINE,
)


def rows_of(verdicts: Sequence[ImportedVerdict]) -> list[EpisodeRow]:
    return [
        EpisodeRow(v.arm, v.task, v.seed, v.success, v.tokens, v.steps, 0, 0, "finished", v.cluster, v.family)
        for v in verdicts
    ]


def wrong_lines(text: str, rows: Sequence[EpisodeRow]) -> list[str]:
    """Lines of a page that say of an arm something else than its rows."""
    wrong = []
    for line in LINE.finditer(text):
        made = summarize_arm(rows, line["arm"])
        told = [line["solved"], line["low"], line["high"], line["tokens"]]
        again = [f"{100 * x:.1f}" for x in (made.success, made.interval.low, made.interval.high)] + [
            f"{made.tokens:,.0f}"
        ]
        if line["of"]:
            lift = lift_between(rows, line["of"], line["arm"])
            told += [line["lift"], line["under"], line["over"]]
            again += [f"{100 * x:+.1f}" for x in (lift.estimate, lift.interval.low, lift.interval.high)]
        if told != again:
            wrong.append(f"{line.group().strip()}: {again}")
    return wrong


@pytest.mark.parametrize("path", [pytest.param(p, id=p.name.split(".")[0]) for p in KEPT])
def test_a_page_says_what_its_episodes_say(path: Path) -> None:
    rows = rows_of(read_verdicts(path))
    page = (EVIDENCE / path.name.replace(".jsonl.gz", ".md")).read_text(encoding="utf-8")
    lines = [*LINE.finditer(page)]
    assert {line["arm"] for line in lines} == {row.arm for row in rows}
    assert f"data/{path.name}" in page
    assert wrong_lines(page, rows) == []


def test_a_wrong_number_is_found() -> None:
    rows = rows_of(read_verdicts(EVIDENCE / "data" / "humaneval.jsonl.gz"))
    page = (EVIDENCE / "humaneval.md").read_text(encoding="utf-8")
    line = next(line for line in LINE.finditer(page) if line["of"])
    for number in (line["solved"], line["high"], line["tokens"], line["lift"], line["over"]):
        edited = line.group().replace(number, number[:-1] + str((int(number[-1]) + 1) % 10))
        assert wrong_lines(edited, rows), f"{number} was changed, and nobody saw it"


def test_experiments_are_kept() -> None:
    assert KEPT


def test_the_plan_that_comes_along_has_the_matched_rate_of_the_registered_one() -> None:
    matched = next(arm for arm in arms_of(EVIDENCE / "plans" / "headline.toml") if arm.startswith("random_switch:"))
    assert f"`{matched}`" in (EVIDENCE / "headline.md").read_text(encoding="utf-8")
    assert arms_of(ROOT / "examples" / "experiments" / "headline.toml") == arms_of(EVIDENCE / "plans" / "headline.toml")
    shown = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    assert ", ".join(arms_of(ROOT / "examples" / "experiments" / "headline.toml")) in shown


def arms_of(plan: Path) -> list[str]:
    (part,) = tomllib.loads(plan.read_text(encoding="utf-8"))["part"]
    return list(part["arms"])
