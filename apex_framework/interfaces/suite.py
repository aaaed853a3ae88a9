"""Suite: tasks, and the judge of their solutions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from .workspace import Workspace, WorkspaceProvider


@dataclass(frozen=True, slots=True)
class Task:
    """A problem with tests.

    ``files`` are the repository's files as agents see them, text by relative path; a suite whose
    tasks live in a version-control store leaves it empty and names ``repo`` and ``base_commit``.
    """

    id: str
    suite: str
    split: str
    issue: str
    cluster: str
    """Unit of independence for statistics: a module or a repository."""
    family: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    visible_tests: tuple[str, ...] = ()
    repo: str = ""
    base_commit: str = ""
    run: Mapping[str, Any] = field(default_factory=dict)
    """How its tests are run, for the workspace: ``runner`` (``unittest``), ``tests`` (relative paths of the visible
    test files), ``block`` (modules that task code must not import), ``step_budget`` (traced lines before a test
    counts as endless)."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """Facts for analysis; agents never see them."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judge's word on a workspace. ``evaluator`` says who judged, e.g. ``mini/differential``."""

    success: bool
    evaluator: str
    visible_passed: bool = False
    """All visible tests pass; success false with this true is an overfit."""
    detail: str = ""
    infrastructure_error: str = ""
    """Not empty when nothing could be judged: neither success nor failure."""


@runtime_checkable
class TaskSuite(Protocol):
    """A named set of tasks."""

    @property
    def name(self) -> str:
        """Name under which it is registered."""
        ...

    @property
    def digest(self) -> str:
        """Hash of everything that decides its tasks and verdicts; runs with other digests are not comparable."""
        ...

    def tasks(self, split: str) -> Sequence[Task]:
        """Tasks of ``train``, ``dev`` or ``test`` in a fixed order. May take long once; shows progress on stderr."""
        ...

    def workspaces(self) -> WorkspaceProvider:
        """Where this suite's tasks are worked on; the caller closes it."""
        ...

    def grade(self, task: Task, workspace: Workspace) -> Verdict:
        """Judge the present state of a workspace with tests that its agents never saw; blocking."""
        ...


@runtime_checkable
class GradesPatches(Protocol):
    """Optional ability of a suite: it knows a patch that solves each task, and judges patches without a team."""

    def gold(self, task: Task) -> str:
        """The patch of those who solved the task, as a unified diff. No agent and no workspace ever sees it."""
        ...

    def grade_patch(self, task: Task, patch: str) -> Verdict:
        """Judge a unified diff against the task's base, the empty one too; blocking.

        A patch that does not apply is no success, and its ``detail`` says so.
        """
        ...
