"""``apex suite import``: verdicts of others become a run that compare, verify and report read; wrong ones become nothing."""

from __future__ import annotations

import gzip
import importlib.util
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apex_framework.analysis import lift_between, read_run
from apex_framework.cli.boundary import run
from apex_framework.cli.verdicts import read_verdicts
from apex_framework.errors import UsageError

ROOT = Path(__file__).parents[3]
TASKS = [f"{owner}__{name}-{number}" for owner, name in (("a", "x"), ("b", "y"), ("c", "z")) for number in range(1, 9)]


def lines(path: Path, rows: Iterable[object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def grid(*arms: str, solved: Callable[[str, int], bool] = lambda arm, n: n % 2 == 0) -> list[dict[str, Any]]:
    return [
        {"arm": arm, "instance_id": task, "resolved": solved(arm, number), "tokens": 100 + number}
        for number, task in enumerate(TASKS)
        for arm in arms
    ]


def told(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, Any]:
    status = run([*map(str, arguments), "--json"])
    return status, json.loads(capsys.readouterr().out)


def test_a_run_of_others_is_compared_verified_and_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = grid("good", "bad", solved=lambda arm, n: arm == "good" and n % 3 > 0)
    rows[0] = {key: value for key, value in rows[0].items() if key != "resolved"} | {"error": "no trace"}
    out = tmp_path / "runs" / "r"
    status, made = told(capsys, "suite", "import", lines(tmp_path / "v.jsonl", rows), "--out", out)
    assert (status, made["tasks"], made["clusters"], made["not_judged"], made["level"]) == (0, 24, 3, 1, "L3")

    read = read_run(out)
    assert read.tasks["b__y-3"] == "b/y"
    assert {(r.arm, r.task_id): r.success for r in read.rows if r.judged} == {
        (row["arm"], row["instance_id"]): row["resolved"] for row in rows if "resolved" in row
    }
    status, lift = told(capsys, "compare", out, "--arm", "good", "--against", "bad")
    assert (status, lift["tasks"], lift["wins"], lift["losses"]) == (0, 23, 16, 0)
    assert told(capsys, "verify", out)[1]["intact"] is True
    for form in ("table", "markdown", "html"):
        status, report = told(capsys, "report", out, "--report", form)
        assert (status, "L3" in report["text"]) == (0, True)


def test_a_file_may_be_packed_and_must_be_whole(tmp_path: Path) -> None:
    rows = grid("one", "two")
    packed = gzip.compress(lines(tmp_path / "v.jsonl", rows).read_bytes())
    (tmp_path / "v.jsonl.gz").write_bytes(packed)
    assert [v.task for v in read_verdicts(tmp_path / "v.jsonl.gz")] == [row["instance_id"] for row in rows]
    for name, data in (("cut", packed[:-9]), ("broken", packed[:20] + b"?" + packed[21:]), ("no", b"{}")):
        path = tmp_path / f"{name}.gz"
        path.write_bytes(data)
        with pytest.raises(UsageError, match=f"{name}.gz: no whole gzip file"):
            read_verdicts(path)


def test_a_report_of_the_official_harness_is_an_arm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, good in (("one", TASKS[:5]), ("two", TASKS[:2])):
        rest = [task for task in TASKS if task not in good]
        report = {"resolved_ids": good, "unresolved_ids": rest[1:], "incomplete_ids": rest[:1]}
        (tmp_path / f"{name}.json").write_text(json.dumps(report))
    flags = [f"--report={name}={tmp_path / name}.json" for name in ("one", "two")]
    status, made = told(capsys, "suite", "import", *flags, "--suite", "swebench_lite/test", "--out", tmp_path / "r")
    assert (status, made["arms"], made["not_judged"], made["tokens_unknown"]) == (0, ["one", "two"], 2, 48)
    assert lift_between(read_run(tmp_path / "r").rows, "one", "two").wins == 2  # one of the three was not judged


def test_an_error_of_the_official_harness_is_not_resolved_unless_the_machine_was_at_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As its own rate counts it: a patch that does not apply, or whose tests time out, ends in error_ids."""
    report = {
        "resolved_ids": TASKS[:2],
        "unresolved_ids": TASKS[2:3],
        "error_ids": TASKS[3:6],
        "infra_failure_ids": [],
        "ambiguous_failure_ids": TASKS[4:5],
        "schema_version": 2,
    }
    place = tmp_path / "a.json"
    found = []
    for changed in (
        {},
        {"infra_failure_ids": TASKS[2:4]},  # of the unresolved one there is a verdict
        {"incomplete_ids": TASKS[6:8]},
    ):
        place.write_text(json.dumps({**report, **changed}))
        out = tmp_path / f"r{len(found)}"
        found.append(told(capsys, "suite", "import", f"--report=a={place}", "--out", out)[1]["resolved"]["a"])
    old = {key: value for key, value in report.items() if not key.endswith("failure_ids")}
    place.write_text(json.dumps(old))  # as harnesses before 5.0 write it
    found.append(told(capsys, "suite", "import", f"--report=a={place}", "--out", tmp_path / "old")[1]["resolved"]["a"])
    assert [tuple(one.values()) for one in found] == [(2, 6, 6), (2, 5, 6), (2, 6, 8), (2, 6, 6)]
    assert "33.3 %" in told(capsys, "report", tmp_path / "r0")[1]["text"]

    place.write_text(json.dumps({**report, "incomplete_ids": TASKS[6:8]}))
    assert run(["suite", "import", f"--report=a={place}", "--out", str(tmp_path / "words")]) == 0
    assert "a: 2 of 6 judged resolved, 33.3 %; 2 of all 8, 25.0 %" in capsys.readouterr().out
    place.write_text(json.dumps({**report, "infra_failure_ids": "x"}))
    assert told(capsys, "suite", "import", f"--report=a={place}", "--out", tmp_path / "no")[0] == 2


def test_planted_a_reader_that_leaves_errors_out_shows_another_rate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"resolved_ids": TASKS[:2], "error_ids": TASKS[2:6]}))
    flags = ["suite", "import", f"--report=a={tmp_path / 'a.json'}", "--out"]
    assert told(capsys, *flags, tmp_path / "r")[1]["resolved"]["a"] == {"resolved": 2, "judged": 6, "all": 6}
    monkeypatch.setattr("apex_framework.cli.predictions._NOT_RESOLVED", ("unresolved_ids", "empty_patch_ids"))
    assert told(capsys, *flags, tmp_path / "s")[1]["resolved"]["a"] == {"resolved": 2, "judged": 2, "all": 2}


def test_outcomes_keep_the_level_of_the_run_that_they_come_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = lines(tmp_path / "v.jsonl", grid("one", "two"))
    for level, words in (("L1", "a simulator"), ("L2", "really executed"), ("L3", "recorded traces")):
        status, made = told(capsys, "suite", "import", path, "--level", level, "--out", tmp_path / level)
        assert (status, made["level"]) == (0, level)
        text = told(capsys, "report", tmp_path / level)[1]["text"]
        assert f"Claim level {level}: " in text and words in text and ("At level L3" in text) == (level == "L3")
    for level in ("L4", "l2", ""):
        assert told(capsys, "suite", "import", path, "--level", level, "--out", tmp_path / "x")[0] == 2
    assert not (tmp_path / "x").exists()


def _without(row: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in keys}


WRONG: dict[str, tuple[Callable[[list[Any]], list[Any]], str]] = {
    "nothing": (lambda rows: [], "holds no verdict"),
    "no object": (lambda rows: [*rows, 3], "v.jsonl:49: int"),
    "no arm": (lambda rows: [_without(rows[0], "arm"), *rows[1:]], "v.jsonl:1: arm"),
    "no task": (lambda rows: [_without(rows[0], "instance_id"), *rows[1:]], "v.jsonl:1: one of task"),
    "two tasks": (lambda rows: [{**rows[0], "task": "t"}, *rows[1:]], "v.jsonl:1: one of task"),
    "a word for a verdict": (lambda rows: [{**rows[0], "resolved": "yes"}, *rows[1:]], "v.jsonl:1: arm as a text"),
    "a number for a verdict": (lambda rows: [{**rows[0], "resolved": 1}, *rows[1:]], "v.jsonl:1: arm as a text"),
    "another key": (lambda rows: [{**rows[0], "sucess": True}, *rows[1:]], "cannot say 'sucess'"),
    "negative tokens": (lambda rows: [{**rows[0], "tokens": -1}, *rows[1:]], "tokens must be"),
    "endless time": (lambda rows: [{**rows[0], "wall_ms": 1e999}, *rows[1:]], "wall_ms must be"),
    "a name over two lines": (lambda rows: [{**rows[0], "arm": "a\nb"}, *rows[1:]], "arm must be"),
    "twice": (lambda rows: [*rows, rows[0]], "v.jsonl:49: a second verdict"),
    "two clusters": (lambda rows: [*rows[:-1], {**rows[-1], "cluster": "else"}], "has cluster 'else'"),
    "a hole": (lambda rows: rows[:-1], "arm 'two' has no verdict for task 'c__z-8'"),
    "other seeds": (lambda rows: [*rows[:-1], {**rows[-1], "seed": 1}], "has no verdict for task"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_verdicts_are_one_line_and_make_nothing(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil, words = WRONG[name]
    place = tmp_path / "there"
    place.mkdir()
    path = lines(tmp_path / "v.jsonl", spoil(grid("one", "two")))
    status, told_of = told(capsys, "suite", "import", path, "--out", place / "r")
    assert (status, words in told_of["error"]["cause"]) == (2, True), told_of
    assert list(place.iterdir()) == []


def test_what_is_there_is_never_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = lines(tmp_path / "v.jsonl", grid("one"))
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "mine").write_text("mine")
    assert told(capsys, "suite", "import", path, "--out", tmp_path / "r")[0] == 3
    assert [p.name for p in (tmp_path / "r").iterdir()] == ["mine"]
    for arguments in (["--out", tmp_path / "s"], [path, "--suite", "x", "--out", tmp_path / "s"], ["--report", "a"]):
        assert told(capsys, "suite", "import", *arguments)[0] == 2
    assert not (tmp_path / "s").exists()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.booleans(), min_size=2, max_size=2), min_size=1, max_size=12), st.randoms())
def test_no_verdict_is_lost_or_changed(tmp_path_factory: pytest.TempPathFactory, marks: Any, random: Any) -> None:
    folder = tmp_path_factory.mktemp("import")
    rows = [
        {"arm": f"arm{a}", "task": f"t{t}", "success": s} for t, pair in enumerate(marks) for a, s in enumerate(pair)
    ]
    random.shuffle(rows)
    path = lines(folder / "v.jsonl", rows)
    assert run(["suite", "import", str(path), "--out", str(folder / "r"), "--json"]) == 0
    read = read_run(folder / "r")
    assert sorted((r.arm, r.task_id, r.success, r.cluster) for r in read.rows) == sorted(
        (row["arm"], row["task"], row["success"], row["task"]) for row in rows
    )
    assert len(read_verdicts(path)) == len(read.rows)


@pytest.fixture(scope="module")
def selection() -> Any:
    spec = importlib.util.spec_from_file_location("selection", ROOT / "examples" / "selection.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def study(selection: Any, folder: Path, rows: list[dict[str, Any]]) -> dict[str, Any]:
    path = lines(folder / "v.jsonl", rows)
    assert run(["suite", "import", str(path), "--out", str(folder / "r"), "--json"]) == 0
    return dict(selection.study(read_run(folder / "r").rows))


def test_a_selector_wins_where_each_cluster_has_a_master(selection: Any, tmp_path: Path) -> None:
    masters = {"x": "one", "y": "two", "z": "three"}
    rows = grid("one", "two", "three")
    for row in rows:
        row["resolved"] = masters[row["instance_id"].split("__")[1][0]] == row["arm"]
    found = study(selection, tmp_path, rows)
    assert (found["oracle_of_all"], found["selector"], found["one_for_all"] <= 1 / 3) == (1.0, 1.0, True)
    assert found["lift"].estimate >= 2 / 3


def test_a_selector_does_not_see_the_task_that_it_is_judged_on(selection: Any, tmp_path: Path) -> None:
    """Each task is solved by one system that solves no other: hindsight solves all of them, foresight none."""
    rows = grid(*[f"arm{n}" for n in range(len(TASKS))], solved=lambda arm, n: arm == f"arm{n}")
    found = study(selection, tmp_path, rows)
    assert (found["oracle_of_all"], found["selector"], found["one_for_all"]) == (1.0, 0.0, 0.0)


def test_luck_is_what_other_attempts_solve(selection: Any, tmp_path: Path) -> None:
    rows = [{**row, "seed": seed, "resolved": n % 3 == seed} for seed in range(3) for n, row in enumerate(grid("one"))]
    assert study(selection, tmp_path, rows)["luck"]["one"] == {"attempts": 3, "best_attempt": 1 / 3, "any": 1.0}
