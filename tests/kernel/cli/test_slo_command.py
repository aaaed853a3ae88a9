"""``apex slo`` from the outside: the table as it is printed, exit statuses, and one line for what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apex_framework.benches.profiles import read
from apex_framework.cli import boundary
from apex_framework.experiment.manifest import DONE, write_manifest
from apex_framework.ports import SystemFiles

Apex = Callable[..., tuple[int, str, str]]


@pytest.fixture
def apex(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Apex:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def run(*arguments: str) -> tuple[int, str, str]:
        status = boundary.run(["slo", *arguments])
        out, err = capsys.readouterr()
        return status, out, err

    return run


def put(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three hundred episodes in budget, decisions of 1 to 5 ms, switches of 2 to 61 ms, probes, a stress artifact."""
    path = tmp_path / "r"
    path.mkdir()
    keys = [{"arm": "a", "task_id": f"t{i}", "seed": 0} for i in range(300)]
    rest = {"success": True, "steps": 3, "switches": 1, "denied": 0, "status": "finished"}
    put(path / "episodes.jsonl", [{**key, **rest, "tokens": 9_000 + i} for i, key in enumerate(keys)])
    put(path / "decisions.jsonl", [{**key, "latency_ms": 1.0 + i % 5} for i, key in enumerate(keys)])
    put(
        path / "switches.jsonl",
        [
            {**key, "ok": i % 10 > 0, "phase_ms": {"probe": 2.0, "quiesce": i / 5}, "whole_ms": 2 + i / 5}
            for i, key in enumerate(keys)
        ],
    )
    put(path / "events.jsonl", [{**key, "event": "TopologyProbed", "elapsed_ms": 2.0} for key in keys])
    row = {"bench": "stress", "case": "S, 4 seeds", "contender": "apex", **read("S").stamp}
    put(
        path / "stress.jsonl",
        [
            {**row, "metric": "loss, mean", "value": 0.002, "per_seed": [0.0, 0.001, 0.003, 0.004]},
            {**row, "metric": "lost of class final", "value": 0},
            {**row, "metric": "offered", "value": 9_000},
            {**row, "contender": "lane fifo", "metric": "loss, mean", "value": 0.9, "per_seed": [0.9]},
            {**row, "case": "S, real time", "metric": "loss, mean", "value": 0.9, "per_seed": [0.9]},
        ],
    )
    plan = {"suite": "mini", "split": "dev", "suite_digest": "d", "tasks": [], "seeds": [0], "real_time": True}
    (path / "run.json").write_text(
        json.dumps({"format": 1, "plan": {**plan, "arms": [{"name": "a", "budget": 10_000}]}})
    )
    return path


BARE = {"bench": "stress", "contender": "apex", "metric": "loss, mean", **read("S").stamp}
GOLDEN = """\
target                limit  measured    n  result
controller_p95_ms      < 10         5  300  pass    arm a
switch_p95_ms         < 100        59  270  pass    57 without the probe, 30 aborted not counted
switch_p99_ms        <= 150      61.4  270  pass    59.4 without the probe, 30 aborted not counted
probe_p95_ms           < 20         2  300  pass
overspend_upper     <= 0.01  0.009936  300  pass    0 of 300
stress_loss_mean   <= 0.005     0.002    4  pass    S, 4 seeds, lost for good
stress_loss_p95     <= 0.01     0.004    4  pass    S, 4 seeds, lost for good
stress_final_lost      <= 0         0    1  pass    S, 4 seeds, lost for good

8 of 8 targets reached
"""


def test_every_target_reached(apex: Apex, folder: Path) -> None:
    write_manifest(folder, SystemFiles())
    assert apex(str(folder)) == (0, GOLDEN, "")


@pytest.mark.parametrize("name", ["episodes.jsonl", "decisions.jsonl", "switches.jsonl", "events.jsonl"])
@pytest.mark.parametrize("lost", [True, False])
def test_a_finished_run_is_judged_only_as_it_was_finished(apex: Apex, folder: Path, name: str, lost: bool) -> None:
    write_manifest(folder, SystemFiles())
    file = folder / name
    file.unlink() if lost else file.write_text("".join(file.read_text().splitlines(keepends=True)[:150]))
    status, out, err = apex(str(folder))
    assert (status, out) == (3, "")
    assert f"{file} is missing or was changed after the run" in err.splitlines()[0] and len(err.splitlines()) == 2


@pytest.mark.parametrize("text", [b"", b"\xff\n", b"nothing\n"])
def test_a_damaged_manifest_vouches_for_nothing(apex: Apex, folder: Path, text: bytes) -> None:
    (folder / DONE).write_bytes(text)
    status, out, err = apex(str(folder))
    assert (status, out) == (3, "") and err.startswith("error[E0303]: ") and len(err.splitlines()) == 2


