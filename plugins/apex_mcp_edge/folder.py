"""The folder that an outside host works in, as a workspace: changed in place, without savepoints."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn

from apex_framework.errors import WorkspaceError
from apex_framework.interfaces import RunsTests, Task, TestReport, Workspace, WorkspaceProvider

FILES: Final = 20_000
FILE_BYTES: Final = 1024**2
TOTAL_BYTES: Final = 256 * 1024**2
_LEFT_OUT: Final = frozenset({"__pycache__", "node_modules"})


class Folder:
    """A folder as it is. It belongs to its user, so it cannot be forked, rolled back or removed through here."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def root(self) -> Path:
        """Absolute path of the folder."""
        return self._root

    def fork(self) -> Workspace:
        """Raises WorkspaceError."""
        self._refuse()

    def commit(self) -> str:
        """Raises WorkspaceError."""
        self._refuse()

    def rollback(self) -> None:
        """Raises WorkspaceError."""
        self._refuse()

    def dispose(self) -> None:
        """The folder stays."""

    def _refuse(self) -> NoReturn:
        raise WorkspaceError(f"{self._root} is served as it is, without savepoints")


class TestedFolder(Folder):
    """A folder whose tests run on a copy of its text files, made by a workspace provider."""

    __test__ = False

    def __init__(self, root: Path, provider: WorkspaceProvider, runner: str = "unittest") -> None:
        super().__init__(root)
        self._provider, self._runner = provider, runner

    def check(self) -> None:
        """Have the provider make a workspace of nearly nothing, and remove it. Raises WorkspaceError."""
        self._made({"m.py": ""}).dispose()

    def close(self) -> None:
        """Close the provider; idempotent."""
        self._provider.close()

    def discover(self) -> Sequence[str]:
        """Ids of the tests. Raises WorkspaceError."""
        copy = self._copy()
        try:
            return _tests(copy).discover()
        finally:
            copy.dispose()

    def run_tests(
        self,
        tests: Sequence[str] | None = None,
        *,
        timeout_s: float = 120.0,
        coverage: bool = False,
        overlay: Mapping[str, str] | None = None,
    ) -> TestReport:
        """Run tests on the copy: nothing that they do reaches the folder. Raises WorkspaceError."""
        copy = self._copy()
        try:
            return _tests(copy).run_tests(tests, timeout_s=timeout_s, coverage=coverage, overlay=overlay)
        finally:
            copy.dispose()

    def _copy(self) -> Workspace:
        return self._made(dict(_texts(self._root)))

    def _made(self, files: Mapping[str, str]) -> Workspace:
        tests = sorted(path for path in files if _is_test(path))
        run = {"runner": self._runner, "tests": tests}
        return self._provider.create(Task("served", "served", "dev", "", "", files=files, run=run))


def _tests(workspace: Workspace) -> RunsTests:
    if not isinstance(workspace, RunsTests):
        raise WorkspaceError("this workspace provider cannot run tests", "choose another: --workspace local")
    return workspace


def _is_test(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py"))


def _texts(root: Path) -> Iterator[tuple[str, str]]:
    count = size = 0
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in _LEFT_OUT)
        for name in sorted(names):
            path = os.path.join(folder, name)
            try:
                if not stat.S_ISREG((facts := os.lstat(path)).st_mode) or facts.st_size > FILE_BYTES:
                    continue
                with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), encoding="utf-8", newline="") as file:
                    text = file.read()
            except (OSError, UnicodeDecodeError):
                continue  # no text, or gone meanwhile: tests that need it say so
            count, size = count + 1, size + len(text)
            if count > FILES or size > TOTAL_BYTES:
                raise WorkspaceError(f"{root} has more than {FILES:,} text files or {TOTAL_BYTES >> 20} MiB of text")
            yield os.path.relpath(path, root).replace(os.sep, "/"), text
