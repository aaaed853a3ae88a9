"""Paths as agents give them: their components, and which names are not for agents."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from .refusal import Refused

MOST_PARTS = 64
PRIVATE = frozenset((".git", ".hg", ".svn", ".apex"))
"""History and the framework's own files: neither read nor written."""
PROTECTED = frozenset(
    (".mcp.json", ".vscode", ".envrc", ".gitmodules", "conftest.py", "sitecustomize.py", "usercustomize.py")
)
"""Files that run by themselves or decide the tests: read, not written. So is every ``*.pth``."""

_SHORT = re.compile(r"(git|hg|svn|apex)~\d+")
"""What Windows calls a private folder beside its long name."""
_LOOK_ALIKE = str.maketrans("аеорсхуіѕјһԁɡıοανι", "aeopcxyisjhdgioavi")
"""Cyrillic, Greek and other letters that look like Latin ones of the names above."""

Parts = tuple[str, ...]
"""A path's components."""


def split(path: str) -> Parts:
    """The components of a relative path; empty for the directory itself. Raises Refused."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise Refused("E_ARG", "the path is not valid Unicode") from None
    if len(path) > 1024 or not (path.isprintable() or not any(ord(c) < 32 or ord(c) == 127 for c in path)):
        raise Refused("E_ARG", "the path has control characters or is longer than 1,024")
    if path.startswith("/"):
        raise Refused("E_PATH", "only paths relative to the workspace")
    parts = tuple(p for p in path.split("/") if p not in ("", "."))
    if ".." in parts:
        raise Refused("E_PATH", "the path leaves the workspace")
    if len(parts) > MOST_PARTS or any(len(p.encode()) > 255 for p in parts):
        raise Refused("E_ARG", "the path is too deep or a name too long")
    return parts


def addressable(name: str) -> bool:
    """False for a name of a file that no path can ask for: it is not listed either."""
    return name.isprintable() or not _strange(name)


def _strange(name: str) -> bool:
    return any(ord(c) < 32 or ord(c) == 127 or 0xD800 <= ord(c) < 0xE000 for c in name)


@lru_cache(maxsize=4096)
def plain(name: str) -> str:
    """What some file system, or some reader, takes this name for: without case, width, accents' form and tricks."""
    if not name.isascii():
        # HFS+ leaves out characters without a form, and a reader cannot see them.
        name = "".join(c for c in name if unicodedata.category(c) != "Cf" and not 0xFE00 <= ord(c) <= 0xFE0F)
        name = unicodedata.normalize("NFKC", name).casefold().translate(_LOOK_ALIKE)
        name = unicodedata.normalize("NFKC", name)
    # NTFS reads "x:stream" as x, and drops dots and spaces at the end.
    return name.casefold().partition(":")[0].rstrip(". ")


def private(name: str) -> bool:
    """True for a component of history or of the framework's own files, also behind a backslash."""
    for part in map(plain, name.split("\\")):
        if part in PRIVATE or ("~" in part and _SHORT.fullmatch(part) is not None):
            return True
    return False


def check_readable(parts: Parts) -> None:
    """Refuse what would show history or the framework's own files."""
    if any(private(p) for p in parts):
        raise Refused("E_PROTECTED", f"{'/'.join(parts)} is not for agents")


def check_writable(parts: Parts, read_only: frozenset[str]) -> None:
    """Refuse files that run by themselves or decide the tests, and the files of the tests."""
    check_readable(parts)
    if any(_protected(p) for p in parts):
        raise Refused("E_PROTECTED", f"{'/'.join(parts)} is protected")
    if "/".join(map(plain, parts)) in _plain_paths(read_only):
        raise Refused("E_PROTECTED", f"{'/'.join(parts)} belongs to the tests")


def _protected(name: str) -> bool:
    return any(plain(p) in PROTECTED or plain(p).endswith(".pth") for p in name.split("\\"))


@lru_cache(maxsize=256)
def _plain_paths(paths: frozenset[str]) -> frozenset[str]:
    return frozenset("/".join(plain(p) for p in path.split("/") if p not in ("", ".")) for path in paths)
