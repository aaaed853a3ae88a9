"""``stop = "sequential"`` in ``apex experiment``: looks are taken once, written before the run goes on, and stop it."""

from __future__ import annotations

import json
import os
import signal
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from fake_world import FakeSuite, FakeWorld, context_of

from apex_framework.cli import boundary
from apex_framework.cli.planned import register_plan, run_plan
from apex_framework.cli.running import carry_out
from apex_framework.errors import ArtifactError, ConfigError, PlanChangedError
from apex_framework.experiment.folder import LOOKS
from apex_framework.experiment.looks import read_looks
from apex_framework.experiment.resume import reopen_same
from apex_framework.interfaces import EpisodeJob, EpisodeResult, Task, infrastructure_failure
from apex_framework.ports import SystemFiles

PLAN = """
suite = "fake/test"
settings = { backend = "scripted" }

[prereg]
hypothesis = "the bandit solves more"
estimand = "Success@10000, paired by task"
arm = "bandit_v1"
against = ["static_star", "single"]
stop = "sequential"
looks = [4, 12, 24]
unit = "task"

[[part]]
name = "main"
limit = 24
best_static = "static_star"
arms = ["bandit_v1", "static_star", "single"]
"""
Solves = Callable[[str, int], bool]


class ThirtyTasks(FakeSuite):
    """In six clusters."""

    def tasks(self, split: str) -> list[Task]:
        return [Task(f"c{i % 6}-{i}", "fake", split, "broken", cluster=f"c{i % 6}", meta={}) for i in range(30)]


class World(FakeWorld):
    """Episodes end as ``solves`` says."""

    suite = ThirtyTasks

    def __init__(self, work: Callable[[EpisodeJob], EpisodeResult], solves: Solves) -> None:
        def solved(job: EpisodeJob) -> EpisodeResult:
            made = work(job)
            success = solves(str(job.arm["name"]), int(job.task_id.split("-")[1]))
            return replace(made, record={**made.record, "success": success, "wall_ms": 1.0})

        super().__init__(solved, inline=True)


class Experiment:
    """The command's functions, in a folder of their own."""

    def __init__(self, world: World) -> None:
        self.world = world

    def register(self) -> None:
        register_plan(context_of(self.world, json=True), Path("plan.toml"), {})

    def run(self, out: str = "out", *, deviate: str | None = None) -> int:
        return run_plan(context_of(self.world, json=True), Path("plan.toml"), {}, Path(out), deviate)

    @staticmethod
    def result(out: str = "out") -> dict[str, Any]:
        found: dict[str, Any] = json.loads(Path(out, "experiment.json").read_text())
        return found


@pytest.fixture
def make(own_folder: Path, fake_episodes: ModuleType) -> Callable[..., Experiment]:
    """A registered plan in a world in which ``solves`` says who solves what."""

    def made(solves: Solves, text: str = PLAN) -> Experiment:
        Path("plan.toml").write_text(text)
        found = Experiment(World(fake_episodes.work, solves))
        found.register()
        return found

    return made


def ours_alone(arm: str, number: int) -> bool:
    """The bandit solves everything, nobody else anything."""
    return arm == "bandit_v1"


def all_alike(arm: str, number: int) -> bool:
    """Half of the tasks are solved, by everybody."""
    return number % 2 == 0


def theirs_alone(arm: str, number: int) -> bool:
    """Everybody but the bandit."""
    return arm != "bandit_v1"


