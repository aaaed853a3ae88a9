"""``apex experiment PLAN``: what is wrong is one line with its remedy, before anything is written."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click
import pytest
from fake_plans import CLAIM, FileSuite, Here, PlanTerminal, plan, settings

from apex_framework.cli.experiment import experiment


@pytest.mark.parametrize("flag", ["--plan", "--register"])
@pytest.mark.parametrize(("key", "value"), [("limit", 100_001), ("limit", 10**30), ("seeds", 10**8)])
def test_huge_plans_are_one_line(planned: PlanTerminal, flag: str, key: str, value: int) -> None:
    plan("limit = 2", f"{'' if key == 'limit' else 'limit = 2'}\n{key} = {value}")  # line 3 of the file
    status, out, err = planned(experiment, "plan.toml", flag)
    assert (status, out) == (2, "")
    assert f"plan.toml:3: {key}: {value:,} is too many\n  at most 100,000\n" in err


def test_workspaces_that_cannot_work_here_are_told_before_the_first_episode(
    planned: PlanTerminal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, words in (("nowhere", "switch it on"), ("swebench", "install Docker"), ("heer", "did you mean 'here'?")):
        plan(*settings(f'workspace = "{name}"'))
        with monkeypatch.context() as without:
            without.setenv("PATH", str(tmp_path))
            status, out, err = planned.run()
        assert (status, out, words in err) == (2 if name == "heer" else 3, "", True), err
        assert not Path("out").exists()
    assert planned.world.finished == 0
    Here.closed = 0
    plan(*settings('workspace = "here"'))
    assert planned.run()[0] == 0
    assert Here.closed == 1


@pytest.mark.parametrize(
    ("prefers", "words"),
    [
        ("nowhere", "suite 'fake' prefers cannot work here: no machine of that kind is here\n  switch it on"),
        ("broken", "suite 'fake' prefers cannot work here: there is no git program\n  install git"),
        ("heer", "did you mean 'here'?"),
    ],
)
def test_workspaces_that_the_suite_prefers_are_asked_like_named_ones(
    planned: PlanTerminal, monkeypatch: pytest.MonkeyPatch, prefers: str, words: str
) -> None:
    monkeypatch.setattr(FileSuite, "prefers", prefers)
    status, out, err = planned.run()
    assert (status, out, words in err) == (2 if prefers == "heer" else 3, "", True), err
    assert planned.world.finished == 0 and not Path("out").exists()


def test_workspaces_are_asked_once_however_many_runs_are_planned(planned: PlanTerminal) -> None:
    plan("", more='[[part]]\nname = "late"\nbudgets = [5000, 8000]\narms = ["single"]\n')
    Here.closed = 0
    assert planned.run()[0] == 0
    assert Here.closed == 1


@pytest.mark.parametrize(
    ("flags", "told_by"),
    [((), "plan.toml: settings.suite_options.data: missing: "), (("--data", "gone"), "--data: {cwd}/gone: ")],
)
def test_a_missing_file_names_where_it_was_named_and_leaves_nothing(
    planned: PlanTerminal, flags: tuple[str, ...], told_by: str
) -> None:
    plan(*settings('suite_options = { data = "missing" }'))
    status, out, err = planned.run(*flags)
    assert (status, out) == (2, "")
    assert f"error[E0200]: {told_by.format(cwd=os.getcwd())}there is no such file" in err
    assert not Path("out").exists()


def test_the_command_line_says_where_data_lies_and_the_digest_vouches_for_it(planned: PlanTerminal) -> None:
    plan(*settings('suite_options = { data = "a" }'), more=CLAIM)
    folder = Path("elsewhere")
    folder.mkdir()
    (folder / "a").write_text("")
    place = ("--data", "elsewhere/a", "--repos", "elsewhere")
    assert planned(experiment, "plan.toml", "--plan", *place)[0] == 0
    assert planned(experiment, "plan.toml", "--register", *place)[0] == 0
    lock = json.loads(Path("plan.lock.json").read_text())
    assert lock["hashes"]["suite.fake"] == "d-a"
    assert lock["plan"]["settings"]["suite_options"] == {"data": "a"}
    (folder / "b").write_text("")
    status, _, err = planned.run("--data", "elsewhere/b")
    assert (status, "suite.fake" in err) == (2, True)
    status, _, err = planned.run(*place)
    assert status == 0, err
    run = json.loads(Path("out/main/run.json").read_text())["plan"]["settings"]
    assert run["suite_options"] == {"data": str((folder / "a").absolute()), "repos": str(folder.absolute())}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("fake/test", "fakes/test", "did you mean 'fake'?"),
        ('"single"', '"random_switch:7"', "random_switch"),
        ("limit = 2", 'limit = 2\nfamilies = ["none"]', "known: clear"),
    ],
)
def test_what_cannot_be_run_is_not_shown_registered_or_begun(
    planned: PlanTerminal, old: str, new: str, words: str
) -> None:
    plan(old, new)
    assert (planned.run()[0], Path("out").exists()) == (2, False)
    plan(old, new, more=CLAIM.replace('["single"]', '["random_switch:7"]' if "random" in new else '["single"]'))
    for flag in ("--register",) if "families" in new else ("--register", "--plan"):  # which makes no task
        status, out, err = planned(experiment, "plan.toml", flag)
        assert (status, out, words in err) == (2, "", True), err
    assert not Path("plan.lock.json").exists()


def test_an_unknown_executor_says_where_others_are_found_and_leaves_nothing(planned: PlanTerminal) -> None:
    status, _, err = planned.run("--executor", "ray")
    assert (status, "known: local (pip install what brings another one: docs/cluster.md)" in err) == (2, True)
    assert not Path("out").exists()


def test_an_interruption_says_how_to_go_on(planned: PlanTerminal) -> None:
    @click.command()
    def interrupted() -> None:
        raise KeyboardInterrupt

    status, _, err = planned(interrupted)
    assert (status, "apex resume RUN" in err) == (130, True)


@pytest.mark.parametrize(
    ("old", "new", "claim", "words"),
    [
        ('"static_star"]', '"static_stra"]', "", "plan.toml: part 'main': arm 'static_stra': static:stra: "),
        ('"single"', '"bandid_v1"', "", "plan.toml: part 'main': unknown controller 'bandid_v1'"),
        ("fake/test", "fakes/test", "", "plan.toml: part 'main': unknown suite 'fakes'"),
        ("limit = 2", 'limit = 2\nbest_static = "single"', "", "best_static 'single' is no static topology"),
        ('"scripted"', "3", "", "plan.toml: settings: backend: Input should be"),
        ("", "", 'exclusions = ["infrastructure", "family:odd"]', "exclusion 'family:odd' is of no task"),
        ("", "", 'exclusions = ["infrastructure", "task:c9"]', "exclusion 'task:c9' is of no task"),
        ("", "", 'exclusions = ["infrastructure", "family:clear"]', "the exclusions leave no task"),
    ],
)
def test_what_a_plan_says_wrongly_is_said_with_its_place(
    planned: PlanTerminal, old: str, new: str, claim: str, words: str
) -> None:
    plan(old, new, more=f"{CLAIM}{claim}\n" if claim else "")
    status, out, err = planned(experiment, "plan.toml", "--register") if claim else planned.run()
    assert (status, out) == (2, "")
    assert words in err and "plan.toml: " in err
    assert [path.name for path in Path().iterdir() if path.name != "state"] == ["plan.toml"]


def test_fewer_tasks_than_asked_for_are_told(planned: PlanTerminal) -> None:
    plan("limit = 2", "limit = 50")
    status, _, err = planned.run()
    assert (status, "note: part main asks for 50 tasks, and there are 6" in err) == (0, True)
    plan("limit = 2", "limit = 6")
    assert "asks for" not in planned(experiment, "plan.toml", "--out", "other", "--no-report")[2]
