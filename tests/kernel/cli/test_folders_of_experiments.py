"""An experiment's folder that is another's, was killed, moved, edited, or is of another build."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_plans import CLAIM, PlanTerminal, plan, settings

from apex_framework.cli.experiment import experiment
from apex_framework.cli.report import report
from apex_framework.cli.resume import resume
from apex_framework.cli.verify import verify
from apex_framework.experiment.manifest import write_manifest
from apex_framework.interfaces import EpisodeJob, EpisodeResult, infrastructure_failure
from apex_framework.ports import SystemFiles


def test_a_decision_that_the_runs_do_not_bear_out_is_not_reported(planned: PlanTerminal) -> None:
    plan("", more=CLAIM)
    assert planned(experiment, "plan.toml", "--register")[0] == 0
    assert planned.run()[0] == 0
    assert planned(report, "out/main")[0] == 0
    path = Path("out/experiment.json")
    data = json.loads(path.read_text())
    assert data["decision"]["word"] != "GO"
    data["decision"]["word"] = "GO"
    path.write_text(json.dumps(data))
    for form in ("table", "html"):
        status, out, err = planned(report, "out/main", "--format", form)
        assert (status, out) == (3, "")
        assert "error[E0303]" in err and "the decision's word is 'GO'" in err
        assert f"apex verify {Path('out').absolute()}" in err
    assert planned.run()[0] == 0  # made again from the runs
    assert planned(report, "out/main")[0] == 0


def test_a_changed_run_names_the_command_that_tells_all_of_it(planned: PlanTerminal) -> None:
    assert planned.run()[0] == 0
    with Path("out/main/calls.jsonl").open("a") as file:
        file.write("{}\n")
    status, _, err = planned(report, "out/main")
    assert (status, "apex verify out/main" in err) == (3, True)


def test_a_run_without_an_episode_says_how_it_goes_on(planned: PlanTerminal) -> None:
    assert planned.run()[0] == 0
    Path("out/main/DONE").unlink()
    Path("out/main/episodes.jsonl").unlink()
    status, _, err = planned(report, "out/main")
    assert (status, "apex resume out/main" in err, "no episode yet" in err) == (3, True, True)


def test_the_folder_of_another_experiment_stays_as_it_is(planned: PlanTerminal) -> None:
    assert planned.run()[0] == 0
    before = Path("out/experiment.json").read_bytes()
    plan('"main"', '"second"', path="other.toml")
    for why in ((), ("--deviate", "I like that folder")):
        status, out, err = planned(experiment, "other.toml", "--out", "out", "--no-report", *why)
        assert (status, out) == (2, "")
        assert "error[E0204]: out holds experiment 'plan', not 'other'\n  choose another --out\n" in err
    assert not Path("out/second").exists() and not Path("out/deviations.jsonl").exists()
    assert Path("out/experiment.json").read_bytes() == before
    assert planned.run()[0] == 0


def test_a_plan_that_was_edited_since_goes_on_with_its_reason_only(planned: PlanTerminal) -> None:
    assert planned.run()[0] == 0
    before = Path("out/experiment.json").read_bytes()
    plan("", more='[[part]]\nname = "late"\narms = ["single"]\n')
    status, _, err = planned.run()
    assert (status, "out/experiment.json is of a plan with digest" in err, "--deviate" in err) == (2, True, True)
    assert Path("out/experiment.json").read_bytes() == before and not Path("out/late").exists()
    assert planned.run("--deviate", "an afterthought")[0] == 0
    assert "an afterthought" in Path("out/experiment.json").read_text()
    assert planned.run()[0] == 0


@pytest.mark.parametrize("text", ["{", "[]", '{"results": 3}'])
def test_a_file_that_is_no_result_is_not_overwritten(planned: PlanTerminal, text: str) -> None:
    Path("out").mkdir()
    Path("out/experiment.json").write_text(text)
    status, _, err = planned.run()
    assert (status, "no result of an experiment" in err) == (3, True)
    assert [path.name for path in Path("out").iterdir()] == ["experiment.json"]
    assert Path("out/experiment.json").read_text() == text


def test_a_run_folder_is_no_place_for_an_experiment(planned: PlanTerminal) -> None:
    assert planned.run()[0] == 0
    status, _, err = planned(experiment, "plan.toml", "--out", "out/main")
    assert (status, "out/main is a run folder" in err) == (3, True)
    assert not Path("out/main/main").exists()


def files(folder: str) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.is_file()}


@pytest.mark.parametrize("killed", ["before its first run", "in its first run", "of an older build"])
def test_an_experiment_that_was_killed_early_keeps_its_folder(planned: PlanTerminal, killed: str) -> None:
    assert planned.run()[0] == 0
    Path("out/experiment.json").unlink()
    if killed == "before its first run":
        shutil.rmtree("out/main")
    else:
        Path("out/main/DONE").unlink()
    if killed == "of an older build":
        Path("out/begun.json").unlink()
    before = files("out")
    plan('"main"', '"second"', path="other.toml")
    for why in ((), ("--deviate", "I like that folder")):
        status, out, err = planned(experiment, "other.toml", "--out", "out", "--no-report", *why)
        assert (status, out) == (2, "")
        assert "error[E0204]: out holds experiment 'plan', not 'other'\n  choose another --out\n" in err
    assert files("out") == before
    assert planned.run()[0] == 0


@pytest.mark.parametrize("older", [False, True])
def test_a_plan_that_was_edited_after_an_early_kill_is_another_one(planned: PlanTerminal, older: bool) -> None:
    assert planned.run()[0] == 0
    Path("out/experiment.json").unlink()
    if older:
        Path("out/begun.json").unlink()
    before = files("out")
    plan('"main"', '"second"')
    status, _, err = planned.run()
    assert (status, "--deviate" in err) == (2, True)
    assert ("out/main is no run of this plan" if older else "out/begun.json is of a plan with digest") in err
    assert files("out") == before


def test_a_folder_that_was_moved_is_read_as_it_is_and_gone_on_with_where_its_data_lies_now(
    planned: PlanTerminal,
) -> None:
    Path("a").write_text("")
    plan(*settings('suite_options = { data = "a" }'))
    assert planned.run("--data", "a")[0] == 0
    Path("new").mkdir()
    Path("a").rename("new/a")
    shutil.move("out", "moved")
    for command, what in ((report, "moved/main"), (verify, "moved")):
        status, _, err = planned(command, what)
        assert status == 0, err
    Path("moved/main/DONE").unlink()
    rows = Path("moved/main/episodes.jsonl")
    rows.write_text("".join(rows.read_text().splitlines(keepends=True)[:2]))
    status, out, err = planned(resume, "moved/main", "--no-report")
    assert (status, out) == (2, "")
    gone = f"moved/main: its suite's data, {os.getcwd()}/a, is not there\n  apex resume moved/main --data "
    assert gone in err
    Path("new/b").write_text("")
    status, _, err = planned(resume, "moved/main", "--no-report", "--data", "new/b")
    assert (status, "suite_digest" in err) == (2, True), err
    planned.world.places.clear()
    status, _, err = planned(resume, "moved/main", "--no-report", "--data", "new/a")
    assert status == 0, err
    assert planned.world.places == [{"data": f"{os.getcwd()}/new/a"}] * 2
    assert json.loads(Path("moved/main/run.json").read_text())["plan"]["settings"]["suite_options"] == {
        "data": f"{os.getcwd()}/a"
    }
    status, _, err = planned(experiment, "plan.toml", "--out", "moved", "--no-report", "--data", "new/a")
    assert status == 0, err


@pytest.mark.parametrize("told_by", ["the result", "its runs", "nobody"])
def test_a_result_of_another_build_is_told_from_an_edited_one(planned: PlanTerminal, told_by: str) -> None:
    plan("", more=CLAIM)
    assert planned(experiment, "plan.toml", "--register")[0] == 0
    assert planned.run()[0] == 0
    path, run = Path("out/experiment.json"), Path("out/main/run.json")
    data = json.loads(path.read_text())
    data["decision"]["word"] = "GO"
    other = {**data["code"], "apex_framework": "0" * 64}
    if told_by == "the result":
        data["code"] = other
    elif told_by == "its runs":  # of a build that did not write its code into the result
        del data["code"]
        run.write_text(json.dumps({**json.loads(run.read_text()), "code": other}))
        write_manifest(run.parent, SystemFiles())
    path.write_text(json.dumps(data))
    another = "another build computed it (apex_framework 000000000000 -> "
    for command, what, status in ((report, "out/main", 3), (verify, "out", 5)):
        found, _, err = planned(command, what)
        assert found == status
        assert (another in err, "its runs say" in err) == (told_by != "nobody", told_by == "nobody"), err


@pytest.mark.parametrize("finished", [True, False])
def test_a_run_whose_plan_is_gone_is_not_somebody_elses_folder(planned: PlanTerminal, finished: bool) -> None:
    assert planned.run()[0] == 0
    Path("out/main/run.json").unlink()
    if not finished:
        Path("out/main/DONE").unlink()
    before = files("out/main")
    status, _, err = planned.run()
    assert status == 3 and err.endswith(
        "error[E0303]: out/main/run.json is missing, and with it the plan of the results in episodes.jsonl\n"
        "  restore it, or choose another --out\n"
    )
    assert files("out/main") == before


def test_lines_that_a_stopped_run_lost_are_made_again_and_told(planned: PlanTerminal) -> None:
    planned.world.stop_after = 3
    assert planned.run()[0] == 130
    Path("out/main/calls.jsonl").unlink()
    planned.world.stop_after = None
    planned.world.finished = 0
    status, _, err = planned(resume, "out/main", "--no-report")
    told = "warning: out/main: 3 finished episodes are run again, for what they left is not all there; the first, "
    assert status == 0 and f"{told}single/c0/0: calls.jsonl has 0 of its " in err
    assert planned.world.finished == 4
    assert planned(verify, "out/main")[0] == 0


def failing_once(planned: PlanTerminal, task: str = "c0") -> None:
    """One task's episodes cannot be run, until somebody tries again."""
    work = planned.world.work
    left = {"single": 1, "static_star": 1}

    def failing(job: EpisodeJob) -> EpisodeResult:
        if job.task_id == task and left.get(str(job.arm["name"]), 0):
            left[str(job.arm["name"])] -= 1
            return infrastructure_failure(job, "no machine")
        return work(job)

    planned.world.work = failing


