"""apex compare and power, and the specification's compute_lift and pick_best_static, from the outside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from judged_runs import episodes, run_folder

from apex_framework.cli.boundary import run
from apex_framework.experiment.manifest import write_manifest
from apex_framework.ports import SystemFiles
from apex_framework.scripts.compute_lift import main as compute_lift
from apex_framework.scripts.pick_best_static import main as pick_best_static


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


def test_arms_on_other_tasks_are_refused_whatever_arms_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run_folder(tmp_path / "r", {"static:flat": 50, "static:star": 40})
    rows = [json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines()]
    for row in rows:
        if row["arm"] == "static:star":
            row["task_id"] = "other-" + row["task_id"]
    (folder / "episodes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run(["compare", str(folder)]) == 2
    assert "have no partner" in capsys.readouterr().err


def test_every_number_of_a_comparison_says_its_method(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run_folder(tmp_path / "r", {"bandit_v1": 50, "static:star": 40, "single": 45})
    assert run(["--json", "compare", str(folder)]) == 0
    value = json.loads(capsys.readouterr().out)
    assert {cost["quantity"] for cost in value["costs"]} == {"tokens", "wall_ms"}
    assert all(cost["method"] for cost in value["costs"])
    assert value["safety"]["single"]["violations"] == 0
    assert {"estimate", "interval", "p_mid", "costs", "safety", "verdicts"} <= value["methods"].keys()


def test_margin_and_looks_of_one_pair(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run_folder(tmp_path / "r", {"bandit_v1": 50, "static:star": 40})
    pair = ["--arm", "bandit_v1", "--against", "static:star"]
    assert run(["--json", "compare", str(folder), *pair, "--margin", "2", "--looks", "45,80,300"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["non_inferiority"]["word"] == "NON-INFERIOR"
    assert [look["planned"] for look in value["sequential"]["looks"]] == [45, 80]
    assert value["sequential"]["not_reached"] == [300]
    assert value["sequential"]["looks"][1]["e_value"] > value["sequential"]["looks"][0]["e_value"] > 1
    assert run(["compare", str(folder), "--arm", "static:star", "--against", "bandit_v1", "--margin", "2"]) == 0
    assert "\nINFERIOR: static:star against bandit_v1" in capsys.readouterr().out


def test_a_ladder_of_budgets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = run_folder(tmp_path / "a", {"static:star": 20})
    large = run_folder(tmp_path / "b", {"static:star": 60}, budget=30_000)
    assert run(["--json", "compare", "--curve", str(large), str(small)]) == 0
    (curve,) = json.loads(capsys.readouterr().out)["curves"]
    assert [(p["budget"], p["success"]) for p in curve["points"]] == [(10_000, 0.25), (30_000, 0.75)]
    assert curve["method"] == "simultaneous, bootstrap over 40 clusters"
    assert run(["compare", str(large), str(small)]) == 2  # without --curve these are two settings of one arm
    assert "other settings" in capsys.readouterr().err


def test_the_curve_of_the_oracle_stands_below_those_of_the_arms(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = []
    for budget, solved in ((10_000, 20), (30_000, 60)):
        run_folder(tmp_path / f"r{budget}", {"static:star": solved, "static:flat": solved}, budget=budget)
        path = tmp_path / f"r{budget}" / "episodes.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        for row in rows:
            if row["arm"] == "static:flat" and row["task_id"] == "t79":
                row["success"] = True  # what star does not solve
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        runs.append(str(tmp_path / f"r{budget}"))
    assert run(["--json", "compare", "--curve", *runs]) == 0
    assert json.loads(capsys.readouterr().out)["oracle_static"] == {"10000": 21 / 80, "30000": 61 / 80}
    assert run(["compare", "--curve", *runs]) == 0
    assert "30,000 tokens   76.2 %" in capsys.readouterr().out.split("oracle static")[1]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("success", "false"),
        ("success", None),
        ("tokens", float("nan")),
        ("tokens", float("inf")),
        ("wall_ms", float("nan")),
        ("seed", "first"),
    ],
)
def test_a_garbled_line_is_told_in_one_line(
    tmp_path: Path, key: str, value: object, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run_folder(tmp_path / "r", {"bandit_v1": 50, "static:star": 40})
    lines = (folder / "episodes.jsonl").read_text().splitlines()
    lines[3] = json.dumps({**json.loads(lines[3]), key: value})
    (folder / "episodes.jsonl").write_text("\n".join(lines) + "\n")
    assert run(["compare", str(folder)]) == 3
    assert "error[E0303]: an episode's line lacks or garbles" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["compare", "report"])
@pytest.mark.parametrize("name", ["nosuch", "single", "bandit_v1"])
def test_a_best_static_that_is_none_of_the_run_is_one_line(
    tmp_path: Path, command: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run_folder(tmp_path / "r", {"bandit_v1": 50, "static:star": 40, "static:flat": 45, "single": 9})
    assert run([command, str(folder), "--best-static", name]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.splitlines()[-2:]) == (
        "",
        [f"error[E0201]: unknown static arm of this run {name!r}", "  known: static:flat, static:star"],
    )


def test_a_best_static_that_an_option_names_is_not_called_chosen_on_dev(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run_folder(tmp_path / "r", {"bandit_v1": 50, "static:star": 40, "static:flat": 45, "single": 9})
    for options, told in (
        ((), "chosen on these very tasks."),
        (("--best-static", "static:star"), "named by --best-static."),
    ):
        assert run(["report", str(folder), *options]) == 0
        text = " ".join(capsys.readouterr().out.split())
        assert f"Best static topology: {'static:star' if options else 'static:flat'}, {told}" in text
        assert "on dev" not in text
        assert "picked on the tasks it is compared on" in text and "flatters it" in text


def test_looks_bet_on_clusters_unless_tasks_are_said_to_be_independent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run_folder(tmp_path / "r", {"a": 60, "b": 20})
    pair = ["compare", str(folder), "--arm", "a", "--against", "b", "--looks", "40,80"]
    assert run(["--json", *pair]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["sequential"]["unit"] == "cluster" and "warning" not in captured.err
    assert run([*pair, "--unit", "task"]) == 0
    captured = capsys.readouterr()
    assert "warning: the 80 tasks are in 40 clusters" in captured.err and "tasks taken as independent" in captured.out


@pytest.mark.parametrize(
    "flags",
    [
        ["--looks", "100"],
        ["--margin", "2"],
        ["--arm", "x"],
        ["--arm", "x", "--against", "x"],
        ["--arm", "x", "--against", "y", "--looks", "3,2"],
        ["--arm", "x", "--against", "y", "--looks", "a"],
        ["--arm", "x", "--against", "y", "--margin", "nan"],
        ["--curve", "--best-static", "static:star"],
        ["--arm", "bandit_v1", "--against", "static:star", "--best-static", "static:star"],
        ["--seed", "-1"],
    ],
)
def test_flags_that_make_no_sense_are_usage_errors(
    tmp_path: Path, flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run_folder(tmp_path / "r", {"bandit_v1": 50, "static:star": 40})
    assert run(["compare", str(folder), *flags]) == 2
    assert "error[E0200]" in capsys.readouterr().err


def test_one_task_or_all_alike_still_has_an_honest_interval(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run_folder(tmp_path / "r", {"bandit_v1": 80, "static:star": 80})
    one = run_folder(tmp_path / "one", {"bandit_v1": 1, "static:star": 0})
    rows = [line for line in (one / "episodes.jsonl").read_text().splitlines() if '"t00"' in line]
    (one / "episodes.jsonl").write_text("\n".join(rows) + "\n")
    for path, width in ((folder, 0.01), (one, 0.5)):
        assert run(["--json", "compare", str(path), "--arm", "bandit_v1", "--against", "static:star"]) == 0
        value = json.loads(capsys.readouterr().out)
        assert value["interval"]["high"] - value["interval"]["low"] > width
        assert value["interval"]["method"] == "Newcombe"


def test_power_of_margins_repeats_and_looks(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--json", "power", "--n", "300", "--discordance", "0.1", "--margin", "2"]) == 0
    found = json.loads(capsys.readouterr().out)["non_inferiority"]
    assert found == {"margin": 0.02, "tasks_needed": 1546, "certifiable": False}
    assert run(["--json", "power", "--n", "100", "--repeats", "5", "--icc", "0.5"]) == 0
    assert json.loads(capsys.readouterr().out)["effective_tasks"] == pytest.approx(166.7, abs=0.1)
    assert run(["--json", "power", "--looks", "100,300", "--discordance", "0.2"]) == 0
    stopped = json.loads(capsys.readouterr().out)["sequential"]["stopped_by"]
    assert 0.1 < stopped["100"] < stopped["300"] < 1.0
    for wrong in (
        ["--repeats", "5"],
        ["--lift", "5"],
        ["--repeats", "nan", "--icc", "0.1"],
        ["--looks", "100", "--lift", "nan"],
        ["--margin", "0"],
        ["--n", "1000000"],
        ["--discordance", "nan"],
    ):
        assert run(["power", *wrong]) == 2


def test_power_says_what_can_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--json", "power", "--n", "300", "--discordance", "0.2"]) == 0
    assert json.loads(capsys.readouterr().out)["detectable_lift"] == pytest.approx(0.071, abs=1e-3)
    assert run(["power", "--n", "0"]) == 2


@pytest.mark.parametrize(
    "command", [["compare"], ["slo"], ["value", "--controller", "static:star"], ["compare", "--curve"]]
)
def test_a_folder_of_another_version_is_one_line(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run_folder(tmp_path / "r", {"bandit_v1": 50, "static:star": 40, "single": 30})
    told = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**told, "format": 2}))
    assert run([*command, str(folder)]) != 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "another version" in line]
    assert len(lines) == 1 and "error[E0303]" in lines[0]


def test_repeats_are_worth_one_number_of_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["power", "--n", "100", "--repeats", "5", "--icc", "0.5"]) == 0
    out = capsys.readouterr().out
    assert "are worth 167 independent tasks" in out and "167 tasks at discordance" in out


def test_verify_tells_once_that_a_folder_is_of_another_version(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run_folder(tmp_path / "r", {"bandit_v1": 50})
    told = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**told, "format": 2}))
    write_manifest(folder, SystemFiles())
    assert run(["verify", str(folder)]) == 5
    captured = capsys.readouterr()
    assert captured.err.count("another version") == 1 and "CHANGED" in captured.out
