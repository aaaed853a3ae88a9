"""Files as a value: contents by path, and what differs between two of them."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from apex_framework.errors import WorkspaceError

MOST_BYTES = 64 * 1024**2
"""Size of the largest file that a workspace may hold."""

_ODD = frozenset(("", ".", ".."))

Tree = Mapping[str, bytes]
"""Contents by relative path, regular files only."""


def read_some(root: Path, paths: Iterable[str]) -> dict[str, bytes]:
    """The contents of those paths that are regular files of a sane size."""
    found: dict[str, bytes] = {}
    for path in paths:
        with contextlib.suppress(OSError):
            if os.stat(root / path, follow_symlinks=False).st_size <= MOST_BYTES:
                found[path] = _read(str(root / path))
    return found


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        return file.read() if stat.S_ISREG(os.fstat(fd).st_mode) else b""


def safe_path(path: str) -> str:
    """The path if it is relative, normal and inside; raises WorkspaceError."""
    if "\0" in path or not _ODD.isdisjoint(path.split("/")):
        raise WorkspaceError(f"{path!r} is not a normal relative path", "use paths such as pkg/module.py")
    return path


def digest(tree: Tree) -> str:
    """A name for the content, 16 hexadecimal digits."""
    h = hashlib.sha256()
    for path in sorted(tree):
        h.update(f"{path}\0{len(tree[path])}\0".encode())
        h.update(tree[path])
    return h.hexdigest()[:16]


def diff(old: Tree, new: Tree) -> str:
    """A unified diff in the form that ``git apply`` reads; binary files are only named."""
    out: list[str] = []
    for path in sorted({*old, *new}):
        before, after = old.get(path), new.get(path)
        if before == after:
            continue
        out.append(f"diff --git a/{path} b/{path}\n")
        if before is None:
            out.append("new file mode 100644\n")
        elif after is None:
            out.append("deleted file mode 100644\n")
        a, b = _lines(before), _lines(after)
        if a is None or b is None:
            out.append(f"Binary files a/{path} and b/{path} differ\n")
            continue
        names = ("/dev/null" if before is None else f"a/{path}", "/dev/null" if after is None else f"b/{path}")
        changes = difflib.unified_diff(a, b, *names)
        out.extend(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in changes)
    return "".join(out)


def _lines(data: bytes | None) -> list[str] | None:
    try:
        text = (data or b"").decode()
    except UnicodeDecodeError:
        return None
    # Only \n ends a line in a diff: splitlines would also split at form feeds and separators.
    return [f"{part}\n" for part in text.split("\n")[:-1]] + (
        [text.rpartition("\n")[2]] if text[-1:] not in ("", "\n") else []
    )
