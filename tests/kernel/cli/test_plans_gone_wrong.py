"""``apex experiment PLAN`` and ``apex report``: what is wrong is one line with its remedy, before anything is written."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import click
import pytest

import apex_framework.cli.program  # noqa: F401  # bound to the real Context before a test puts its own in its place
from apex_executors.local import LocalExecutor
from apex_framework.cli import boundary
from apex_framework.cli.context import Context
from apex_framework.cli.experiment import experiment
from apex_framework.cli.report import report
from apex_framework.cli.resume import resume
from apex_framework.cli.verify import verify
from apex_framework.errors import EnvironmentProblem, GitError, UsageError
from apex_framework.experiment.manifest import write_manifest
from apex_framework.hookspecs import ApexSpec, hookimpl
from apex_framework.interfaces import EpisodeJob, EpisodeResult, Task, TaskSuite, Verdict, Workspace, WorkspaceProvider
from apex_framework.plugins import load_plugins
from apex_framework.ports import SystemFiles

PLAN = """suite = "fake/test"
limit = 2

[settings]
backend = "scripted"

[[part]]
name = "main"
arms = ["single", "static_star"]
"""
CLAIM = """
[prereg]
hypothesis = "the star solves more"
estimand = "Success@10000, paired by task"
part = "main"
arm = "static_star"
against = ["single"]
"""


class FakeSuite:
    """Six tasks, from a file where one is named; nothing is ever graded here."""

    name = "fake"

    prefers = "here"

    def __init__(
        self,
        limit: int | None = None,
        data: str | None = None,
        workspaces: Callable[[str], WorkspaceProvider] | None = None,
        **_options: object,
    ) -> None:
        self._data, self._workspaces = data, workspaces

    @property
    def digest(self) -> str:
        return "d1" if self._data is None else f"d-{Path(self._data).name}"

    def tasks(self, split: str) -> list[Task]:
        if self._data is not None and not Path(self._data).exists():
            raise UsageError(f"{Path(self._data)}: there is no such file", "--data FILE names it")
        return [Task(f"c{i}", "fake", split, "broken", cluster=f"c{i}", family="clear") for i in range(6)]

    def workspaces(self) -> WorkspaceProvider:
        assert self._workspaces is not None
        return self._workspaces(self.prefers)

    def grade(self, task: Task, workspace: Workspace) -> Verdict:
        raise AssertionError("nothing is graded")


class Here:
    """A stranger's workspaces, which work here."""

    closed = 0

    def create(self, task: Task) -> Workspace:
        raise AssertionError("no workspace is needed")

    def close(self) -> None:
        Here.closed += 1


def nowhere(**_options: object) -> WorkspaceProvider:
    raise EnvironmentProblem("no machine of that kind is here", "switch it on")


def broken(**_options: object) -> WorkspaceProvider:
    raise GitError("E_GIT", "there is no git program", "install git")


class World(ApexSpec):
    """A suite, workspaces, and an executor whose episodes are the stand-ins of fake_episodes."""

    finished = 0
    places: ClassVar[list[dict[str, str]]] = []
    """Of every job: where the files of its suite lie."""

    @hookimpl
    def apex_suites(self, add: Any) -> None:
        suite: type[TaskSuite] = FakeSuite
        add("fake", suite)

    @hookimpl
    def apex_workspaces(self, add: Any) -> None:
        here: type[WorkspaceProvider] = Here
        add("here", here)
        add("nowhere", nowhere)
        add("broken", broken)

    @hookimpl
    def apex_executors(self, add: Any) -> None:
        from fake_episodes import work  # type: ignore[import-not-found] # of a folder that the fixture adds

        class Executor(LocalExecutor):
            def run(self, jobs: Iterable[EpisodeJob], _work: object, *, workers: int) -> Iterator[EpisodeResult]:
                for job in jobs:
                    World.places.append(dict(job.run.get("suite_options", {})))
                    yield work(job)

        add("local", Executor)

    @hookimpl
    def apex_on_episode_finished(self, event: Any) -> None:
        self.finished += 1


class Terminal:
    """Runs a command as the program does, and keeps what it wrote."""

    def __init__(self, capsys: pytest.CaptureFixture[str], world: World) -> None:
        self._capsys, self.world = capsys, world

    def context(self) -> Context:
        context = Context()
        context._plugins = load_plugins(block=("executors",), plugins={"world": self.world})
        return context

    def __call__(self, command: click.Command, *arguments: str) -> tuple[int, str, str]:
        status = boundary.run(arguments, command)
        out, err = self._capsys.readouterr()
        return status, out, err

    def run(self, *more: str) -> tuple[int, str, str]:
        """The plan, into ``out``, without pages."""
        return self(experiment, "plan.toml", "--out", "out", "--no-report", *more)


