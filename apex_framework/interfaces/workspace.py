"""Workspace: a private copy of a task's repository, and where it comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from .suite import Task


@dataclass(frozen=True, slots=True)
class TestOutcome:
    """One test's result: ``passed``, ``failed``, ``error``, ``skipped`` or ``timeout``."""

    __test__ = False

    id: str
    status: str
    detail: str = ""
    """End of the traceback or the assertion's message."""
    lines: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Covered lines by path relative to the workspace, when coverage was asked for."""


@dataclass(frozen=True, slots=True)
class TestReport:
    """A test run. ``cost_s`` is its declared, load-independent duration in seconds."""

    __test__ = False

    outcomes: tuple[TestOutcome, ...]
    status: str = "finished"
    """``finished``, ``timeout`` or ``crashed``."""
    cost_s: float = 0.0
    output: str = ""
    """What was printed, where the task asks for it (``keep_output``). The code under test wrote it: it proves nothing alone."""
    left_out: tuple[str, ...] = ()
    """Changed files that the run did not see as they are in the workspace, because they steer the tests that judge it."""

    @property
    def passed(self) -> int:
        """Number of tests that passed."""
        return sum(o.status == "passed" for o in self.outcomes)

    @property
    def pass_rate(self) -> float:
        """Share of tests that passed; 0 for an empty report."""
        return self.passed / len(self.outcomes) if self.outcomes else 0.0


@runtime_checkable
class Workspace(Protocol):
    """A directory that agents may change, with savepoints."""

    @property
    def root(self) -> Path:
        """Absolute path of the directory."""
        ...

    def fork(self) -> Workspace:
        """A second, independent copy of the present state."""
        ...

    def commit(self) -> str:
        """Take the present state as the savepoint; returns its id."""
        ...

    def rollback(self) -> None:
        """Return to the last savepoint (the creation, if none was taken)."""
        ...

    def dispose(self) -> None:
        """Remove it from disk; idempotent."""
        ...


@runtime_checkable
class RunsTests(Protocol):
    """Optional ability of a workspace: it knows how its tests are found and run."""

    def discover(self) -> Sequence[str]:
        """Ids of the visible tests."""
        ...

    def run_tests(
        self,
        tests: Sequence[str] | None = None,
        *,
        timeout_s: float = 120.0,
        coverage: bool = False,
        overlay: Mapping[str, str] | None = None,
    ) -> TestReport:
        """Run all or some tests in a process group of their own; blocking; nothing survives the call.

        ``overlay`` maps relative paths to contents that files have for this run only.
        """
        ...


@runtime_checkable
class Diffs(Protocol):
    """Optional ability of a workspace: it can say what was changed."""

    def diff(self) -> str:
        """Unified diff from the state at creation to the present one; empty when nothing changed."""
        ...


@runtime_checkable
class HasGit(Protocol):
    """Optional ability of a workspace: a repository of the framework's own holds its history.

    The repository lies outside the workspace; HEAD is the branch that is worked on.
    """

    @property
    def git_dir(self) -> Path:
        """The bare repository (see ``apex_framework.git``)."""
        ...

    @property
    def base_commit(self) -> str:
        """The commit that the workspace was made from."""
        ...


@runtime_checkable
class WorkspaceProvider(Protocol):
    """Makes workspaces out of tasks.

    A factory whose workspaces cannot work here raises EnvironmentProblem, with what to do: the provider that a run will use is
    made once before the first episode.
    """

    def create(self, task: Task) -> Workspace:
        """A fresh workspace with the task's files and no history beyond its base."""
        ...

    def close(self) -> None:
        """Release caches and processes; idempotent."""
        ...