@pytest.mark.parametrize("claim", [CLAIM, ""])
def test_failed_episodes_that_were_run_again_are_in_the_result(planned: PlanTerminal, claim: str) -> None:
    """The command that the experiment itself names leaves a folder that is intact and can be read."""
    plan("", more=claim)
    if claim:
        assert planned(experiment, "plan.toml", "--register")[0] == 0
    failing_once(planned)
    status, _, err = planned.run()
    assert status == 4 and "\n  apex resume out/main --retry-failed\n" in err
    told = json.loads(Path("out/experiment.json").read_text())
    assert [row["what"] for row in told["deviations"]] == [
        f"main, {arm}: 1 episodes could not be run" for arm in ("single", "static_star")
    ]
    status, _, err = planned(resume, "out/main", "--retry-failed", "--no-report")
    assert status == 0 and "out/experiment.json is made again from its runs" in err and "now:" not in err
    again = json.loads(Path("out/experiment.json").read_text())
    assert again["deviations"] == [] and [arm["infrastructure"] for arm in again["runs"][0]["arms"]] == [0, 0]
    assert {key: again[key] for key in ("plan", "digest", "registered", "lock")} == {
        key: told[key] for key in ("plan", "digest", "registered", "lock")
    }
    assert planned(verify, "out")[0] == planned(report, "out/main")[0] == 0
    before = Path("out/experiment.json").read_bytes()
    assert planned.run()[0] == 0 and Path("out/experiment.json").read_bytes() == before


