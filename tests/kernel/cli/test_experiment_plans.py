"""``apex experiment PLAN``, ``verify``, ``export``: what is asked for, what comes back, what is refused."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from math import comb
from pathlib import Path

import pytest
from fake_world import FakeSuite, Terminal

from apex_framework.cli.compare import compare
from apex_framework.cli.experiment import experiment
from apex_framework.cli.export import export
from apex_framework.cli.report import report
from apex_framework.cli.resume import resume
from apex_framework.cli.verify import verify
from apex_framework.interfaces import EpisodeJob, EpisodeResult

PLAN = """
suite = "fake/test"
limit = 6

[settings]
backend = "scripted"

[prereg]
hypothesis = "the bandit solves more"
estimand = "Success@10000, paired by task"
part = "main"
arm = "bandit_v1"
against = ["static_star", "static_chain", "static_flat", "single"]

[arm.blind]
like = "bandit_v1"
options = { mask = ["token_headroom_pct"] }

[[part]]
name = "main"
best_static = "static_star"
arms = ["bandit_v1", "static_star", "static_chain", "static_flat", "single"]

[[part]]
name = "ladder"
budgets = [5000, 8000]
limit = 2
arms = ["bandit_v1", "blind"]
"""


@pytest.fixture
def apex(apex: Terminal) -> Terminal:
    """A terminal in a folder with the plan."""
    apex.world.inline = True
    Path("plan.toml").write_text(PLAN)
    return apex


@pytest.fixture
def done(apex: Terminal) -> Terminal:
    """The plan is registered, and was run to its end."""
    assert apex(experiment, "plan.toml", "--register")[0] == 0
    status, out, err = apex(experiment, "plan.toml", "--out", "out")
    assert status == 0, out + err
    return apex


@pytest.mark.slow
def test_a_registered_plan_ends_in_a_decision_and_goes_on_where_it_stopped(apex: Terminal) -> None:
    status, out, _ = apex(experiment, "plan.toml", "--register", json=True)
    assert status == 0
    assert json.loads(out)["hashes"]["suite.fake"] == "d1"
    apex.world.stop_after = 17
    status, _, _ = apex(experiment, "plan.toml", "--out", "out")
    assert status == 130
    assert not Path("out/experiment.json").exists()
    apex.world.stop_after = None
    status, out, err = apex(experiment, "plan.toml", "--out", "out", json=True)
    assert status == 0, err
    assert apex.world.finished == 5 * 6 + 2 * (2 * 2)
    result = json.loads(out)
    assert result["decision"]["word"] in {"GO", "KILL", "EXTEND"}
    assert result["decision"]["registered"] is True
    assert [run["folder"] for run in result["runs"]] == ["main", "ladder@5000", "ladder@8000"]
    assert result["deviations"] == []
    assert json.loads(Path("out/experiment.json").read_text()) == {k: v for k, v in result.items() if k != "experiment"}
    assert apex(experiment, "plan.toml", "--out", "out")[0] == 0
    assert apex.world.finished == 38


def test_the_plan_is_shown_without_a_task_or_a_file(apex: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeSuite, "tasks", None)
    before = sorted(Path().rglob("*"))
    status, out, err = apex(experiment, "plan.toml", "--plan")
    assert status == 0
    assert "8 = 2 arms x 2 tasks x 1 seeds x 2 budgets" in out
    assert "not registered yet" in out
    assert "6 tasks show no lift at all" in err
    assert sorted(Path().rglob("*")) == before


def test_a_claim_that_was_not_registered_is_not_run(apex: Terminal) -> None:
    status, out, err = apex(experiment, "plan.toml", "--out", "out")
    assert (status, out) == (2, "")
    assert "apex experiment plan.toml --register" in err
    assert not Path("out").exists()


def test_a_plan_without_a_claim_is_run_as_exploratory(apex: Terminal) -> None:
    begin, end = PLAN.index("[prereg]"), PLAN.index("[arm.blind]")
    Path("plan.toml").write_text(PLAN[:begin] + PLAN[end:])
    status, out, err = apex(experiment, "plan.toml", "--out", "out")
    assert status == 0
    assert "exploratory" in out
    assert "nothing was registered" in err
    assert apex(experiment, "plan.toml", "--register")[0] == 2


def test_a_plan_that_changed_is_refused_until_the_reason_is_said_and_kept(
    done: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("plan.toml").write_text(PLAN.replace("solves more", "solves fewer"))
    status, _, err = done(experiment, "plan.toml", "--out", "out")
    assert (status, "error[E0204]" in err, "prereg.hypothesis" in err) == (2, True, True)
    status, out, _ = done(experiment, "plan.toml", "--out", "out", "--deviate", "a slip of the pen")
    assert status == 0
    assert "a slip of the pen" in out
    Path("plan.toml").write_text(PLAN)
    monkeypatch.setattr(FakeSuite, "digest", "d2")
    status, _, err = done(experiment, "plan.toml", "--out", "out")
    assert (status, "suite.fake" in err) == (2, True)


def test_other_code_than_registered_is_a_deviation_and_no_refusal(
    apex: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert apex(experiment, "plan.toml", "--register")[0] == 0
    apex.world.stop_after = 17
    assert apex(experiment, "plan.toml", "--out", "out")[0] == 130
    assert not Path("out/deviations.jsonl").exists()
    monkeypatch.setattr("apex_framework.experiment.code.tree_digest", lambda root, left_out: "f" * 64)
    apex.world.stop_after = None
    status, out, err = apex(experiment, "plan.toml", "--out", "out", json=True)
    assert status == 0, err
    assert len([line for line in err.splitlines() if line.startswith("deviation: other code than registered")]) == 1
    assert len([line for line in err.splitlines() if "main: gone on with other code" in line]) == 1
    told = [row["what"] for row in json.loads(out)["deviations"]]
    assert told[0].startswith("other code than registered: apex_a2a") and told[0].endswith("more")
    assert told[1].startswith("main: gone on with other code than before") and len(told) == 2
    assert json.loads(Path("out/ladder@5000/run.json").read_text())["code"]["apex_agents"] == "f" * 64
    status, out, _ = apex(verify, "out", json=True)
    assert (status, json.loads(out)["deviations"]) == (0, told)
    status, out, _ = apex(report, "out/main", "--format", "html")
    assert "gone on with other code than before" in out and "other code than registered" in out
    status, _, err = apex(experiment, "plan.toml", "--out", "out", "--no-report")
    assert "deviation: other code than registered" in err
    assert len(Path("out/deviations.jsonl").read_text().splitlines()) == 1


def test_nobody_sees_successes_of_a_registered_plan_before_its_one_look(apex: Terminal) -> None:
    assert apex(experiment, "plan.toml", "--register")[0] == 0
    apex.world.stop_after = 15
    status, _, err = apex(experiment, "plan.toml", "--out", "out")
    assert status == 130
    lines = [line for line in err.splitlines() if "/30 episodes" in line]
    assert lines and all("successes stay hidden" in line for line in lines)
    assert not re.search(r"(bandit_v1|static_star|single) \d+/\d+", err)
    sentence = (
        "Unregistered look: out/main has 15 of 30 episodes of a plan that is registered for one look, at its end."
    )
    for form in ("table", "markdown"):
        status, out, _ = apex(report, "out/main", "--format", form)
        assert status == 0
        assert " ".join(out.split("\n\n")[0].strip("*").split()) == sentence
    status, out, _ = apex(report, "out/main", "--format", "html")
    assert 0 < out.index(sentence) < out.index('id="verdict"')
    status, out, _ = apex(compare, "out/main")
    assert (status, out.splitlines()[0]) == (0, sentence)
    pair = ("--arm", "bandit_v1", "--against", "single")
    status, out, _ = apex(compare, "out/main", *pair, json=True)
    assert (status, json.loads(out)["unregistered_look"]) == (0, sentence)
    status, out, _ = apex(compare, "--curve", "out/main")
    assert (status, out.splitlines()[0]) == (0, sentence)
    apex.world.stop_after = None
    assert apex(experiment, "plan.toml", "--out", "out", "--no-report")[0] == 0
    for command, arguments in ((compare, pair), (report, ())):
        assert "Unregistered look" not in apex(command, "out/main", *arguments)[1]


def test_successes_of_what_is_not_registered_are_shown_as_they_come(apex: Terminal) -> None:
    begin, end = PLAN.index("[prereg]"), PLAN.index("[arm.blind]")
    Path("plan.toml").write_text(PLAN[:begin] + PLAN[end:])
    apex.world.stop_after = 15
    status, _, err = apex(experiment, "plan.toml", "--out", "out")
    assert status == 130
    assert re.search(r"bandit_v1 \d/\d", err) and "hidden" not in err
    assert "Unregistered look" not in apex(report, "out/main")[1]


@pytest.mark.parametrize("arm", ["static_flat", "bandit_v1"])
def test_an_arm_that_could_never_be_run_leaves_the_rest_judged_and_the_decision_open(apex: Terminal, arm: str) -> None:
    work = apex.world.work

    def failing(job: EpisodeJob) -> EpisodeResult:
        result = work(job)
        lost = {"status": "infrastructure", "success": False} if job.arm["name"] == arm else {}
        return replace(result, record={**result.record, **lost})

    apex.world.work = failing
    assert apex(experiment, "plan.toml", "--register")[0] == 0
    status, out, err = apex(experiment, "plan.toml", "--out", "out", json=True)
    assert status == 4, err
    result = json.loads(out)
    others = ["static_star", "static_chain", "static_flat", "single"]
    assert result["decision"]["word"] in ("EXTEND", "KILL")
    assert result["decision"]["missing"] == ([arm] if arm in others else others)
    judged = [x["against"] for x in result["runs"][0]["lifts"]]
    assert judged == ([name for name in others if name != arm] if arm in others else [])
    assert "could not be run" in result["deviations"][0]["what"]


def test_a_baseline_that_the_claim_leaves_out_is_named_in_the_decision(apex: Terminal) -> None:
    Path("plan.toml").write_text(
        PLAN.replace('"static_chain", "static_flat", "single"]', '"static_flat", "single"]', 1)
    )
    assert apex(experiment, "plan.toml", "--register")[0] == 0
    status, out, err = apex(experiment, "plan.toml", "--out", "out", "--no-report", json=True)
    assert status == 0, err
    assert json.loads(out)["decision"]["sentence"].endswith("Nothing is said of static_chain: not registered.")


def test_a_run_that_does_not_tell_when_it_was_begun_is_one_line(done: Terminal) -> None:
    run = json.loads(Path("out/main/run.json").read_text())
    for created in ("", "2999-01-01T00:00:00"):
        Path("out/main/run.json").write_text(json.dumps({**run, "created": created}))
        status, _, err = done(experiment, "plan.toml", "--out", "out")
        assert (status, "does not tell when the run was begun" in err) == (3, True), err


def test_results_older_than_their_plan_are_refused(done: Terminal) -> None:
    run = json.loads(Path("out/main/run.json").read_text())
    run["created"] = "2020-01-01T00:00:00+00:00"
    Path("out/main/run.json").write_text(json.dumps(run))
    status, _, err = done(experiment, "plan.toml", "--out", "out")
    assert (status, "error[E0206]" in err) == (2, True)


def test_results_of_another_plan_are_refused(done: Terminal) -> None:
    Path("other.toml").write_text(PLAN.replace("solves more", "solves fewer"))
    assert done(experiment, "other.toml", "--register")[0] == 0
    status, _, err = done(experiment, "other.toml", "--out", "out")
    assert status == 2
    assert "error[E0204]" in err or "error[E0206]" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "a plan file is needed"),
        (("plan.toml", "--budget", "500"), "--budget does not go with a plan"),
        (("plan.toml", "--set", "dwell=3"), "--set does not go with a plan"),
        (("plan.toml", "--gate"), "without a plan"),
        (("plan.toml", "--plan", "--register"), "do not go together"),
        (("none.toml",), "cannot read none.toml"),
    ],
)
def test_wrong_use_is_one_line(apex: Terminal, arguments: tuple[str, ...], words: str) -> None:
    status, out, err = apex(experiment, *arguments)
    assert (status, out) == (2, "")
    assert words in err


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('backend = "scripted"', 'backend = "scripted"\ndwel = 3', "did you mean 'dwell'"),
        ('like = "bandit_v1"', 'like = "bandit_v2"', "did you mean 'bandit_v1'"),
        ("token_headroom_pct", "token_headroom", "mask names no feature"),
        ("limit = 6", 'limit = 6\nfamilies = ["strange"]', "no task of family 'strange'"),
        ("[5000, 8000]", "[50]", "cannot pay for one call"),
    ],
)
def test_what_only_the_plugins_know_is_refused_before_anything_is_run(
    apex: Terminal, old: str, new: str, words: str
) -> None:
    Path("plan.toml").write_text(PLAN.replace(old, new, 1))
    status, out, err = apex(experiment, "plan.toml", "--register")
    if status == 0:
        status, out, err = apex(experiment, "plan.toml", "--out", "out")
    assert (status, words in err) == (2, True), out + err


def test_families_narrow_the_tasks_of_a_part(apex: Terminal) -> None:
    Path("plan.toml").write_text(
        'suite = "fake/dev"\nlimit = 12\nsettings = { backend = "scripted" }\n[[part]]\nfamilies = ["odd"]\narms = ["single"]\n'
    )
    status, out, err = apex(experiment, "plan.toml", "--plan")
    assert status == 0 and out.count("at most 12 ") == 3, out  # which of them are odd is not known yet
    status, out, err = apex(experiment, "plan.toml", "--out", "out", json=True)
    assert status == 0, err
    assert json.loads(out)["runs"][0]["arms"][0]["episodes"] == 6


def test_every_arm_has_predictions_in_the_swe_bench_form(done: Terminal) -> None:
    for arm in ("bandit_v1", "static_star", "static_chain", "static_flat", "single"):
        rows = [json.loads(line) for line in Path(f"out/main/predictions/{arm}.jsonl").read_text().splitlines()]
        assert len({row["instance_id"] for row in rows}) == len(rows) == 6
        for row in rows:
            assert set(row) == {"instance_id", "model_name_or_path", "model_patch"}
            assert all(isinstance(value, str) for value in row.values())
            patch = Path(f"out/main/episodes/{arm}/{row['instance_id']}/0/patch.diff").read_text()
            assert (row["model_name_or_path"], row["model_patch"]) == (f"apex/{arm}", patch)


def test_an_intact_folder_is_verified_and_a_tampered_line_is_named(done: Terminal) -> None:
    assert done(verify, "out")[0] == 0
    path = Path("out/main/episodes.jsonl")
    lines = path.read_text().splitlines(keepends=True)
    lines[3] = (
        lines[3].replace('"success":true', '"success":false')
        if '"success":true' in lines[3]
        else lines[3].replace('"success":false', '"success":true')
    )
    path.write_text("".join(lines))
    status, out, err = done(verify, "out", json=True)
    assert status == 5
    assert "out/main/episodes.jsonl:4 was changed" in err
    assert [row["intact"] for row in json.loads(out)["runs"]] == [True, True, False]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda run: (run / "decisions.jsonl").unlink(), "decisions.jsonl is missing"),
        (lambda run: (run / "calls.jsonl").write_text((run / "calls.jsonl").read_text() + "{}\n"), "lines, not"),
        (lambda run: (run / "LINES").write_text(""), "LINES was changed"),
        (lambda run: (run / "episodes" / "extra.txt").write_text("x"), "extra.txt came after the run"),
        (lambda run: next(run.glob("episodes/*/*/0/patch.diff")).write_text("x"), "patch.diff was changed"),
    ],
)
def test_every_kind_of_damage_is_found(done: Terminal, change: Callable[[Path], object], words: str) -> None:
    change(Path("out/main"))
    status, _, err = done(verify, "out/main")
    assert status == 5
    assert words in err


def test_resume_does_not_seal_a_verdict_that_was_changed(done: Terminal) -> None:
    path = Path("out/main/episodes.jsonl")
    lines = path.read_text().splitlines(keepends=True)
    told = '"success":true' if '"success":true' in lines[3] else '"success":false'
    lines[3] = lines[3].replace(told, '"success":false' if told.endswith("true") else '"success":true')
    path.write_text("".join(lines))
    Path("out/main/DONE").unlink()
    status, _, err = done(resume, "out/main")
    assert status == 3
    assert "error[E0303]: out/main/episodes.jsonl:4 was changed after the run" in err
    assert "restore the file" in err
    assert not Path("out/main/DONE").exists()


def test_results_without_their_plan_are_a_run_whose_plan_is_missing(done: Terminal) -> None:
    Path("out/main/run.json").unlink()
    status, _, err = done(report, "out/main")
    assert (status, "apex verify out/main names all of it" in err) == (3, True)
    status, _, err = done(verify, "out/main")
    assert status == 5
    assert "out/main/run.json is missing" in err
    Path("out/main/DONE").unlink()
    assert "out/main is not finished" in done(verify, "out/main")[2]
    status, _, err = done(resume, "out/main")
    assert status == 3
    assert "out/main has no readable run.json, and so no plan" in err
    assert "restore run.json" in err


def test_a_forged_manifest_does_not_hide_a_forged_number(done: Terminal) -> None:
    from apex_framework.experiment.manifest import write_manifest
    from apex_framework.ports import SystemFiles

    path = Path("out/main/episodes.jsonl")
    path.write_text(path.read_text().replace('"tokens":', '"tokens":1', 1))
    write_manifest(Path("out/main"), SystemFiles())
    status, _, err = done(verify, "out/main")
    assert (status, "is told" in err) == (5, True)


def _edit_decision(key: str, value: object) -> None:
    path = Path("out/experiment.json")
    data = json.loads(path.read_text())
    data["decision"][key] = value
    path.write_text(json.dumps(data))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda: _edit_decision("word", "GO!"), "the decision's word is 'GO!', its runs say"),
        (lambda: _edit_decision("sentence", "BETTER"), "the decision's sentence is 'BETTER'"),
        (lambda: _edit_decision("registered", False), "the decision's registered is False"),
        (lambda: Path("out/experiment.json").write_text("{"), "experiment.json is damaged"),
        (lambda: shutil.rmtree("out/main"), "out/main is missing or not finished"),
        (lambda: Path("out/main/run.json").unlink(), "out/main/run.json is missing"),
    ],
)
def test_a_result_that_its_runs_do_not_bear_out_is_found(
    done: Terminal, change: Callable[[], object], words: str
) -> None:
    change()
    status, _, err = done(verify, "out")
    assert status == 5
    assert words in err


def test_every_run_has_its_page_with_the_decision_and_the_manifest_does_not_need_it(done: Terminal) -> None:
    page = Path("out/main/report/report.html")
    word = json.loads(Path("out/experiment.json").read_text())["decision"]["word"]
    assert f'id="decision"><p class="word">{word}</p>' in page.read_text()
    before = page.read_bytes()
    status, out, _ = done(report, "out/main", "--format", "html", json=True)
    assert (status, json.loads(out)["text"].encode()) == (0, before)
    assert done(verify, "out")[0] == 0
    page.unlink()
    assert done(verify, "out")[0] == 0
    assert done(experiment, "plan.toml", "--out", "out", "--no-report")[0] == 0
    assert not page.exists()
    status, out, _ = done(experiment, "plan.toml", "--out", "out")
    assert out.splitlines()[-1] == "report: out/main/report/report.html"
    assert page.read_bytes() == before


def test_what_is_no_finished_run_cannot_be_verified(done: Terminal) -> None:
    Path("out/main/DONE").unlink()
    assert done(verify, "out/main")[0] == 3
    assert done(verify, "state")[0] == 3


def test_parquet_tables_hold_every_row(done: Terminal) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra [analysis]")
    status, out, err = done(export, "out/main", "--out", "tables", json=True)
    assert status == 0, err
    for name, count in json.loads(out)["rows"].items():
        assert parquet.read_table(f"tables/{name}.parquet").num_rows == count > 0
    episodes = parquet.read_table("tables/episodes.parquet").to_pylist()
    rows = [json.loads(line) for line in Path("out/main/episodes.jsonl").read_text().splitlines()]
    assert [(e["arm"], e["task_id"], e["tokens"]) for e in episodes] == [
        (r["arm"], r["task_id"], r["tokens"]) for r in rows
    ]


def test_a_missing_library_is_named_with_its_extra(done: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    status, _, err = done(export, "out/main", "--out", "tables")
    assert (status, "[analysis]" in err) == (3, True)
    assert not Path("tables").exists()


def recomputed(run: Path, arm: str, other: str) -> tuple[list[str], list[str]]:
    """Cells of an arm's line and of a lift's, made from the lines of a run by nothing but arithmetic."""
    rows = [json.loads(line) for line in (run / "episodes.jsonl").read_text().splitlines()]

    def solved(name: str) -> dict[str, float]:
        by_task: dict[str, list[bool]] = {}
        for row in rows:
            if row["arm"] == name and row["status"] != "infrastructure":
                by_task.setdefault(row["task_id"], []).append(row["success"])
        return {task: sum(values) / len(values) for task, values in by_task.items()}

    def mean(column: str) -> float:
        mine = [row[column] for row in rows if row["arm"] == arm]
        return sum(mine) / len(mine)

    ours, theirs = solved(arm), solved(other)
    share = 100 * sum(ours.values()) / len(ours)
    cells = [
        str(len(ours)),
        f"{share:.1f} %",
        f"{mean('tokens'):,.0f}",
        f"{mean('steps'):.1f}",
        f"{mean('switches'):.2f}",
    ]
    wins = sum(ours[task] > theirs[task] for task in ours)
    losses = sum(ours[task] < theirs[task] for task in ours)
    n, most = wins + losses, max(wins, losses)
    p = min(1.0, 2 * sum(comb(n, k) for k in range(most, n + 1)) / 2**n)
    points = 100 * sum(ours[task] - theirs[task] for task in ours) / len(ours)
    return cells, [f"{points:+.1f} pp", str(wins), str(losses), f"{p:.3f}"]


def table(text: str, title: str) -> list[dict[str, str]]:
    """Rows of a table of the plain report, cells by the head's names."""
    lines = text[text.index(f"{title}\n") :].splitlines()[1:]
    spans = [found.span() for found in re.finditer("-+", lines[1])]
    rows = []
    for line in lines[2:]:
        cells = [line[begin:end].strip() for begin, end in spans]
        if not line.startswith("  ") or not all(cells):
            break
        rows.append(cells)
    head = [lines[0][begin:end].strip() for begin, end in spans]
    return [dict(zip(head, cells, strict=True)) for cells in rows]