@pytest.fixture
def apex(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Terminal:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "experiment"))
    plan("")
    terminal = Terminal(capsys, World())
    monkeypatch.setattr("apex_framework.cli.context.Context", terminal.context)
    return terminal


def plan(old: str, new: str = "", *, more: str = "", path: str = "plan.toml") -> None:
    """Write the plan with a change."""
    assert old in PLAN
    Path(path).write_text((PLAN.replace(old, new, 1) if old else PLAN) + more)


def settings(more: str) -> tuple[str, str]:
    """A change of the plan's settings."""
    return '"scripted"', f'"scripted"\n{more}'


def test_a_decision_that_the_runs_do_not_bear_out_is_not_reported(apex: Terminal) -> None:
    plan("", more=CLAIM)
    assert apex(experiment, "plan.toml", "--register")[0] == 0
    assert apex.run()[0] == 0
    assert apex(report, "out/main")[0] == 0
    path = Path("out/experiment.json")
    data = json.loads(path.read_text())
    assert data["decision"]["word"] != "GO"
    data["decision"]["word"] = "GO"
    path.write_text(json.dumps(data))
    for form in ("table", "html"):
        status, out, err = apex(report, "out/main", "--format", form)
        assert (status, out) == (3, "")
        assert "error[E0303]" in err and "the decision's word is 'GO'" in err
        assert f"apex verify {Path('out').absolute()}" in err
    assert apex.run()[0] == 0  # made again from the runs
    assert apex(report, "out/main")[0] == 0


def test_a_changed_run_names_the_command_that_tells_all_of_it(apex: Terminal) -> None:
    assert apex.run()[0] == 0
    with Path("out/main/calls.jsonl").open("a") as file:
        file.write("{}\n")
    status, _, err = apex(report, "out/main")
    assert (status, "apex verify out/main" in err) == (3, True)


def test_a_run_without_an_episode_says_how_it_goes_on(apex: Terminal) -> None:
    assert apex.run()[0] == 0
    Path("out/main/DONE").unlink()
    Path("out/main/episodes.jsonl").unlink()
    status, _, err = apex(report, "out/main")
    assert (status, "apex resume out/main" in err, "no episode yet" in err) == (3, True, True)


def test_the_folder_of_another_experiment_stays_as_it_is(apex: Terminal) -> None:
    assert apex.run()[0] == 0
    before = Path("out/experiment.json").read_bytes()
    plan('"main"', '"second"', path="other.toml")
    for why in ((), ("--deviate", "I like that folder")):
        status, out, err = apex(experiment, "other.toml", "--out", "out", "--no-report", *why)
        assert (status, out) == (2, "")
        assert "error[E0204]: out holds experiment 'plan', not 'other'\n  choose another --out\n" in err
    assert not Path("out/second").exists() and not Path("out/deviations.jsonl").exists()
    assert Path("out/experiment.json").read_bytes() == before
    assert apex.run()[0] == 0


def test_a_plan_that_was_edited_since_goes_on_with_its_reason_only(apex: Terminal) -> None:
    assert apex.run()[0] == 0
    before = Path("out/experiment.json").read_bytes()
    plan("", more='[[part]]\nname = "late"\narms = ["single"]\n')
    status, _, err = apex.run()
    assert (status, "out/experiment.json is of a plan with digest" in err, "--deviate" in err) == (2, True, True)
    assert Path("out/experiment.json").read_bytes() == before and not Path("out/late").exists()
    assert apex.run("--deviate", "an afterthought")[0] == 0
    assert "an afterthought" in Path("out/experiment.json").read_text()
    assert apex.run()[0] == 0


@pytest.mark.parametrize("text", ["{", "[]", '{"results": 3}'])
def test_a_file_that_is_no_result_is_not_overwritten(apex: Terminal, text: str) -> None:
    Path("out").mkdir()
    Path("out/experiment.json").write_text(text)
    status, _, err = apex.run()
    assert (status, "no result of an experiment" in err) == (3, True)
    assert [path.name for path in Path("out").iterdir()] == ["experiment.json"]
    assert Path("out/experiment.json").read_text() == text


def test_a_run_folder_is_no_place_for_an_experiment(apex: Terminal) -> None:
    assert apex.run()[0] == 0
    status, _, err = apex(experiment, "plan.toml", "--out", "out/main")
    assert (status, "out/main is a run folder" in err) == (3, True)
    assert not Path("out/main/main").exists()


