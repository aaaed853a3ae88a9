"""The ``local`` provider: every workspace is a folder of its own, its tests run in forked processes."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from apex_framework.errors import WorkspaceError
from apex_framework.interfaces import Sandbox, Task, TestOutcome, TestReport

from . import judging, removing, state, tree
from .discovery import find_tests
from .forkserver import ForkServer
from .plain import PlainSandbox
from .scratch import Scratch

STEP_BUDGET = 200_000
_RUNNERS = ("unittest",)


def declared_cost(steps: int) -> float:
    """Seconds that a test run is said to take: 50 ms, and 10 µs per line executed in the workspace."""
    return 0.05 + 0.00001 * steps


class LocalWorkspaces:
    """Makes workspaces below one scratch folder, which vanishes at ``close`` or after this process.

    ``cpu_s`` and ``idle_s`` bound one test's CPU time and its sleep, in seconds, where counting lines
    cannot (a loop inside C code, a wait); ``memory`` in bytes. Not for hostile code: see the sandbox.
    """

    def __init__(
        self,
        *,
        sandbox: Sandbox | None = None,
        cpu_s: int = 10,
        idle_s: float = 5.0,
        memory: int = 1024**3,
        processes: int = 64,
    ) -> None:
        self._place = Scratch()
        self._scratch = self._place.path
        for name in ("run", "tmp"):
            (self._scratch / name).mkdir()
        self._cpu_s, self._idle_s, self._memory, self._processes = cpu_s, idle_s, memory, processes
        self._server = ForkServer(sandbox or PlainSandbox(), self._scratch)
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._closed = False

    def create(self, task: Task) -> LocalWorkspace:
        """A folder with the task's files. Raises WorkspaceError for an unknown runner or a path that leaves it."""
        runner = task.run.get("runner", "unittest")
        if runner not in _RUNNERS:
            raise WorkspaceError(f"unknown runner {runner!r}", f"known: {', '.join(_RUNNERS)}")
        for name in ("fixed", "free"):
            value = task.run.get(name, ())
            if not isinstance(value, list | tuple) or not all(isinstance(part, str) for part in value):
                raise WorkspaceError(f"task {task.id}: run entry {name!r} has no such value: {value!r:.80}")
        if task.repo and not task.files:
            raise WorkspaceError(f"task {task.id} lives in {task.repo}", "use a workspace provider that can fetch it")
        base = {tree.safe_path(path): text.encode() for path, text in task.files.items()}
        return LocalWorkspace(self, task, self._folder(), base, _plain(base))

    def close(self) -> None:
        """End the helper process and remove every workspace; idempotent."""
        with self._lock:
            self._closed = True
            self._server.stop()
            self._place.remove()

    def _folder(self) -> Path:
        if self._closed:
            raise WorkspaceError("the provider is closed")
        folder = self._scratch / f"w{next(self._numbers)}"
        folder.mkdir()
        return folder

    def _run(self, files: tree.Tree, tests: Sequence[str], request: Mapping[str, Any]) -> dict[str, Any]:
        with self._lock:
            if self._closed:
                raise WorkspaceError("the provider is closed")
            run, tmp = self._scratch / "run", self._scratch / "tmp"
            for folder in (run, tmp):
                removing.remove(folder)
                folder.mkdir()
            state.Folder(run).write(_plain(files))
            limits = {
                "memory": self._memory,
                "cpu_s": float((self._cpu_s + 2) * (len(tests) + 1)),
                "processes": self._processes,
                "file_size": 64 * 1024**2,
                "network": False,
            }
            whole = {
                **request,
                "root": str(run),
                "tmp": str(tmp),
                "tests": list(tests),
                "limits": limits,
                "cpu_s": max(1, min(self._cpu_s, round(request["wall_s"]))),
                "idle_s": self._idle_s,
            }
            answer = self._server.ask(whole)
            if answer is None:
                lost = {"status": "error", "detail": "the test helper process died", "steps": 0, "lines": {}}
                return {"results": [lost] * len(tests), "status": "crashed", "steps": 0}
            return answer


