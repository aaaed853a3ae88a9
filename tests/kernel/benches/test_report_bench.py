"""Bench report: the run that is made is one, holds what its episodes held, and the promise can be broken."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from apex_framework.benches import report
from apex_framework.benches.experiment_numbers import EXPERIMENTS
from apex_framework.benches.overhead import null_jobs
from apex_framework.benches.promises import judged
from apex_framework.cli.boundary import run
from apex_framework.episode.arm import Arm
from apex_framework.experiment.arms import arm_named
from apex_framework.experiment.lines import key_of, read_rows
from apex_framework.experiment.plan import Plan, PlannedTask
from apex_framework.interfaces import EpisodeJob, EpisodeResult

MESSAGES = 3


@pytest.fixture(scope="module")
def plan() -> Plan:
    arms = tuple(arm_named(name, Arm("base")) for name in report.ARMS)
    return Plan("bench_null", "dev", "none", (PlannedTask(str(MESSAGES)),), arms)


@pytest.fixture(scope="module")
def originals() -> dict[str, list[EpisodeResult]]:
    """Per arm a null episode that was solved, and the same as one that was not."""
    work, found = null_jobs(), {}
    for name in report.ARMS:
        solved = work(EpisodeJob(0, Arm(name).to_json(), str(MESSAGES), 0, {}))
        found[name] = [solved, replace(solved, record={**solved.record, "success": False})]
    return found


def test_a_run_of_copies_is_whole_and_every_line_belongs_to_an_episode(
    plan: Plan, originals: dict[str, list[EpisodeResult]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "FAILED_OF", 10)
    large = report.enlarged(plan, 80)
    assert large.size == 96
    report.write_run(tmp_path / "run", large, originals, 7)
    records = {key_of(row): row for row in read_rows(tmp_path / "run" / "episodes.jsonl")}
    assert set(records) == set(large.keys())
    assert 0 < sum(row["status"] == "infrastructure" for row in records.values()) < 40
    assert 0.1 < sum(row["success"] for row in records.values()) / large.size < 0.6
    assert {row["cluster"] for row in records.values()} == {task.cluster for task in large.tasks}
    calls = [key_of(row) for row in read_rows(tmp_path / "run" / "calls.jsonl")]
    assert {key: calls.count(key) for key in records} == {key: row["calls"] for key, row in records.items()}
    assert report.damages(tmp_path / "run") == 0
    with (tmp_path / "run" / "calls.jsonl").open("a") as file:
        file.write("{}\n")
    assert report.damages(tmp_path / "run") == 1


def test_the_seed_draws_the_outcomes_and_nothing_else_does(
    plan: Plan, originals: dict[str, list[EpisodeResult]], tmp_path: Path
) -> None:
    def outcomes(name: str, seed: int) -> list[bool]:
        report.write_run(tmp_path / name, report.enlarged(plan, 48), originals, seed)
        return [bool(row["success"]) for row in read_rows(tmp_path / name / "episodes.jsonl")]

    assert outcomes("one", 1) == outcomes("again", 1) != outcomes("other", 2)


def test_a_page_that_is_cut_short_or_of_another_run_tells_of_no_episode() -> None:
    page = "<p>417 tasks in 70 clusters, 2 seeds, 10,008 episodes.</p></html>\n"
    assert report.told_of(page) == 10_008
    assert report.told_of(page[:-3]) == report.told_of("<p>no run</p></html>") == 0


def test_a_process_that_fails_is_no_measurement(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="no run folder"):
        report.timed("report", str(tmp_path / "nothing"))


def test_too_few_episodes_are_refused(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "report", "-n", "239"]) == 2
    assert "at least 240" in capfd.readouterr().err


CASE = "10,008 episodes"
GOOD = [
    ("1,008 episodes", "apex", "wall", 5.0),
    (CASE, "apex", "wall", 30.0),
    (CASE, "limit", "wall", 30.0),
    (CASE, "apex", "cpu", 20.0),
    (CASE, "apex", "episodes on the page", 10_008),
    (CASE, "apex", "damages that verify finds", 0),
]


def _met(cells: list[tuple[str, str, str, float]]) -> object:
    keys = ("case", "contender", "metric", "value")
    return judged(EXPERIMENTS[-1], [dict(zip(keys, cell, strict=True)) for cell in cells])["met"]


@pytest.mark.parametrize(("row", "value"), [(1, 30.1), (4, 10_007), (4, 0), (5, 1)])
def test_the_promise_is_met_at_its_limit_broken_beyond_it_and_open_for_fewer_episodes(row: int, value: float) -> None:
    assert _met(GOOD) == "yes"
    assert _met([*GOOD[:row], (*GOOD[row][:3], value), *GOOD[row + 1 :]]) == "no"
    assert _met(GOOD[:1]) == "not measured"


@pytest.mark.slow
def test_true_episodes_make_a_page_that_tells_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "TRUE_TASKS", 1)
    rows = list(report.run(SimpleNamespace(n=240, seed=1)))
    assert {tuple(row) for row in rows} == {("bench", "case", "contender", "metric", "value", "unit")}
    found = {(row["case"], row["metric"]): float(str(row["value"])) for row in rows}
    for size in (24, 240):
        case = f"{size} episodes"
        assert found[case, "episodes on the page"] == size
        assert found[case, "damages that verify finds"] == 0
        assert min(found[case, name] for name in ("wall", "cpu", "memory at the peak", "page", "switches")) > 0
        assert found[case, "calls"] > 2 * size
    assert found["240 episodes", "run folder"] > 5 * found["24 episodes", "run folder"]
    assert json.dumps(rows)
