"""A folder with the files of a task, savepoints, a history for tools, and its tests on a copy."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from apex_framework.errors import WorkspaceError
from apex_framework.git import Repository
from apex_framework.interfaces import Sandbox, Task, TestOutcome, TestReport

from . import judging, removing, state, tree
from .bases import Bases, difference
from .discovery import find_tests
from .recipe import Recipe
from .running import Interpreter, Place, ask

_START_S = 0.5


class Provider(Protocol):
    """What a workspace needs of the provider that made it."""

    sandbox: Sandbox
    bases: Bases

    def folder(self) -> Path:
        """A fresh folder."""
        ...

    def found(self, key: str) -> tuple[str, ...] | None:
        """Tests that were found for this content, if they are known."""
        ...

    def keep_found(self, key: str, tests: tuple[str, ...]) -> None:
        """Know them from now on."""
        ...


class CheckoutWorkspace:
    """A private folder with savepoints held in memory: files with their modes, and links."""

    def __init__(
        self,
        provider: Provider,
        task: Task,
        recipe: Recipe,
        interpreter: Interpreter,
        base: state.State,
        start: state.State,
    ) -> None:
        self._provider, self._task, self._recipe, self._interpreter = provider, task, recipe, interpreter
        self._base, self._savepoint = base, start
        self._root = provider.folder()
        self._folder = state.Folder(self._root)
        self._runs: tuple[Place, state.Folder] | None = None
        self._history: tuple[Repository, str] | None = None
        self._lock = threading.Lock()
        self._disposed = False
        try:
            self._folder.write(start)
        except BaseException as error:
            removing.remove(self._root)
            if isinstance(error, OSError):
                raise removing.unwritten(task.id, error) from error
            raise

    @property
    def root(self) -> Path:
        """Absolute path of the folder."""
        return self._root

    def fork(self) -> CheckoutWorkspace:
        """An independent copy of the present state, which is also its savepoint, and of the history if there is one."""
        present = self._read()
        made = type(self)(self._provider, self._task, self._recipe, self._interpreter, self._base, present)
        with self._lock:
            if self._history is not None:
                place = self._provider.folder()
                made._history = Repository(place / "git"), self._history[1]
                try:
                    shutil.copytree(self._history[0].git_dir, place / "git")
                except BaseException:
                    made.dispose()
                    raise
        return made

    def commit(self) -> str:
        """Take the present state as the savepoint; the id is a hash of its content."""
        self._savepoint = self._read()
        return state.digest(self._savepoint)[:16]

    def rollback(self) -> None:
        """Return to the last savepoint, or to the creation."""
        self._check_alive()
        self._folder.restore(self._savepoint)

    def dispose(self) -> None:
        """Remove the folder; idempotent."""
        self._disposed = True
        removing.remove(self._root)
        if self._runs is not None:
            removing.remove(self._runs[0].work.parent)
        if self._history is not None:
            removing.remove(self._history[0].git_dir.parent)

    def diff(self) -> str:
        """What changed since the task's creation, in git's form, modes, links and binary files included."""
        return difference(self._base, self._read(), self._provider.folder())

    @property
    def git_dir(self) -> Path:
        """A bare repository of this workspace's own: its base commit, no other before it or after it. Made when first asked for."""
        return self._repository()[0].git_dir

    @property
    def base_commit(self) -> str:
        """The task's commit; where the task has files besides, the one that brings them."""
        return self._repository()[1]

    def _repository(self) -> tuple[Repository, str]:
        with self._lock:
            self._check_alive()
            if self._history is None:
                place = self._provider.folder()
                try:
                    self._history = self._provider.bases.repository_of(self._task, self._recipe, self._base, place)
                except BaseException:
                    removing.remove(place)
                    raise
            return self._history

    def discover(self) -> Sequence[str]:
        """Ids of the visible tests: as pytest names them, or ``path::Class.test``. Raises WorkspaceError.

        unittest's are read from the files. pytest collects them in the sandbox, once per content of the workspace; a file that
        it cannot import stands for its tests.
        """
        return self._discover(self._read())

    def run_tests(
        self,
        tests: Sequence[str] | None = None,
        *,
        timeout_s: float = 120.0,
        coverage: bool = False,
        overlay: Mapping[str, str] | None = None,
    ) -> TestReport:
        """Run tests on a copy in the sandbox. The declared cost is a constant, and one per test.

        A test ends as ``timeout`` after ``cpu_s``, ``idle_s`` or ``step_budget``; ``timeout_s`` bounds the run by the clock.
        Where ``overlay`` brings the test files, what else steers tests is as it was in the task (see ``judging``).
        """
        present, left_out = self._laid_over(overlay or {}, tests)
        chosen = self._discover(present) if tests is None else list(dict.fromkeys(tests))
        if not chosen:
            return TestReport((), cost_s=_START_S)
        absent = self._absent(present, chosen)
        running = [test for test in chosen if test not in absent]
        files = list(dict.fromkeys(test.partition("::")[0] for test in running))
        options: dict[str, Any] = {
            "paths": files,
            "coverage": coverage,
            "uncovered": sorted({*self._recipe.tests, *files}),
        }
        told: dict[str, Any] = {"results": [], "status": "finished"}
        if running:
            told = self._ask(present, running, timeout_s, **options)
        results = dict(zip(running, told["results"], strict=True))
        outcomes = tuple(
            _outcome(test, results[test]) if test in results else TestOutcome(test, "error", absent[test])
            for test in chosen
        )
        steps = sum(r["steps"] for r in results.values())
        cost = _START_S + self._recipe.test_cost_s * len(running) + 0.00001 * steps
        return TestReport(outcomes, told["status"], cost, told.get("log", ""), left_out)

    def _laid_over(
        self, overlay: Mapping[str, str], tests: Sequence[str] | None
    ) -> tuple[dict[str, state.Item], tuple[str, ...]]:
        present, recipe = self._read(), self._recipe
        modes = {path: present.get(path, (state.FILE, b""))[0] for path in map(tree.safe_path, overlay)}
        brought = {
            path: (modes[path] if modes[path] != state.LINK else state.FILE, text.encode())
            for path, text in overlay.items()
        }
        # Names of commands say nothing of files: whatever is brought then decides.
        always = recipe.runner == "command"
        rules = judging.Rules(recipe.tests, recipe.path, recipe.fixed, recipe.free, always)
        seen = judging.laid_over(present, self._base, brought, tests, rules)
        return seen, judging.left_out(present, seen, brought)

    def _absent(self, present: state.State, tests: Sequence[str]) -> dict[str, str]:
        """Tests that cannot be run because their file is not there."""
        if self._recipe.runner == "command":
            known = self._commands()
            return {test: "no such test" for test in tests if test not in known}
        gone = {test: test.partition("::")[0] for test in tests}
        return {test: f"there is no file {path}" for test, path in gone.items() if path not in present}

    def _commands(self) -> tuple[str, ...]:
        return self._recipe.tests if any("{test}" in part for part in self._recipe.command) else ("command",)

    def _discover(self, present: state.State) -> list[str]:
        recipe = self._recipe
        if recipe.runner == "command":
            found = self._commands()
        elif recipe.runner == "unittest":
            texts = ((path, present.get(path, (0, b""))[1]) for path in recipe.tests)
            found = tuple(
                f"{path}::{name}" for path, data in texts for name in find_tests(data.decode(errors="replace"))
            )
        else:
            key = f"{recipe.digest} {self._interpreter.program} {state.digest(present)}"
            known = self._provider.found(key)
            if known is None:
                known = self._collect(present)
                self._provider.keep_found(key, known)
            found = known
        if not self._task.visible_tests or not found:
            return list(found)
        visible = set(self._task.visible_tests)
        return [test for test in found if test in visible]

    def _collect(self, present: state.State) -> tuple[str, ...]:
        paths = [p for p in self._recipe.tests if p in present or any(q.startswith(f"{p}/") for q in present)]
        if self._recipe.tests and not paths:
            return ()
        recipe = replace(self._recipe, step_budget=0)
        told = self._ask(present, [], 300.0, recipe=recipe, paths=paths or ["."], collect=True)
        if (
            told["why"]
            or "exited with" not in told["exit"]
            or not (told["found"] or told["exit"].endswith(" 0") or told["broken"])
        ):
            lines = [line for line in told["output"].splitlines() if line.strip()] or [told["exit"]]
            why = told["why"] or one_line(lines[-1])
            raise WorkspaceError(f"task {self._task.id}: its tests cannot be collected: {why}", "see the task's run")
        return (*told["found"], *(path for path in told["broken"] if path))

    def _ask(
        self, present: state.State, tests: Sequence[str], wall_s: float, *, recipe: Recipe | None = None, **options: Any
    ) -> dict[str, Any]:
        with self._lock:
            self._check_alive()
            if self._runs is None:
                home = self._provider.folder()
                self._runs = Place(home / "work", home / "tmp"), state.Folder(home / "work")
            place, folder = self._runs
            for needed in (place.work, place.tmp):
                needed.mkdir(exist_ok=True)
            try:
                folder.restore(present)
                return self._run_in(place, recipe or self._recipe, tests, wall_s, **options)
            finally:
                # What tests wrote is gone at once; what they left as it was is kept for the next run.
                removing.remove(place.tmp)
                place.work.mkdir(exist_ok=True)
                folder.restore(present)

    def _run_in(
        self, place: Place, recipe: Recipe, tests: Sequence[str], wall_s: float, **options: Any
    ) -> dict[str, Any]:
        return ask(recipe, self._provider.sandbox, self._interpreter, place, tests, wall_s=wall_s, **options)

    def _read(self) -> dict[str, state.Item]:
        self._check_alive()
        return self._folder.read()

    def _check_alive(self) -> None:
        if self._disposed:
            raise WorkspaceError("the workspace was disposed of")


def _outcome(test: str, told: Mapping[str, Any]) -> TestOutcome:
    lines = {path: tuple(found) for path, found in told.get("lines", {}).items()}
    return TestOutcome(test, told["status"], told["detail"], lines)


def one_line(text: str) -> str:
    """One line that moves no cursor."""
    return "".join(c if c.isprintable() else " " for c in text).strip()[:300]
