"""apex compare and power, and the specification's compute_lift and pick_best_static, from the outside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from apex_framework.cli.boundary import run
from apex_framework.scripts.compute_lift import main as compute_lift
from apex_framework.scripts.pick_best_static import main as pick_best_static


def episodes(path: Path, arm: str, solved: int, *, tasks: int = 80, digest: str = "d") -> Path:
    rows = [
        {
            "arm": arm,
            "task_id": f"t{i:02}",
            "seed": 0,
            "success": i < solved,
            "tokens": 4_000,
            "steps": 8,
            "switches": 0,
            "denied": 0,
            "status": "done",
            "cluster": f"m{i % 40}",
            "suite_digest": digest,
        }
        for i in range(tasks)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def run_folder(path: Path, solved: dict[str, int], *, digest: str = "d") -> Path:
    path.mkdir()
    lines = "".join(episodes(path / "part", arm, n, digest=digest).read_text() for arm, n in solved.items())
    (path / "part").unlink()
    (path / "episodes.jsonl").write_text(lines)
    plan = {
        "suite": "mini",
        "split": "dev",
        "suite_digest": digest,
        "level": "L2",
        "tasks": [[f"t{i:02}", f"m{i % 40}", ""] for i in range(80)],
        "arms": [{"name": arm, "team": "swe", "controller": arm} for arm in solved],
        "seeds": [0],
    }
    (path / "run.json").write_text(json.dumps({"format": 1, "plan": plan}))
    return path


def test_compute_lift_writes_the_paired_lift(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = episodes(tmp_path / "a.jsonl", "bandit_v1", 50), episodes(tmp_path / "b.jsonl", "static:star", 40)
    status = run(["--a", str(a), "--b", str(b), "--paired", "--out", str(tmp_path / "o.json")], compute_lift, "lift")
    assert status == 0
    lift = json.loads((tmp_path / "o.json").read_text())
    assert lift["estimate"] == pytest.approx(0.125)
    assert (lift["wins"], lift["losses"], lift["tasks"]) == (10, 0, 80)
    assert lift["interval"]["low"] < 0.125 < lift["interval"]["high"]
    assert "bandit_v1 against static:star: +12.5 pp" in capsys.readouterr().out


def test_compute_lift_refuses_what_cannot_be_paired(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = episodes(tmp_path / "a.jsonl", "bandit_v1", 50)
    for b in (episodes(tmp_path / "b.jsonl", "x", 40, tasks=79), episodes(tmp_path / "c.jsonl", "x", 4, digest="e")):
        out = tmp_path / "o.json"
        assert run(["--a", str(a), "--b", str(b), "--paired", "--out", str(out)], compute_lift, "lift") == 2
        assert "error[E0205]" in capsys.readouterr().err
        assert not out.exists()


def test_pick_best_static_copies_the_best_and_warns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {
        n: episodes(tmp_path / f"{n}.jsonl", f"static_{n}", s) for n, s in (("star", 9), ("chain", 30), ("flat", 20))
    }
    out = tmp_path / "best.jsonl"
    flags = [part for name, path in files.items() for part in (f"--{name}", str(path))]
    assert run([*flags, "--out", str(out)], pick_best_static, "pick") == 0
    assert out.read_text() == files["chain"].read_text()
    captured = capsys.readouterr()
    assert captured.out.startswith("chain (star 11.2 %, chain 37.5 %")
    assert "made on dev" in captured.err


def test_compare_one_pair_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run_folder(tmp_path / "r", {"bandit_v1": 50, "static:star": 40})
    assert run(["--json", "compare", str(folder), "--arm", "bandit_v1", "--against", "static:star"]) == 0
    assert json.loads(capsys.readouterr().out)["estimate"] == pytest.approx(0.125)


def test_compare_refuses_mixed_suite_digests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = run_folder(tmp_path / "a", {"bandit_v1": 50})
    two = run_folder(tmp_path / "b", {"static:star": 40}, digest="e")
    assert run(["compare", str(one), str(two)]) == 2
    error = capsys.readouterr().err
    assert "error[E0205]" in error and "suite_digest" in error


def test_compare_refuses_unpaired_episodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run_folder(tmp_path / "r", {"bandit_v1": 50, "static:star": 40})
    lines = (folder / "episodes.jsonl").read_text().splitlines(keepends=True)
    (folder / "episodes.jsonl").write_text("".join(lines[:-1]))
    assert run(["compare", str(folder)]) == 2
    assert "have no partner" in capsys.readouterr().err


def test_power_says_what_can_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--json", "power", "--n", "300", "--discordance", "0.2"]) == 0
    assert json.loads(capsys.readouterr().out)["detectable_lift"] == pytest.approx(0.071, abs=1e-3)
    assert run(["power", "--n", "0"]) == 2