@pytest.mark.parametrize("flag", ["--plan", "--register"])
@pytest.mark.parametrize(("key", "value"), [("limit", 100_001), ("limit", 10**30), ("seeds", 10**8)])
def test_huge_plans_are_one_line(apex: Terminal, flag: str, key: str, value: int) -> None:
    plan("limit = 2", f"{'' if key == 'limit' else 'limit = 2'}\n{key} = {value}")  # line 3 of the file
    status, out, err = apex(experiment, "plan.toml", flag)
    assert (status, out) == (2, "")
    assert f"plan.toml:3: {key}: {value:,} is too many\n  at most 100,000\n" in err


def test_workspaces_that_cannot_work_here_are_told_before_the_first_episode(
    apex: Terminal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, words in (("nowhere", "switch it on"), ("swebench", "install Docker"), ("heer", "did you mean 'here'?")):
        plan(*settings(f'workspace = "{name}"'))
        with monkeypatch.context() as without:
            without.setenv("PATH", str(tmp_path))
            status, out, err = apex.run()
        assert (status, out, words in err) == (2 if name == "heer" else 3, "", True), err
        assert not Path("out").exists()
    assert apex.world.finished == 0
    Here.closed = 0
    plan(*settings('workspace = "here"'))
    assert apex.run()[0] == 0
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
    apex: Terminal, monkeypatch: pytest.MonkeyPatch, prefers: str, words: str
) -> None:
    monkeypatch.setattr(FakeSuite, "prefers", prefers)
    status, out, err = apex.run()
    assert (status, out, words in err) == (2 if prefers == "heer" else 3, "", True), err
    assert apex.world.finished == 0 and not Path("out").exists()


def test_workspaces_are_asked_once_however_many_runs_are_planned(apex: Terminal) -> None:
    plan("", more='[[part]]\nname = "late"\nbudgets = [5000, 8000]\narms = ["single"]\n')
    Here.closed = 0
    assert apex.run()[0] == 0
    assert Here.closed == 1


@pytest.mark.parametrize(
    ("flags", "told_by"),
    [((), "plan.toml: settings.suite_options.data: missing: "), (("--data", "gone"), "--data: {cwd}/gone: ")],
)
def test_a_missing_file_names_where_it_was_named_and_leaves_nothing(
    apex: Terminal, flags: tuple[str, ...], told_by: str
) -> None:
    plan(*settings('suite_options = { data = "missing" }'))
    status, out, err = apex.run(*flags)
    assert (status, out) == (2, "")
    assert f"error[E0200]: {told_by.format(cwd=os.getcwd())}there is no such file" in err
    assert not Path("out").exists()


def test_the_command_line_says_where_data_lies_and_the_digest_vouches_for_it(apex: Terminal) -> None:
    plan(*settings('suite_options = { data = "a" }'), more=CLAIM)
    folder = Path("elsewhere")
    folder.mkdir()
    (folder / "a").write_text("")
    place = ("--data", "elsewhere/a", "--repos", "elsewhere")
    assert apex(experiment, "plan.toml", "--plan", *place)[0] == 0
    assert apex(experiment, "plan.toml", "--register", *place)[0] == 0
    lock = json.loads(Path("plan.lock.json").read_text())
    assert lock["hashes"]["suite.fake"] == "d-a"
    assert lock["plan"]["settings"]["suite_options"] == {"data": "a"}
    (folder / "b").write_text("")
    status, _, err = apex.run("--data", "elsewhere/b")
    assert (status, "suite.fake" in err) == (2, True)
    status, _, err = apex.run(*place)
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
def test_what_cannot_be_run_is_not_shown_registered_or_begun(apex: Terminal, old: str, new: str, words: str) -> None:
    plan(old, new)
    assert (apex.run()[0], Path("out").exists()) == (2, False)
    plan(old, new, more=CLAIM.replace('["single"]', '["random_switch:7"]' if "random" in new else '["single"]'))
    for flag in ("--register",) if "families" in new else ("--register", "--plan"):  # which makes no task
        status, out, err = apex(experiment, "plan.toml", flag)
        assert (status, out, words in err) == (2, "", True), err
    assert not Path("plan.lock.json").exists()


def test_an_unknown_executor_says_where_others_are_found_and_leaves_nothing(apex: Terminal) -> None:
    status, _, err = apex.run("--executor", "ray")
    assert (status, "known: local (pip install what brings another one: docs/cluster.md)" in err) == (2, True)
    assert not Path("out").exists()


