"""Suite: tasks, and the judge of their solutions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
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


@dataclass(frozen=True, slots=True)
class TaskCheck:
    """Whether a task behaves here: its gold patch passes and an empty one fails. ``seconds`` is what finding out took."""

    task: str
    behaves: bool
    why: str = ""
    """What is wrong with it; empty when it behaves."""
    left_out: tuple[str, ...] = ()
    """Tests that fail here even on gold, and therefore decide nothing."""
    infrastructure_error: str = ""
    """Not empty when nothing could be found out."""
    seconds: float = 0.0
    cached: bool = False
    code: str = ""
    """Of that error, where it has one."""
    remedy: str = ""
    """What to do about it."""


@runtime_checkable
class ChecksTasks(Protocol):
    """Optional ability of a suite: its ``tasks`` are only those that were checked on this machine and behave."""

    def candidates(self, split: str) -> Sequence[Task]:
        """Every task of a split, checked or not, in the order of ``tasks``."""
        ...

    def check(self, task: Task, *, anew: bool = False) -> TaskCheck:
        """Find out, or say what was found before unless ``anew``; blocking, may take minutes."""
        ...


@runtime_checkable
class HasCaveats(Protocol):
    """Optional ability of a suite: it says what results on its tasks do not show. Reports say it, too."""

    @property
    def caveats(self) -> tuple[str, ...]:
        """One sentence each; none where there is nothing to say."""
        ...


@runtime_checkable
class HasNotes(Protocol):
    """Optional ability of a suite: it says what its user should know of a split before a run. Told once, by who plans it."""

    def notes(self, split: str) -> tuple[str, ...]:
        """One line each, such as how many tasks are left out and what to do about it; asked after ``tasks``."""
        ...


@runtime_checkable
class Closes(Protocol):
    """Optional ability of a suite: judging takes more than the workspaces that it hands out."""

    def close(self) -> None:
        """Release what judging opened, when nothing is judged any more; idempotent. Who judges again opens it anew."""
        ...


@dataclass(frozen=True, slots=True)
class Comparison:
    """Our verdict on a patch and another grader's on the same log; ``tests`` are those that came out differently."""

    task: str
    patch: str = ""
    """Which of its patches: ``gold``, ``empty``, ``damaged``."""
    ours: str = ""
    theirs: str = ""
    """``resolved`` or ``not resolved``; ours may also be no verdict, and says why."""
    tests: tuple[str, ...] = ()
    infrastructure_error: str = ""
    """Not empty when nothing was run."""
    seconds: float = 0.0

    @property
    def equal(self) -> bool:
        """The same verdict, for the same reasons."""
        return not self.infrastructure_error and self.ours == self.theirs and not self.tests


@runtime_checkable
class ComparesVerdicts(Protocol):
    """Optional ability of a suite: another grader, which shares no code with its own, can be asked about the same logs."""

    def compare(self, task: Task, folder: Path) -> Iterator[Comparison]:
        """One by one, logs kept below ``folder`` and not made again; blocking, may take minutes."""
        ...


@runtime_checkable
class SpeaksSweBench(Protocol):
    """Optional ability of a suite: its tasks have a form that others' harnesses can judge, and a place to be had from."""

    def swebench_row(self, task: Task) -> Mapping[str, Any]:
        """The official columns of a task, the solution and the tests that decide included. Never for agents."""
        ...

    def sources(self) -> Sequence[str]:
        """What its user has to download, and where to: one line each."""
        ...


@runtime_checkable
class Fetches(Protocol):
    """Optional ability of a suite: it downloads what it reads."""

    def fetch(self, say: Callable[[str], None]) -> Sequence[str]:
        """Download what is missing to where the suite looks for it; which paths were made, each whole or not at all.

        Blocking, may take an hour; ``say`` is told how far it is. Raises ApexError that says what to download by hand.
        """
        ...
