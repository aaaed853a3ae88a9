"""``apex suite`` on SWE-bench as a person meets it: check, grade, export, fetch, and what is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from swebench_world import World, make_world

from apex_framework.cli.boundary import run
from apex_framework.cli.predictions import read_predictions
from apex_framework.errors import UsageError

SUITE = "swebench_lite/dev"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("APEX_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return make_world(tmp_path)


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any, str]:
    status = run(["suite", *arguments, "--json"])
    out, err = capsys.readouterr()
    refused = status in (2, 3)
    return status, None if refused else json.loads(out), json.loads(out)["error"]["cause"] if refused else err


def predictions(world: World, path: Path, *names: str) -> Path:
    rows = [
        {"instance_id": world.row["instance_id"], "model_name_or_path": "m", "model_patch": world.patches[n]}
        for n in names
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.slow
def test_a_task_is_checked_once_and_then_judges_patches(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trusted = ["--allow-weaker-sandbox", *world.flags]
    status, first, _ = told(capsys, "check", SUITE, *trusted)
    assert (status, first["behave"], first["cached"]) == (0, 1, 0)
    (one,) = first["checks"]
    assert (one["task"], one["behaves"]) == ("demo__tiny-1", True)
    status, again, _ = told(capsys, "check", SUITE, *trusted)
    assert (status, again["behave"], again["cached"], again["digest"]) == (0, 1, 1, first["digest"])
    for name, resolved in (("gold", 1), ("breaks another", 0)):
        out = tmp_path / "verdicts.jsonl"
        flags = ["--predictions", str(predictions(world, tmp_path / "p.jsonl", name)), "--out", str(out), *trusted]
        status, found, _ = told(capsys, "grade", SUITE, *flags)
        assert (status, found["resolved"], found["judged"]) == (0, resolved, 1)
        assert json.loads(out.read_text()) == found["verdicts"][0]
    status, listed, _ = told(capsys, "list", SUITE, *world.flags)
    assert [row["id"] for row in listed] == ["demo__tiny-1"]


def test_a_task_that_does_not_behave_is_status_5_and_nothing_is_left(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    world.write({**world.row, "patch": world.patches["no help"]})
    status, found, _ = told(capsys, "check", SUITE, "--allow-weaker-sandbox", *world.flags)
    assert status == 5 and "do not pass" in found["do_not_behave"]["demo__tiny-1"]
    assert not list((tmp_path / "scratch").glob("apex-*"))


def test_what_cannot_be_judged_is_status_4(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.environments.write_text('[[environment]]\nrepo = "a/b"\n')
    status, found, _ = told(capsys, "check", SUITE, "--allow-weaker-sandbox", *world.flags)
    assert status == 4 and found["not_judged"] == {"demo__tiny-1": "no environment for demo/tiny 1.0"}


def test_what_is_missing_is_told_once_with_its_remedy(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = [f"demo__tiny-{number}" for number in range(1, 6)]
    world.write(*({**world.row, "instance_id": name} for name in ids))
    clone = world.repos / "demo+tiny"
    clone.rename(tmp_path / "elsewhere")
    assert run(["suite", "check", SUITE, "--allow-weaker-sandbox", *world.flags]) == 3
    out = capsys.readouterr().out
    assert f"could not be judged: {', '.join(ids[:3])} and 2 more: no clone of demo/tiny in {world.repos}\n" in out
    assert out.count(f"\n  git clone --bare https://github.com/demo/tiny {clone}\n") == 1
    assert run(["suite", "check", SUITE, "--allow-weaker-sandbox", *world.flags, "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert list(found["not_judged"]) == ids
    assert {one["code"] for one in found["checks"]} == {"E0306"}
    without = ["--data", str(world.data), "--environments", str(world.environments)]
    assert run(["suite", "check", SUITE, "--allow-weaker-sandbox", *without]) == 2
    err = capsys.readouterr().err
    assert err.count("their folder was not named") == 1 and "--repos DIR" in err


def test_foreign_code_without_a_strong_sandbox_is_refused(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    status, found, err = told(capsys, "check", SUITE, "--sandbox", "plain", *world.flags)
    assert (status, found) == (3, None)
    assert "code of foreign repositories needs a sandbox" in err


def test_a_run_without_checked_tasks_says_which_command_checks_them(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--data", str(world.data), "--repos", str(world.repos), "--out", str(tmp_path / "run")]
    assert run(["run", "--suite", SUITE, "--episodes", "1", *flags]) == 3
    err = capsys.readouterr().err
    assert "none of the 1 tasks of swebench_lite/dev was checked" in err and "apex suite check swebench_lite/dev" in err
    assert not (tmp_path / "run").exists()


def test_tasks_go_out_in_the_official_format(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.jsonl"
    status, found, _ = told(capsys, "export", SUITE, "--out", str(out), *world.flags)
    assert (status, found["tasks"], found["without_fail_to_pass"]) == (0, 1, 0)
    row = json.loads(out.read_text())
    assert {name: row[name] for name in ("instance_id", "base_commit", "patch")} == {
        name: world.row[name] for name in ("instance_id", "base_commit", "patch")
    }
    assert json.loads(row["FAIL_TO_PASS"]) == json.loads(world.row["FAIL_TO_PASS"])
    assert run(["suite", "export", SUITE, "--out", str(tmp_path / "no" / "x"), *world.flags]) == 3


def test_a_link_a_pipe_and_what_stood_there_are_written_to_as_by_a_report(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, link, pipe = tmp_path / "out.jsonl", tmp_path / "link.jsonl", tmp_path / "pipe"
    link.symlink_to(out)
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    (tmp_path / "report.json").write_text(json.dumps({"resolved_ids": ["demo__tiny-1"]}))
    given = predictions(world, tmp_path / "p.jsonl", "gold")
    judged = ["--predictions", str(given), "--imported", str(tmp_path / "report.json")]
    try:
        for command in (["export", SUITE], ["grade", SUITE, *judged]):
            out.write_text("old")
            (tmp_path / "old.jsonl").unlink(missing_ok=True)
            (tmp_path / "old.jsonl").hardlink_to(out)  # shows whether the old file itself was written into
            for place in (link, pipe):
                assert told(capsys, *command, "--out", str(place), *world.flags)[0] == 0
            assert (tmp_path / "old.jsonl").read_text() == "old"
            assert link.is_symlink() and pipe.is_fifo()
            assert json.loads(out.read_text())["instance_id"] == "demo__tiny-1"
            assert os.read(reader, 65_536) == out.read_bytes()
    finally:
        os.close(reader)


def test_a_sample_in_turns_has_every_cluster_and_is_part_of_larger_ones(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    many = [("a/a", n) for n in range(6)] + [("b/b", n) for n in range(2)]
    world.write(*({**world.row, "repo": repo, "instance_id": f"{repo[0]}-{n}"} for repo, n in many))
    found = []
    for limit in (2, 5, 8):
        told(capsys, "export", SUITE, "--in-turns", "--limit", str(limit), "--out", str(tmp_path / "x"), *world.flags)
        rows = [json.loads(line) for line in (tmp_path / "x").read_text().splitlines()]
        found.append([row["repo"] + row["instance_id"] for row in rows])
    assert found[0] == found[2][:2] and found[1] == found[2][:5] and len(set(found[2])) == 8
    assert {name[0] for name in found[0]} == {"a", "b"} and sum(name[0] == "b" for name in found[1]) == 2


def test_predictions_are_read_in_every_form_of_the_official_harness(tmp_path: Path) -> None:
    rows = [
        {"instance_id": n, "model_patch": p, "model_name_or_path": "o/m"}
        for n, p in (("a", "x\r\u2028y\x0c"), ("b", None))
    ]
    wanted = [("a", "o/m", "x\r\u2028y\x0c"), ("b", "o/m", "")]
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    table = json.dumps({row["instance_id"]: row for row in rows}, indent=1)
    for name, text in (("p.jsonl", lines), ("p.json", json.dumps(rows)), ("q.json", table)):
        (tmp_path / name).write_bytes(text.encode())
        assert [(p.instance_id, p.model, p.patch) for p in read_predictions(tmp_path / name)] == wanted
    (tmp_path / "q.json").write_text(json.dumps({"a": {"instance_id": "a"}}))
    with pytest.raises(UsageError, match=r"q\.json\['a'\]: instance_id and model_patch"):
        read_predictions(tmp_path / "q.json")


def test_verdicts_of_the_official_harness_are_taken_over_and_said_to_be(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report, given = tmp_path / "report.json", predictions(world, tmp_path / "p.jsonl", "gold")
    flags = ["--predictions", str(given), "--imported", str(report), *world.flags]
    kinds = [
        ("resolved_ids", 0, True),
        ("unresolved_ids", 0, False),
        ("error_ids", 0, False),
        ("incomplete_ids", 4, False),
    ]
    for key, status, success in kinds:
        report.write_text(json.dumps({"resolved_ids": [], key: ["demo__tiny-1"]}))
        found = told(capsys, "grade", SUITE, *flags)
        assert found[0] == status
        assert [(v["evaluator"], v["success"]) for v in found[1]["verdicts"]] == [("swebench/imported", success)]
    report.write_text("[]")
    assert told(capsys, "grade", SUITE, *flags)[0] == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "p.jsonl:1: not JSON"),
        ('{"instance_id": "demo__tiny-1"}', "p.jsonl:1: instance_id and model_patch are needed"),
        (
            '[{"instance_id": "other__x-1", "model_patch": ""}]',
            "p.jsonl[0]: swebench_lite/dev has no task 'other__x-1'",
        ),
        ("", "it holds no prediction"),
    ],
)
def test_wrong_predictions_are_refused_with_their_place(
    world: World, tmp_path: Path, text: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.jsonl").write_text(text)
    flags = ["--predictions", str(tmp_path / "p.jsonl"), "--allow-weaker-sandbox", *world.flags]
    status, _, err = told(capsys, "grade", SUITE, *flags)
    assert status == 2 and words in err
    predictions(world, tmp_path / "p.jsonl", "gold", "empty")
    assert "a second patch" in told(capsys, "grade", SUITE, *flags)[2]


def test_wrong_options_are_refused(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, "list", SUITE)[0] == 2
    assert "takes no option 'data'" in told(capsys, "list", "mini/dev", "--data", str(world.data))[2]
    status, _, err = told(capsys, "check", "swebench_lite/test", *world.flags)
    assert status == 2 and "no task of the split 'test'" in err


def test_what_to_download_is_said(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, found, _ = told(capsys, "fetch", "swebench_verified", "--dry-run")
    assert status == 0 and "SWE-bench_Verified" in found["sources"][0]
    found = told(capsys, "fetch", SUITE, "--dry-run", "--data", str(world.data), "--repos", str(tmp_path))[1]
    assert found["sources"][1] == f"git clone --bare https://github.com/demo/tiny {tmp_path}/demo+tiny"
    assert len(told(capsys, "fetch", SUITE, "--dry-run", *world.flags)[1]["sources"]) == 1
    assert told(capsys, "fetch", "mini/dev")[1]["sources"] == []
