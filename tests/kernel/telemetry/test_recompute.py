"""Summaries are what the lines come to: a run's own numbers are made again, and a forged one is found."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from apex_framework.analysis.recompute import differences, recompute_metrics
from apex_framework.cli import boundary
from apex_framework.experiment.layout import METRICS, SUMMARY
from apex_framework.experiment.manifest import write_manifest
from apex_framework.ports import SystemFiles

Run = Callable[..., Path]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A small real run, made by the program with two workers."""
    path = tmp_path_factory.mktemp("runs") / "r"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path.parent)
        patch.setenv("XDG_STATE_HOME", str(path.parent))
        status = boundary.run(
            ["run", "--episodes", "2", "--workers", "2", "--arm", "random_switch:1.0", "--out", str(path)]
        )
    assert status == 0
    yield path


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def put(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    import shutil

    return Path(shutil.copytree(finished, tmp_path / "copy"))


@pytest.mark.slow
def test_a_run_tells_what_its_lines_come_to(finished: Path) -> None:
    assert list(differences(finished)) == []
    names = {name for name, _ in recompute_metrics(finished)}
    assert {
        "decision_ms",
        "switch_phase_ms",
        "switch_ms",
        "agent_tokens_used",
        "messages_acked_total",
        "tool_ms",
        "episodes_total",
    } <= names


@pytest.mark.slow
def test_metrics_hold_throughput_occupancy_phases_latency_and_drops_with_bins(finished: Path) -> None:
    rows = lines(finished / METRICS)
    bins = {row["metric"] for row in rows if "bounds" in row}
    assert {"lane_occupancy", "lane_depth", "switch_phase_ms", "decision_ms"} <= bins
    assert all(sum(row["counts"]) == row["count"] for row in rows if "bounds" in row)
    assert {row["labels"]["arm"] for row in rows} >= {"bandit_v1", "random_switch:1.0", "single"}
    throughput = lines(finished / "metrics/throughput.jsonl")
    assert {row["priority"] for row in throughput} >= {"final", "draft", "critic"}
    assert all(row["admitted"] == row["acked"] + row["dead"] for row in throughput)
    assert sum(row["acked"] for row in throughput) > 0
    kinds = {row["kind"] for row in lines(finished / "metrics/latency_attrib.jsonl")}
    assert kinds == {"message", "decision", "switch"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_a_forged_metric_is_found(copy: Path, seed: int) -> None:
    """The planted lie: one number of one recomputable line, a little better than it was."""
    rng = random.Random(seed)
    made = recompute_metrics(copy)
    rows = lines(copy / METRICS)
    known = [r for r in rows if (r["metric"], json.dumps(r["labels"], sort_keys=True)) in made]
    row = rng.choice(known)
    if row["kind"] == "histogram":
        field = rng.choice(["sum", "max", "count", "counts"])
        if field == "counts":
            row["counts"][0] += 1
        else:
            row[field] = row[field] * 1.01 + 0.01 if field != "count" else row[field] + 1
    else:
        row["value"] += 0.5
    put(copy / METRICS, rows)
    found = list(differences(copy))
    assert found and row["metric"] in found[0]


@pytest.mark.slow
def test_a_forged_summary_a_missing_line_and_a_changed_source_are_found(copy: Path) -> None:
    summary = json.loads((copy / SUMMARY).read_text())
    honest = json.dumps(summary)
    summary["single"]["counters"]["success"] += 1
    (copy / SUMMARY).write_text(json.dumps(summary))
    assert [d.partition(":")[0] for d in differences(copy)] == [f"{SUMMARY}, single, counters, success"]
    (copy / SUMMARY).write_text(honest)
    rows = lines(copy / METRICS)
    put(copy / METRICS, [row for row in rows if row["metric"] != "decisions_total"])
    assert any("decisions_total" in d for d in differences(copy))
    put(copy / METRICS, rows)
    assert list(differences(copy)) == []
    decisions = lines(copy / "decisions.jsonl")
    decisions[0]["latency_ms"] += 100
    put(copy / "decisions.jsonl", decisions)
    assert any("decision_ms" in d for d in differences(copy))


@pytest.mark.slow
def test_the_slo_command_refuses_a_folder_whose_numbers_were_changed(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = lines(copy / METRICS)
    next(row for row in rows if row["metric"] == "decision_ms")["max"] = 0.001
    put(copy / METRICS, rows)
    capsys.readouterr()
    assert boundary.run(["slo", str(copy)]) == 3
    assert f"{METRICS} is missing or was changed after the run" in capsys.readouterr().err
    write_manifest(copy, SystemFiles())  # a forger would do that, too
    assert boundary.run(["slo", str(copy)]) == 3
    error = capsys.readouterr().err.splitlines()
    assert len(error) == 2 and "decision_ms" in error[0] and "is told" in error[0]
    put(copy / METRICS, [row for row in rows if row["metric"] not in ("tool_ms", "decision_ms")])
    write_manifest(copy, SystemFiles())
    assert boundary.run(["slo", str(copy)]) == 3
    error = capsys.readouterr().err.splitlines()
    assert len(error) == 2 and 'line missing: decision_ms{arm="' in error[0] and "'" not in error[0]