@pytest.mark.parametrize(
    ("solves", "word", "looks"), [(ours_alone, "GO", 2), (theirs_alone, "KILL", 2), (all_alike, "EXTEND", 3)]
)
def test_an_experiment_stops_at_the_look_that_decides(
    make: Callable[..., Experiment], solves: Solves, word: str, looks: int
) -> None:
    experiment = make(solves)
    assert experiment.run() == 0
    taken = read_looks(Path("out"))
    assert [look.decision for look in taken] == [*["ON"] * (looks - 1), word]
    assert experiment.world.finished == 3 * (4, 12, 24)[looks - 1]
    assert sorted(path.name for path in Path("out").glob("*@*")) == [f"main@look{n + 1}" for n in range(looks)]
    result = experiment.result()
    assert (result["decision"]["word"], len(result["decision"]["looks"])) == (word, looks)
    assert result["decision"]["hypothesis"] == "the bandit solves more"
    assert result["decision"]["rule"].startswith("looks at 4, 12, 24 tasks, by task")
    assert result["runs"][0]["runs"] == [f"main@look{n + 1}" for n in range(looks)]
    assert {arm["tasks"] for arm in result["runs"][0]["arms"]} == {(4, 12, 24)[looks - 1]}
    before = Path("out", LOOKS).read_bytes()
    assert experiment.run() == 0
    assert experiment.world.finished == 3 * (4, 12, 24)[looks - 1]
    assert Path("out", LOOKS).read_bytes() == before


def test_all_arms_meet_the_same_tasks_at_every_look(make: Callable[..., Experiment]) -> None:
    make(all_alike, PLAN.replace('"task"', '"cluster"')).run()
    seen: set[str] = set()
    for folder in ("main@look1", "main@look2", "main@look3"):
        rows = [json.loads(line) for line in Path("out", folder, "episodes.jsonl").read_text().splitlines()]
        tasks = {arm: {row["task_id"] for row in rows if row["arm"] == arm} for arm in ("bandit_v1", "single")}
        assert tasks["bandit_v1"] == tasks["single"] and seen.isdisjoint(tasks["single"])
        seen |= tasks["single"]
    assert len(seen) == 24