def test_a_run_that_is_not_finished_is_judged_and_said_to_be_so(apex: Apex, folder: Path) -> None:
    assert apex(str(folder)) == (0, GOLDEN, f"{folder} has no DONE, so nothing vouches for its files\n")


def test_a_bench_that_offered_nothing_is_no_data(apex: Apex, folder: Path) -> None:
    rows = [json.loads(line) for line in (folder / "stress.jsonl").read_text().splitlines()]
    put(folder / "stress.jsonl", [{**row, "value": 0} if row["metric"] == "offered" else row for row in rows])
    status, out, _ = apex(str(folder), "--json")
    assert status == 0
    assert json.loads(out)["unknown"] == ["stress_loss_mean", "stress_loss_p95", "stress_final_lost"]
    assert apex(str(folder), "--strict")[0] == 5


@pytest.mark.parametrize(
    ("column", "value"), [("profile_sha256", "0" * 64), ("profile_sha256", None), ("profile", "N")]
)
def test_rows_of_another_load_are_refused(apex: Apex, folder: Path, column: str, value: str | None) -> None:
    rows = [json.loads(line) for line in (folder / "stress.jsonl").read_text().splitlines()]
    put(folder / "stress.jsonl", [{**row, column: value} for row in rows])
    status, out, err = apex(str(folder))
    assert (status, out) == (3, "")
    assert f"stress.jsonl, line 1: measured under another load: {column} is" in err and "apex bench stress" in err


def test_a_missed_target_is_status_5_and_named(apex: Apex, folder: Path) -> None:
    (folder / "t.toml").write_text("controller_p95_ms = 4.5\nstress_loss_p95 = 0.001\n")
    status, out, err = apex(str(folder), "--targets", str(folder / "t.toml"))
    assert status == 5 and "nothing vouches" in err
    assert out.splitlines()[1] == "controller_p95_ms     < 4.5         5  300  FAIL    arm a"
    assert out.splitlines()[-1] == "6 of 8 targets reached; missed: controller_p95_ms, stress_loss_p95"


@pytest.mark.parametrize(
    ("name", "change", "missed"),
    [
        ("decisions.jsonl", lambda row: {**row, "latency_ms": 10.0}, "controller_p95_ms"),
        ("switches.jsonl", lambda row: {**row, "whole_ms": 100.0}, "switch_p95_ms"),
        ("switches.jsonl", lambda row: {**row, "whole_ms": 99.0 if row["seed"] else 151.0}, "switch_p99_ms"),
        ("events.jsonl", lambda row: {**row, "elapsed_ms": 20.0}, "probe_p95_ms"),
        ("episodes.jsonl", lambda row: {**row, "tokens": row["tokens"] + 702}, "overspend_upper"),
        ("stress.jsonl", lambda row: {**row, "per_seed": [0.0051]}, "stress_loss_mean"),
        ("stress.jsonl", lambda row: {**row, "per_seed": [0.0] * 9 + [0.02]}, "stress_loss_p95"),
        ("stress.jsonl", lambda row: {**row, "value": 1}, "stress_final_lost"),
    ],
)
def test_each_target_can_be_missed(apex: Apex, folder: Path, name: str, change: Any, missed: str) -> None:
    rows = [json.loads(line) for line in (folder / name).read_text().splitlines()]
    put(folder / name, [change(row) for row in rows])
    status, out, _ = apex(str(folder), "--json")
    result = json.loads(out)
    assert status == 5 and missed in result["missed"] and not result["passed"]


def test_no_data_is_said_and_no_pass(apex: Apex, folder: Path) -> None:
    for name in ("stress.jsonl", "events.jsonl"):
        (folder / name).unlink()
    status, out, _ = apex(str(folder))
    assert status == 0
    assert "stress_loss_mean   <= 0.005         -    0  no data" in out
    assert out.splitlines()[-1] == (
        "4 of 8 targets reached; not known: probe_p95_ms, stress_loss_mean, stress_loss_p95, stress_final_lost"
    )
    status, out, _ = apex(str(folder), "--strict")
    assert status == 5 and out.splitlines()[-1].startswith("4 of 8 targets reached; missed: probe_p95_ms")


def test_too_few_episodes_to_bound_a_rate_are_said_and_no_pass(apex: Apex, folder: Path) -> None:
    rows = (folder / "episodes.jsonl").read_text().splitlines()
    (folder / "episodes.jsonl").write_text("\n".join(rows[:298]) + "\n")
    status, out, _ = apex(str(folder), "--json")
    (line,) = (t for t in json.loads(out)["targets"] if t["name"] == "overspend_upper")
    assert (status, line["result"], line["note"]) == (0, "too few", "0 of 298")
    assert apex(str(folder), "--strict")[0] == 5
    first = json.loads(rows[0])
    put(folder / "episodes.jsonl", [{**first, "tokens": 10_001}])
    assert apex(str(folder))[0] == 5, "few episodes with a violation are no excuse"


