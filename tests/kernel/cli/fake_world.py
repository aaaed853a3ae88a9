"""A suite, an executor whose episodes are stand-ins, and a terminal for the program's commands over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import click
import pytest

import apex_framework.cli.program  # noqa: F401  # bound to the real Context before a test puts its own in its place
from apex_executors.local import LocalExecutor
from apex_framework.cli import boundary
from apex_framework.cli.context import Context
from apex_framework.hookspecs import ApexSpec, hookimpl
from apex_framework.interfaces import EpisodeJob, EpisodeResult, Task, TaskSuite, Verdict, Workspace, WorkspaceProvider
from apex_framework.plugins import load_plugins


class FakeSuite:
    """Twelve tasks in three clusters and two families, in every split; nothing is ever worked on or graded here."""

    name = "fake"
    digest = "d1"

    def __init__(self, limit: int | None = None, **_options: object) -> None:
        self._limit = limit

    def tasks(self, split: str) -> list[Task]:
        kinds = ("clear", "odd")
        return [
            Task(f"c{i % 3}-{i}", "fake", split, "broken", cluster=f"c{i % 3}", family=kinds[i % 2]) for i in range(12)
        ]

    def workspaces(self) -> WorkspaceProvider:
        from fake_episodes import NoWorkspaces  # of a folder that the fixture adds

        made: WorkspaceProvider = NoWorkspaces()
        return made

    def grade(self, task: Task, workspace: Workspace) -> Verdict:
        raise AssertionError("nothing is graded")


class FakeWorld(ApexSpec):
    """The suite, and an executor whose episodes are what ``work`` makes of their jobs, in this process where ``inline``.

    When ``stop_after`` episodes have been ``finished`` inline, somebody presses Ctrl-C.
    """

    suite: type[TaskSuite] = FakeSuite

    def __init__(self, work: Callable[[EpisodeJob], EpisodeResult], *, inline: bool = False) -> None:
        self.work, self.inline = work, inline
        self.finished = 0
        self.stop_after: int | None = None

    @hookimpl
    def apex_suites(self, add: Any) -> None:
        add("fake", self.suite)

    @hookimpl
    def apex_executors(self, add: Any) -> None:
        world = self

        class Executor(LocalExecutor):
            def run(self, jobs: Iterable[EpisodeJob], work: object, *, workers: int) -> Iterator[EpisodeResult]:
                if not world.inline:
                    yield from super().run(jobs, world.work, workers=workers)
                    return
                for job in jobs:
                    if world.finished == world.stop_after:
                        raise KeyboardInterrupt
                    yield world.work(job)

        add("local", Executor)

    @hookimpl
    def apex_on_episode_finished(self, event: Any) -> None:
        self.finished += 1


def context_of(world: FakeWorld, *, json: bool = False) -> Context:
    """The program's context, in which nothing but the world runs episodes."""
    context = Context(json=json)
    context._plugins = load_plugins(block=("executors",), plugins={"world": world})
    return context


class Terminal:
    """Runs a command as the program does, and keeps what it wrote."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, world: FakeWorld) -> None:
        self._capsys = capsys
        self.world = world
        monkeypatch.setattr("apex_framework.cli.context.Context", lambda: context_of(self.world, json=self.json))

    def __call__(self, command: click.Command, *arguments: str, json: bool = False) -> tuple[int, str, str]:
        self.json = json
        status = boundary.run(arguments, command)
        out, err = self._capsys.readouterr()
        return status, out, err
