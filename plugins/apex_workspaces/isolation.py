"""Inside the test process: which imports, files and calls the task's code is denied.

An audit hook and an import filter in the same process are NOT a security boundary: code that means
to get out can. They keep honest code honest and make accidents visible.
"""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def drop_foreign_modules(keep: Iterable[str]) -> None:
    """Forget every module outside ``keep``, so that the task's code cannot import the framework."""
    kept = set(keep)
    for name in [n for n in sys.modules if n not in kept]:
        del sys.modules[name]


class ImportBlock:
    """Hides modules from the task's code while the standard library keeps using them."""

    def __init__(self, names: Iterable[str], root: str) -> None:
        self._names = frozenset(names)
        self._root = root
        self._open = 0
        self._real_import = builtins.__import__
        self._stash = {n: m for n, m in sys.modules.items() if self._blocked(n)}

    def install(self) -> None:
        """From now on the names are not importable from files below the root."""
        for name in self._stash:
            del sys.modules[name]
        sys.meta_path.insert(0, self)
        builtins.__import__ = self._import

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Refuses blocked names, unless the standard library asks."""
        if self._blocked(name) and not self._open:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None

    def _blocked(self, name: str) -> bool:
        return name in self._names or any(name.startswith(f"{b}.") for b in self._names)

    def _import(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        importer = str((globals or {}).get("__file__") or self._root)
        if self._open or importer.startswith(self._root) or not self._blocked(_full_name(name, globals, level)):
            return self._real_import(name, globals, locals, fromlist, level)
        self._open += 1
        sys.modules.update(self._stash)
        try:
            return self._real_import(name, globals, locals, fromlist, level)
        finally:
            self._open -= 1
            for blocked in [n for n in sys.modules if self._blocked(n)]:
                self._stash[blocked] = sys.modules.pop(blocked)


def _full_name(name: str, globals: Mapping[str, object] | None, level: int) -> str:
    if not level:
        return name
    package = str((globals or {}).get("__package__") or "").split(".")
    return ".".join([*package[: len(package) - level + 1], *([name] if name else [])])


# fmt: off
_WRITES = frozenset((
    "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.chmod", "os.chown", "os.link", "os.symlink", "os.truncate",
    "os.utime", "os.setxattr", "os.removexattr", "shutil.rmtree", "shutil.move",
))
_PROGRAMS = frozenset((
    "subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "os.system", "os.startfile", "pty.spawn",
))
_NETWORK = frozenset(("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo"))
# fmt: on
_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def install_audit(
    *, writable: Sequence[str], unreadable: Iterable[str], network: bool, foreign_pids: Iterable[int]
) -> None:
    """Deny writes outside ``writable``, reads of ``unreadable`` files, programs, and signals to ``foreign_pids``."""
    roots = tuple(os.path.join(w, "") for w in writable)
    hidden = frozenset(unreadable)
    foreign = frozenset(foreign_pids)
    real, join, fsdecode = os.path.realpath, os.path.join, os.fsdecode
    devices = frozenset(("/dev/null",))

    def inside(path: Any, folder_fd: Any = -1) -> bool:
        if not isinstance(path, str | bytes | os.PathLike) or (isinstance(folder_fd, int) and folder_fd not in (-1, 0)):
            return True  # by descriptor: whatever opened it was checked
        text = real(fsdecode(path))
        return text in devices or join(text, "").startswith(roots)

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = args
            if isinstance(path, int):
                return
            if isinstance(flags, int) and flags & _WRITE_FLAGS and not inside(path):
                raise PermissionError(f"writing outside the workspace: {fsdecode(path)}")
            if hidden and isinstance(path, str | bytes) and real(fsdecode(path)) in hidden:
                raise PermissionError(f"not readable here: {fsdecode(path)}")
        elif event in _WRITES:
            paths = args[:2] if event in ("os.rename", "os.link", "shutil.move") else args[:1]
            if not all(inside(p) for p in paths):
                raise PermissionError(f"{event} outside the workspace")
        elif event in _PROGRAMS:
            raise PermissionError("tests cannot start programs")
        elif event in _NETWORK and not network:
            raise PermissionError("tests have no network")
        elif event in ("os.kill", "os.killpg") and args[0] in foreign:
            raise PermissionError("not a process of this test")

    sys.addaudithook(hook)


def sources_of(names: Iterable[str]) -> list[str]:
    """Real paths of the files that hold these modules, found without importing them."""
    from importlib.machinery import PathFinder

    found: list[str] = []
    for name in names:
        try:
            spec = PathFinder.find_spec(name)
        except (ImportError, ValueError):
            continue
        if spec is None or not spec.origin:
            continue
        if spec.submodule_search_locations:
            for place in spec.submodule_search_locations:
                for folder, _, files in os.walk(place):
                    found += [os.path.realpath(os.path.join(folder, f)) for f in files if f.endswith((".py", ".pyc"))]
        elif spec.origin.endswith(".py"):
            found.append(os.path.realpath(spec.origin))
            if spec.cached:
                found.append(os.path.realpath(spec.cached))
    return found