def test_an_interruption_says_how_to_go_on(apex: Terminal) -> None:
    @click.command()
    def interrupted() -> None:
        raise KeyboardInterrupt

    status, _, err = apex(interrupted)
    assert (status, "apex resume RUN" in err) == (130, True)


def files(folder: str) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.is_file()}


@pytest.mark.parametrize("killed", ["before its first run", "in its first run", "of an older build"])
def test_an_experiment_that_was_killed_early_keeps_its_folder(apex: Terminal, killed: str) -> None:
    assert apex.run()[0] == 0
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
        status, out, err = apex(experiment, "other.toml", "--out", "out", "--no-report", *why)
        assert (status, out) == (2, "")
        assert "error[E0204]: out holds experiment 'plan', not 'other'\n  choose another --out\n" in err
    assert files("out") == before
    assert apex.run()[0] == 0


@pytest.mark.parametrize("older", [False, True])
def test_a_plan_that_was_edited_after_an_early_kill_is_another_one(apex: Terminal, older: bool) -> None:
    assert apex.run()[0] == 0
    Path("out/experiment.json").unlink()
    if older:
        Path("out/begun.json").unlink()
    before = files("out")
    plan('"main"', '"second"')
    status, _, err = apex.run()
    assert (status, "--deviate" in err) == (2, True)
    assert ("out/main is no run of this plan" if older else "out/begun.json is of a plan with digest") in err
    assert files("out") == before


def test_a_folder_that_was_moved_is_read_as_it_is_and_gone_on_with_where_its_data_lies_now(apex: Terminal) -> None:
    Path("a").write_text("")
    plan(*settings('suite_options = { data = "a" }'))
    assert apex.run("--data", "a")[0] == 0
    Path("new").mkdir()
    Path("a").rename("new/a")
    shutil.move("out", "moved")
    for command, what in ((report, "moved/main"), (verify, "moved")):
        status, _, err = apex(command, what)
        assert status == 0, err
    Path("moved/main/DONE").unlink()
    rows = Path("moved/main/episodes.jsonl")
    rows.write_text("".join(rows.read_text().splitlines(keepends=True)[:2]))
    status, out, err = apex(resume, "moved/main", "--no-report")
    assert (status, out) == (2, "")
    gone = f"moved/main: its suite's data, {os.getcwd()}/a, is not there\n  apex resume moved/main --data "
    assert gone in err
    Path("new/b").write_text("")
    status, _, err = apex(resume, "moved/main", "--no-report", "--data", "new/b")
    assert (status, "suite_digest" in err) == (2, True), err
    World.places.clear()
    status, _, err = apex(resume, "moved/main", "--no-report", "--data", "new/a")
    assert status == 0, err
    assert World.places == [{"data": f"{os.getcwd()}/new/a"}] * 2
    assert json.loads(Path("moved/main/run.json").read_text())["plan"]["settings"]["suite_options"] == {
        "data": f"{os.getcwd()}/a"
    }
    status, _, err = apex(experiment, "plan.toml", "--out", "moved", "--no-report", "--data", "new/a")
    assert status == 0, err


@pytest.mark.parametrize("told_by", ["the result", "its runs", "nobody"])
def test_a_result_of_another_build_is_told_from_an_edited_one(apex: Terminal, told_by: str) -> None:
    plan("", more=CLAIM)
    assert apex(experiment, "plan.toml", "--register")[0] == 0
    assert apex.run()[0] == 0
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
        found, _, err = apex(command, what)
        assert found == status
        assert (another in err, "its runs say" in err) == (told_by != "nobody", told_by == "nobody"), err


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
    apex: Terminal, old: str, new: str, claim: str, words: str
) -> None:
    plan(old, new, more=f"{CLAIM}{claim}\n" if claim else "")
    status, out, err = apex(experiment, "plan.toml", "--register") if claim else apex.run()
    assert (status, out) == (2, "")
    assert words in err and "plan.toml: " in err
    assert [path.name for path in Path().iterdir() if path.name != "state"] == ["plan.toml"]


def test_fewer_tasks_than_asked_for_are_told(apex: Terminal) -> None:
    plan("limit = 2", "limit = 50")
    status, _, err = apex.run()
    assert (status, "note: part main asks for 50 tasks, and there are 6" in err) == (0, True)
    plan("limit = 2", "limit = 6")
    assert "asks for" not in apex(experiment, "plan.toml", "--out", "other", "--no-report")[2]