class Moment:
    """Ends this process (SIGKILL) at its n-th durable write (of a look, or of anything): before it, in the middle, or after."""

    def __init__(self, at: int, how: str, *, look: bool = False) -> None:
        self._left, self._how, self._look = at, how, look

    def __call__(self, write: Callable[..., None]) -> Callable[..., None]:
        def counted(files: SystemFiles, path: Path, data: bytes, **options: Any) -> None:
            self._left -= not self._look or path.name == LOOKS
            if self._left == 0 and self._how != "after":
                if self._how == "torn" and options:
                    write(files, path, data[: len(data) // 2], **options)
                os.kill(os.getpid(), signal.SIGKILL)
            write(files, path, data, **options)
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        return counted


def killed(experiment: Experiment, moment: Moment) -> int:
    """Run in a child that is killed; its status as the system tells it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads hold nothing that the child needs
        child = os.fork()
    if child == 0:
        status = 70
        try:
            with open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), 1)
                os.dup2(nowhere.fileno(), 2)
            SystemFiles.append = moment(SystemFiles.append)  # type: ignore[method-assign]  # in the child alone
            SystemFiles.replace = moment(SystemFiles.replace)  # type: ignore[method-assign]  # likewise
            status = experiment.run("killed")
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1]


def files_of(out: str) -> dict[str, bytes]:
    """All files that a run leaves, but for what names the time or the folder."""
    left_out = ("run.json", "DONE", "LINES", "config.toml", ".lock", LOOKS)
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in sorted(Path(out).rglob("*.jsonl"))
        if path.name not in left_out
    }


def bare(out: str) -> list[dict[str, Any]]:
    """Looks without the digests of manifests, which hold the time."""
    rows = [json.loads(line) for line in Path(out, LOOKS).read_text().splitlines()]
    return [{key: value for key, value in row.items() if key != "runs"} for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["before", "torn", "after"])
def test_killed_at_any_moment_it_goes_on_with_the_same_looks(make: Callable[..., Experiment], how: str) -> None:
    experiment = make(ours_alone)
    experiment.run("calm")
    moments = [Moment(3, how), Moment(30, how), Moment(1, how, look=True), Moment(1, how, look=True), Moment(9, how)]
    kills = 0
    for moment in moments:
        status = killed(experiment, moment)
        before = bare("killed") if (Path("killed") / LOOKS).exists() and how != "torn" else []
        assert bare("calm")[: len(before)] == before
        if not os.WIFSIGNALED(status):
            assert os.waitstatus_to_exitcode(status) == 0
            break
        kills += 1
    experiment.run("killed")
    assert kills >= 4
    assert bare("killed") == bare("calm")
    assert files_of("killed") == files_of("calm")


def test_a_look_that_was_written_is_the_look_however_often_the_command_is_given(
    make: Callable[..., Experiment], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after its first look, whatever would be computed later: the written one stands, or is refused."""
    experiment = make(ours_alone)
    experiment.run()
    lines = Path("out", LOOKS).read_text().splitlines(keepends=True)
    Path("out", LOOKS).write_text(lines[0] + lines[1][:40])  # torn
    experiment.run()
    assert Path("out", LOOKS).read_text() == "".join(lines)
    forged = json.loads(lines[0])
    forged["decision"] = "KILL"
    Path("out", LOOKS).write_text(json.dumps(forged) + "\n" + lines[1])
    with pytest.raises(ArtifactError, match="look 1 does not follow from the episodes"):
        experiment.run()


@pytest.mark.parametrize("text", ["{}\n", "[]\n", "no\n", '{"number":1,"decision":"GO"}\n'])
def test_a_damaged_file_of_looks_is_one_line(make: Callable[..., Experiment], text: str) -> None:
    experiment = make(ours_alone)
    experiment.run()
    Path("out", LOOKS).write_text(text)
    with pytest.raises(ArtifactError, match=r"looks\.jsonl"):
        experiment.run()


def test_a_lost_look_is_seen(make: Callable[..., Experiment]) -> None:
    experiment = make(ours_alone)
    experiment.run()
    lines = Path("out", LOOKS).read_text().splitlines(keepends=True)
    Path("out", LOOKS).write_text(lines[1])
    with pytest.raises(ArtifactError, match="missing or there twice"):
        experiment.run()


def test_episodes_that_changed_after_their_look_are_refused_or_said(make: Callable[..., Experiment]) -> None:
    """A run made again after its look leaves the look as it was, and is a deviation."""
    experiment = make(ours_alone)
    experiment.run()
    look = Path("out", LOOKS).read_bytes()
    done = Path("out", "main@look1", "DONE")
    done.write_text("".join(reversed(done.read_text().splitlines(keepends=True))))
    with pytest.raises(PlanChangedError, match="main@look1: not the episodes that look 1 saw"):
        experiment.run()
    assert experiment.run(deviate="the disk was restored") == 0
    assert Path("out", LOOKS).read_bytes() == look
    assert [row["why"] for row in experiment.result()["deviations"]] == ["the disk was restored"]


def test_failed_episodes_that_a_look_saw_are_run_again_with_a_reason(
    make: Callable[..., Experiment], capsys: pytest.CaptureFixture[str]
) -> None:
    experiment = make(ours_alone)
    work = experiment.world.work
    experiment.world.work = lambda job: infrastructure_failure(job, "no machine") if job.index == 0 else work(job)
    assert experiment.run() == 4
    told = "apex resume out/main@look1 --retry-failed\n  then: apex experiment PLAN --out out --deviate WHY: a look has"
    assert told in capsys.readouterr().err
    assert boundary.run(["verify", "out"]) == 0
    experiment.world.work = work
    context = context_of(experiment.world)
    folder = reopen_same(Path("out/main@look1"), context.plugins, retry_failed=True)
    before = Path("out/experiment.json").read_bytes()
    assert carry_out(context, folder, 1, page=False) == 0
    assert capsys.readouterr().err.endswith("now: apex experiment PLAN --out out --deviate WHY\n")
    assert Path("out/experiment.json").read_bytes() == before
    assert experiment.run(deviate="a machine was off") == 0
    assert "a machine was off" in [row.get("why") for row in experiment.result()["deviations"]]


def test_verify_reads_the_looks_too(make: Callable[..., Experiment], capsys: pytest.CaptureFixture[str]) -> None:
    experiment = make(ours_alone)
    experiment.run()
    assert boundary.run(["verify", "out"]) == 0
    assert f"intact   out/{LOOKS}" in capsys.readouterr().out
    done = Path("out", "main@look1", "DONE")
    done.write_text("".join(reversed(done.read_text().splitlines(keepends=True))))
    assert boundary.run(["verify", "out"]) == 5
    assert "out/main@look1: not the episodes that look 1 saw" in capsys.readouterr().err
    Path("out", LOOKS).write_text("no\n")
    assert boundary.run(["verify", "out"]) == 5
    assert f"CHANGED  out/{LOOKS}" in capsys.readouterr().out


@pytest.mark.parametrize("left", [None, 0, 1])
def test_looks_that_are_gone_are_one_line_of_verify_and_report(
    make: Callable[..., Experiment], capsys: pytest.CaptureFixture[str], left: int | None
) -> None:
    make(ours_alone).run()
    looks = Path("out", LOOKS)
    if left is None:
        looks.unlink()
    else:
        looks.write_text("".join(looks.read_text().splitlines(keepends=True)[:left]))
    what = "is missing" if left is None else f"holds {left}"
    told = f"out/{LOOKS} {what}: experiment.json tells of 2 looks"
    capsys.readouterr()
    assert boundary.run(["verify", "out"]) == 5
    assert told in capsys.readouterr().err.splitlines()
    assert boundary.run(["report", "out/main@look1"]) == 3
    assert capsys.readouterr().err.splitlines()[0].endswith(told)


def test_looks_beyond_the_tasks_that_there_are_run_nothing(make: Callable[..., Experiment]) -> None:
    experiment = make(all_alike, PLAN.replace("24", "40"))
    with pytest.raises(ConfigError, match="a look at 40 tasks is beyond the 30"):
        experiment.run()
    assert experiment.world.finished == 0 and not list(Path("out").glob("*@*"))


def test_without_a_static_topology_nothing_is_called_go(make: Callable[..., Experiment]) -> None:
    text = PLAN.replace('"static_star", "single"]\nstop', '"static_star"]\nstop')
    experiment = make(ours_alone, text)
    assert experiment.run() == 0
    decision = experiment.result()["decision"]
    assert (decision["word"], decision["missing"]) == ("EXTEND", ["the single agent"])


def test_an_arm_of_the_part_that_against_leaves_out_keeps_it_from_go(
    make: Callable[..., Experiment], capsys: pytest.CaptureFixture[str]
) -> None:
    experiment = make(
        ours_alone,
        PLAN.replace('"single"]\n', '"static_chain", "single"]\n').replace(
            'against = ["static_star", "static_chain",', 'against = ["static_star",'
        ),
    )
    assert "warning: against leaves out static_chain of part main: it cannot end in GO" in capsys.readouterr().err
    assert experiment.run() == 0
    decision = experiment.result()["decision"]
    assert (decision["word"], decision["missing"]) == ("EXTEND", ["static_chain"])
    assert decision["sentence"].endswith("The plan lacks a comparison with static_chain.")


def test_what_is_claimed_is_what_go_asks_for_and_kill_excludes(make: Callable[..., Experiment]) -> None:
    """At 24 of 24 tasks alike no gain of 90 points is possible any more, while one of 5 is."""
    for claim, word in ((0.05, "EXTEND"), (0.9, "KILL")):
        Path("plan.lock.json").unlink(missing_ok=True)
        experiment = make(all_alike, PLAN.replace("[[part]]", f"claim = {claim}\ndiscordance = 0.95\n[[part]]"))
        assert experiment.run(f"out{claim}") == 0
        decision = experiment.result(f"out{claim}")["decision"]
        assert decision["word"] == word and f"gains +{100 * claim:.1f} pp" in decision["rule"]


def test_bets_on_tasks_are_warned_about_and_clusters_are_what_is_bet_on_unless_said(
    make: Callable[..., Experiment], capsys: pytest.CaptureFixture[str]
) -> None:
    make(all_alike)
    assert 'warning: unit = "task" takes tasks as independent' in capsys.readouterr().err
    Path("plan.lock.json").unlink()
    experiment = make(all_alike, PLAN.replace('unit = "task"\n', ""))
    assert "independent" not in capsys.readouterr().err
    assert experiment.run() == 0
    assert experiment.result()["decision"]["rule"].startswith("looks at 4, 12, 24 tasks, by cluster")