class LocalWorkspace:
    """A private folder with savepoints held in memory. Links and special files are not part of its state."""

    def __init__(
        self, provider: LocalWorkspaces, task: Task, folder: Path, base: tree.Tree, start: state.State
    ) -> None:
        self._provider, self._task, self._base = provider, task, base
        self._root = folder
        self._folder = state.Folder(folder)
        self._savepoint = start
        self._disposed = False
        try:
            self._folder.write(start)
        except BaseException as error:
            removing.remove(folder)
            if isinstance(error, OSError):
                raise removing.unwritten(task.id, error) from error
            raise

    @property
    def root(self) -> Path:
        """Absolute path of the folder."""
        return self._root

    def fork(self) -> LocalWorkspace:
        """An independent copy of the present state, which is also its savepoint."""
        return LocalWorkspace(self._provider, self._task, self._provider._folder(), self._base, self._state())

    def commit(self) -> str:
        """Take the present state as the savepoint; the id is a hash of its content."""
        self._savepoint = self._state()
        return tree.digest(_contents(self._savepoint))

    def rollback(self) -> None:
        """Return to the last savepoint, or to the creation."""
        self._check_alive()
        self._folder.restore(self._savepoint)

    def dispose(self) -> None:
        """Remove the folder; idempotent."""
        self._disposed = True
        removing.remove(self._root)

    def diff(self) -> str:
        """What changed since the task's creation, as a unified diff."""
        return tree.diff(self._base, self._read())

    def discover(self) -> Sequence[str]:
        """``path::Class.test`` of every visible test, read from the files without running them."""
        self._check_alive()
        return self._discover(tree.read_some(self._root, self._test_files()))

    def run_tests(
        self,
        tests: Sequence[str] | None = None,
        *,
        timeout_s: float = 120.0,
        coverage: bool = False,
        overlay: Mapping[str, str] | None = None,
    ) -> TestReport:
        """Run tests on a copy, so that nothing they do reaches this workspace.

        ``tests`` are ids as ``discover`` gives them; ids of test files that only the overlay brings are
        allowed. A test ends as ``timeout`` after ``step_budget`` lines, ``cpu_s`` or ``idle_s``;
        ``timeout_s`` bounds the whole run by the clock. Coverage leaves out the test files themselves.
        Where ``overlay`` brings the test files, what else steers tests is as it was in the task (see ``judging``).
        """
        present, left_out = self._laid_over(overlay or {}, tests)
        chosen = self._discover(present) if tests is None else list(dict.fromkeys(tests))
        if not chosen:
            return TestReport((), cost_s=declared_cost(0))
        run = self._task.run
        request = {
            "block": list(run.get("block", ())),
            "step_budget": int(run.get("step_budget", STEP_BUDGET)),
            "coverage": coverage,
            "uncovered": sorted({*self._test_files(), *(t.partition("::")[0] for t in chosen)}),
            "wall_s": timeout_s,
        }
        answer = self._provider._run(present, chosen, request)
        outcomes = tuple(
            TestOutcome(
                test, r["status"], r["detail"], {path: tuple(found) for path, found in r.get("lines", {}).items()}
            )
            for test, r in zip(chosen, answer["results"], strict=True)
        )
        return TestReport(outcomes, answer["status"], declared_cost(answer["steps"]), left_out=left_out)

    def _laid_over(
        self, overlay: Mapping[str, str], tests: Sequence[str] | None
    ) -> tuple[dict[str, bytes], tuple[str, ...]]:
        present, run = self._read(), self._task.run
        brought = {tree.safe_path(path): text.encode() for path, text in overlay.items()}
        rules = judging.Rules(self._test_files(), fixed=run.get("fixed", ()), free=run.get("free", ()))
        seen = judging.laid_over(present, self._base, brought, tests, rules)
        return seen, judging.left_out(present, seen, brought)

    def _test_files(self) -> tuple[str, ...]:
        return tuple(self._task.run.get("tests", ()))

    def _discover(self, files: tree.Tree) -> list[str]:
        found = [
            f"{path}::{name}"
            for path in self._test_files()
            for name in find_tests(files.get(path, b"").decode(errors="replace"))
        ]
        if not self._task.visible_tests or not found:
            return found
        visible = set(self._task.visible_tests)
        return [test for test in found if test in visible]

    def _read(self) -> dict[str, bytes]:
        return _contents(self._state())

    def _state(self) -> state.State:
        self._check_alive()
        return {path: item for path, item in self._folder.read().items() if item[0] != state.LINK}

    def _check_alive(self) -> None:
        if self._disposed:
            raise WorkspaceError("the workspace was disposed of")


def _plain(files: tree.Tree) -> state.State:
    return {path: (state.FILE, data) for path, data in files.items()}


def _contents(found: state.State) -> dict[str, bytes]:
    """In path order."""
    return {path: found[path][1] for path in sorted(found)}