@pytest.mark.parametrize("cause", ["no result", "other plan", "edited plan", "unfinished"])
def test_where_only_the_experiment_can_make_the_result_it_is_named(planned: PlanTerminal, cause: str) -> None:
    plan("", more='[[part]]\nname = "late"\narms = ["single"]\n')
    failing_once(planned)
    assert planned.run()[0] == 4
    path = Path("out/experiment.json")
    if cause == "no result":
        path.unlink()
    elif cause == "other plan":
        Path("out/begun.json").write_text('{"plan": {"name": "plan"}, "digest": "d"}')
    elif cause == "edited plan":
        data = json.loads(path.read_text())
        data["plan"]["parts"][0]["seeds"] = 9
        path.write_text(json.dumps(data))
    else:
        Path("out/late/DONE").unlink()
    before = path.read_bytes() if path.exists() else None
    status, _, err = planned(resume, "out/main", "--retry-failed", "--no-report")
    assert status == 0 and err.endswith("now: apex experiment PLAN --out out\n")
    assert (path.read_bytes() if path.exists() else None) == before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data["deviations"].pop(), "does not tell of a deviation: main, static_star: 1 episodes"),
        (lambda data: data["deviations"].append({"what": "rain"}), "tells of a deviation that is not on file: rain"),
        (
            lambda data: data["runs"][0]["arms"][1].update(infrastructure=0),
            "of static_star in main 0 episodes could not be run, its runs say 1",
        ),
    ],
)
def test_a_result_that_hides_what_went_wrong_is_found(
    planned: PlanTerminal, change: Callable[[dict[str, Any]], object], words: str
) -> None:
    failing_once(planned)
    assert planned.run()[0] == 4
    path = Path("out/experiment.json")
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    status, _, err = planned(verify, "out")
    assert (status, words in err) == (5, True), err
