"""What a plugin raises while a command asks it is said to be the plugin's, and what was done is safe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from fake_plans import PlanTerminal, World, plan

from apex_framework.cli.report import report
from apex_framework.cli.resume import resume
from apex_framework.hookspecs import hookimpl
from apex_framework.interfaces import EpisodeJob, EpisodeResult


class Executor:
    """Fails after two episodes, or before it gives anything at all."""

    name = "failing"

    def __init__(self, world: FailingWorld) -> None:
        self._world = world

    def run(self, jobs: Iterable[EpisodeJob], work: object, *, workers: int) -> Iterator[EpisodeResult]:
        if self._world.after == 0:
            raise self._world.error
        return self._results(jobs)

    def _results(self, jobs: Iterable[EpisodeJob]) -> Iterator[EpisodeResult]:
        for number, job in enumerate(jobs):
            if number == self._world.after:
                raise self._world.error
            yield self._world.work(job)


class Report:
    """Renders whatever it is given, or raises it."""

    name, suffix = "odd", ".txt"

    def __init__(self, made: object) -> None:
        self._made = made

    def render(self, runs: tuple[Path, ...]) -> Any:
        if isinstance(self._made, Exception):
            raise self._made
        return self._made


class FailingWorld(World):
    """An executor and reports of somebody else."""

    after = 2
    error: Exception = ValueError("no such room")

    @hookimpl
    def apex_executors(self, add: Any) -> None:
        add("local", lambda: Executor(self))

    @hookimpl
    def apex_reports(self, add: Any) -> None:
        add("raising", lambda: Report(KeyError("arm")))
        add("silent", lambda: Report(None))


@pytest.fixture
def failing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, own_folder: Path, fake_episodes: ModuleType
) -> Callable[..., PlanTerminal]:
    """A terminal with a plan, in a world whose executor fails."""

    def make(after: int, error: Exception) -> PlanTerminal:
        plan("")
        world = FailingWorld(fake_episodes.work)
        world.after, world.error = after, error
        return PlanTerminal(capsys, monkeypatch, world)

    return make


@pytest.mark.parametrize("error", [ValueError("no such room"), OSError(28, "No space left on device")])
def test_what_an_executor_raises_is_its_own_and_what_it_did_is_safe(
    failing: Callable[..., PlanTerminal], error: Exception
) -> None:
    terminal = failing(2, error)
    status, _, err = terminal.run()
    named = f"error[E0309]: executor 'failing' of plugin world fails: {type(error).__name__}: {error}"
    assert (status, named in err) == (3, True), err
    assert "2 of 4 episodes are safe: apex resume out/main" in err and "bug in apex" not in err
    terminal.world.after = -1  # type: ignore[attr-defined]  # of the failing world
    assert terminal(resume, "out/main", "--no-report")[0] == 0


def test_an_executor_that_fails_at_once_leaves_no_run(failing: Callable[..., PlanTerminal]) -> None:
    status, _, err = failing(0, RuntimeError("closed")).run()
    assert status == 3 and "executor 'failing' of plugin world fails: RuntimeError: closed" in err
    assert not Path("out/main").exists()


@pytest.mark.parametrize(
    ("form", "words"), [("raising", "KeyError: 'arm'"), ("silent", "TypeError: it made NoneType, not text")]
)
def test_what_a_report_raises_is_its_own(failing: Callable[..., PlanTerminal], form: str, words: str) -> None:
    terminal = failing(-1, ValueError())
    assert terminal.run()[0] == 0
    status, _, err = terminal(report, "out/main", "--format", form)
    assert (status, err) == (
        3,
        f"error[E0304]: report '{form}' of plugin world fails: {words}\n"
        "  report this to its author, or leave it out: -p no:world\n",
    )
