"""A plan file over the world of stand-ins, with workspaces that are here, nowhere, or broken."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fake_world import FakeSuite, FakeWorld, Terminal

from apex_framework.cli.experiment import experiment
from apex_framework.errors import EnvironmentProblem, GitError, UsageError
from apex_framework.hookspecs import hookimpl
from apex_framework.interfaces import EpisodeJob, EpisodeResult, Task, Workspace, WorkspaceProvider

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


class FileSuite(FakeSuite):
    """Six tasks, from a file where one is named."""

    prefers = "here"

    def __init__(
        self,
        limit: int | None = None,
        data: str | None = None,
        workspaces: Callable[[str], WorkspaceProvider] | None = None,
        **_options: object,
    ) -> None:
        self._data, self._workspaces = data, workspaces
        self.digest = "d1" if data is None else f"d-{Path(data).name}"

    def tasks(self, split: str) -> list[Task]:
        if self._data is not None and not Path(self._data).exists():
            raise UsageError(f"{Path(self._data)}: there is no such file", "--data FILE names it")
        return [Task(f"c{i}", "fake", split, "broken", cluster=f"c{i}", family="clear") for i in range(6)]

    def workspaces(self) -> WorkspaceProvider:
        assert self._workspaces is not None
        return self._workspaces(self.prefers)


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


class World(FakeWorld):
    """The suite, the workspaces, and of every job where the files of its suite lie."""

    suite = FileSuite

    def __init__(self, work: Callable[[EpisodeJob], EpisodeResult]) -> None:
        def seen(job: EpisodeJob) -> EpisodeResult:
            self.places.append(dict(job.run.get("suite_options", {})))
            return work(job)

        super().__init__(seen, inline=True)
        self.places: list[dict[str, str]] = []

    @hookimpl
    def apex_workspaces(self, add: Any) -> None:
        here: type[WorkspaceProvider] = Here
        add("here", here)
        add("nowhere", nowhere)
        add("broken", broken)


class PlanTerminal(Terminal):
    """Runs the plan too."""

    world: World

    def run(self, *more: str) -> tuple[int, str, str]:
        """The plan, into ``out``, without pages."""
        return self(experiment, "plan.toml", "--out", "out", "--no-report", *more)


def plan(old: str, new: str = "", *, more: str = "", path: str = "plan.toml") -> None:
    """Write the plan with a change."""
    assert old in PLAN
    Path(path).write_text((PLAN.replace(old, new, 1) if old else PLAN) + more)


def settings(more: str) -> tuple[str, str]:
    """A change of the plan's settings."""
    return '"scripted"', f'"scripted"\n{more}'