def told(apex: Terminal, run: str, arm: str, other: str) -> tuple[list[str], list[str]]:
    """The same cells as ``apex report --json`` prints them."""
    status, out, err = apex(report, run, json=True)
    assert status == 0, err
    text = json.loads(out)["text"]
    line = next(row for row in table(text, "Arms") if row["arm"] == arm)
    lift = next(
        row for row in table(text, "Paired lifts") if (row["lift of"], row["against"].split(" (")[0]) == (arm, other)
    )
    arms = [line[name] for name in ("tasks", "solved", "tokens", "steps", "switches")]
    return arms, [lift[name] for name in ("points", "won", "lost", "McNemar p")]


def test_every_number_of_a_report_is_recomputed_from_lines(done: Terminal) -> None:
    for other in ("static_star", "static_chain", "static_flat", "single"):
        assert told(done, "out/main", "bandit_v1", other) == recomputed(Path("out/main"), "bandit_v1", other)


def test_the_recomputation_sees_a_number_that_does_not_follow_from_the_lines(done: Terminal) -> None:
    before = told(done, "out/main", "bandit_v1", "static_star")
    path = Path("out/main/episodes.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        if row["arm"] == "bandit_v1":
            row["success"] = not row["success"]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert recomputed(Path("out/main"), "bandit_v1", "static_star") != before
    assert done(report, "out/main")[0] == 3  # and the manifest does not vouch for it