def test_json_has_every_number_of_the_table(apex: Apex, folder: Path) -> None:
    _, out, _ = apex(str(folder), "--json")
    result = json.loads(out)
    assert result["passed"] is True and result["missed"] == [] and result["unknown"] == []
    assert {"name", "limit", "measured", "n", "result", "note"} == set(result["targets"][0])
    assert result["targets"][1]["measured"] == pytest.approx(59.0)


def test_virtual_time_is_said_beside_a_switchs_latency(apex: Apex, folder: Path) -> None:
    run = json.loads((folder / "run.json").read_text())
    run["plan"]["real_time"] = False
    (folder / "run.json").write_text(json.dumps(run))
    assert "virtual time: waiting, no work" in apex(str(folder))[1]


def test_a_stress_artifact_alone_is_enough(apex: Apex, folder: Path, tmp_path: Path) -> None:
    alone = tmp_path / "bench"
    alone.mkdir()
    (folder / "stress.jsonl").rename(alone / "stress.jsonl")
    status, out, _ = apex(str(alone))
    assert status == 0 and out.splitlines()[-1].startswith("3 of 8 targets reached")
    assert apex(str(folder), "--stress", str(alone / "stress.jsonl"))[1] == GOLDEN


@pytest.mark.parametrize(
    ("damage", "status", "words"),
    [
        (lambda f: f.rename(f.parent / "away"), 3, ["r is no run folder: no episodes.jsonl"]),
        (lambda f: cut(f / "decisions.jsonl", 7, "{"), 3, ["decisions.jsonl, line 7: not JSON"]),
        (lambda f: cut(f / "switches.jsonl", 1, "[]"), 3, ["switches.jsonl, line 1: not an object"]),
        (lambda f: cut(f / "decisions.jsonl", 3, "{}"), 3, ["decisions.jsonl, line 3: latency_ms is null"]),
        (lambda f: cut(f / "decisions.jsonl", 3, '{"latency_ms": NaN}'), 3, ["line 3: latency_ms is NaN"]),
        (lambda f: cut(f / "switches.jsonl", 2, '{"ok": true, "whole_ms": "1"}'), 3, ['whole_ms is "1"']),
        (
            lambda f: cut(f / "stress.jsonl", 1, json.dumps(BARE)),
            3,
            ["no loss per seed"],
        ),
        (lambda f: (f / "run.json").write_text("{"), 3, ["r is no run folder"]),
        (lambda f: (f / "run.json").unlink(), 3, ["r is no run folder"]),
    ],
)
def test_what_is_wrong_is_one_line_and_a_remedy(
    apex: Apex, folder: Path, damage: Callable[[Path], None], status: int, words: list[str]
) -> None:
    damage(folder)
    got, out, err = apex(str(folder))
    assert (got, out) == (status, "")
    lines = [line for line in err.splitlines() if "nothing vouches" not in line]
    assert len(lines) == 2 and lines[0].startswith("error[E0303]: ") and lines[1].startswith("  ")
    assert all(word in lines[0] for word in words), lines[0]


def cut(path: Path, number: int, text: str) -> None:
    lines = path.read_text().splitlines()
    lines[number - 1] = text
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("name", "text", "cause", "remedy"),
    [
        ("t.toml", "\ncontroler_p95_ms = 1", "t.toml:2: unknown target 'controler_p95_ms'", "did you mean 'controller_p95_ms'?"),
        ("t.yaml", "x: 1", "t.yaml:1: unknown target 'x'", "known: controller_p95_ms"),
        ("t.toml", 'probe_p95_ms = "fast"', "the limit of 'probe_p95_ms' is 'fast', no number", "write probe_p95_ms = 10"),
        ("t.toml", "probe_p95_ms = true", "is True, no number", "write"),
        ("t.toml", "probe_p95_ms = nan", "is nan, no number", "write"),
        ("t.toml", "probe_p95_ms = ", "t.toml: Invalid value", ""),
        ("missing.toml", None, "cannot read", ""),
    ],
)  # fmt: skip
def test_wrong_targets_are_one_line_with_their_place(
    apex: Apex, folder: Path, name: str, text: str | None, cause: str, remedy: str
) -> None:
    if text is not None:
        Path(name).write_text(text)
    status, out, err = apex(str(folder), "--targets", name)
    assert (status, out) == (2, "")
    assert cause in err.splitlines()[0] and remedy in err
    assert len(err.splitlines()) <= 2
