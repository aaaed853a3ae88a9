"""What a tree may hold, and trees as git prints and takes them: byte for byte, no filter, no end-of-line conversion."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ..errors import GitError

FILE, PROGRAM, LINK, SUBMODULE = "100644", "100755", "120000", "160000"

MOST_FILES: Final = 200_000
MOST_BYTES: Final = 100 * 1024**2
"""Of one file."""
MOST_TREE: Final = 1024**3
"""Bytes of all files of a tree together."""
MOST_FOLDERS: Final = 128
"""Folders within folders."""
_HOLLOW: Final = b"version https://git-lfs.github.com/spec/"
_MOST_LINKS: Final = 40


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of a tree, its mode in git's octal form, the name of its content and its size in bytes."""

    path: str
    mode: str
    oid: str
    size: int = 0


def listed(output: bytes) -> list[Entry]:
    """Entries of ``ls-tree -r -z -l``.

    Raises GitError: ``E_PATH`` for a path that would leave the folder, be git's own, or be a file and a folder at once;
    ``E_LIMIT`` for too many or too large files; ``E_REPO`` for what is no listing.
    """
    entries, total = [], 0
    for line in filter(None, output.split(b"\0")):
        facts, _, path = line.partition(b"\t")
        try:
            mode, _, oid, size = facts.decode("ascii").split()
            entry = Entry(checked(os.fsdecode(path)), mode, oid, int(size) if size.isdigit() else 0)
        except ValueError:
            raise GitError("E_REPO", "the repository holds a damaged tree") from None
        if entry.size > MOST_BYTES:
            raise GitError("E_LIMIT", f"{shown(entry.path)} is larger than {MOST_BYTES:,} bytes")
        total += entry.size
        entries.append(entry)
    if len(entries) > MOST_FILES or total > MOST_TREE:
        raise GitError("E_LIMIT", f"{len(entries):,} files of {total:,} bytes; at most {MOST_FILES:,} of {MOST_TREE:,}")
    _distinct(entries)
    return entries


def _distinct(entries: Sequence[Entry]) -> None:
    """A damaged tree can name a link and a folder alike: what is written into the one would go through the other."""
    files = {entry.path for entry in entries}
    if len(files) < len(entries):
        raise GitError("E_PATH", "the repository holds two files of one name")
    folders = {folder for path in files for folder in _above(path)}
    if both := sorted(files & folders):
        raise GitError("E_PATH", f"the repository holds {shown(both[0])} as a file and as a folder")


def _above(path: str) -> Iterable[str]:
    at = path.rfind("/")
    while at > 0:
        path = path[:at]
        yield path
        at = path.rfind("/")


def checked(path: str) -> str:
    """The path, if every part of it is a plain name. Raises GitError."""
    parts = path.split("/")
    if any(part in ("", ".", "..") or "\0" in part or is_gits_own(part) for part in parts):
        raise GitError("E_PATH", f"no file may be called {shown(path)}")
    if len(parts) > MOST_FOLDERS or len(os.fsencode(path)) > 4096 or any(len(os.fsencode(p)) > 255 for p in parts):
        raise GitError("E_PATH", f"the path {shown(path)[:60]}… is too deep or a name too long")
    return path


def is_gits_own(name: str) -> bool:
    """Whether some file system takes a name for ``.git``."""
    plain = "".join(c for c in unicodedata.normalize("NFKC", name) if unicodedata.category(c) != "Cf")
    plain = plain.casefold().partition(":")[0].rstrip(". ")
    return plain in (".git", "git~1")


def shown(path: str) -> str:
    """A path for one line of text."""
    return repr(path[:200])


def is_lfs_pointer(data: bytes) -> bool:
    """Whether a file is the stand-in of a large file that is kept elsewhere (Git LFS)."""
    return len(data) < 1024 and data.startswith(_HOLLOW)


def outside(links: Mapping[str, str]) -> set[str]:
    """Those links (path -> target) of a tree that lead out of it, by themselves or through one another."""
    return {path for path in links if not _stays(path, links)}


def _stays(path: str, links: Mapping[str, str]) -> bool:
    here: list[str] = []
    ahead = path.split("/")[::-1]
    followed = 0
    while ahead:
        part = ahead.pop()
        if part == "..":
            if not here:
                return False
            here.pop()
        elif part not in ("", "."):
            here.append(part)
            target = links.get("/".join(here))
            if target is not None:
                followed += 1
                if followed > _MOST_LINKS or target.startswith("/") or "\0" in target or not target:
                    return False
                here.pop()
                ahead += target.split("/")[::-1]
                # Longer than any path that could be followed: links that name each other many times.
                if len(ahead) > 4096:
                    return False
    return True


def import_stream(
    files: Sequence[tuple[str, str, bytes]], message: str, parents: Sequence[str], when: int, ref: str
) -> bytes:
    """What ``git fast-import`` makes one commit of and prints the name of; ``ref`` exists only meanwhile."""
    branch = ref.encode("ascii")
    parts = [b"commit %s\nmark :1\ncommitter apex <apex@localhost> %d +0000\n" % (branch, when), _data(told(message))]
    for number, parent in enumerate(parents):
        parts.append(b"%s %s\n" % (b"merge" if number else b"from", parent.encode("ascii")))
    parts.append(b"deleteall\n")
    for path, mode, data in files:
        parts += [b"M %s inline %s\n" % (mode.encode("ascii"), _quoted(path)), _data(data)]
    # The null name removes the branch again: two snapshots at once share nothing, and none leaves a name.
    parts.append(b"\nget-mark :1\nreset %s\nfrom %s\n\ndone\n" % (branch, b"0" * 40))
    return b"".join(parts)


def told(message: str) -> bytes:
    """A message as a commit keeps it: no character that moves a cursor or ends the text early."""
    kept = "".join(c if c in "\n\t" or c.isprintable() else "?" for c in message.replace("\r\n", "\n"))
    return kept.strip("\n").encode("utf-8", "replace") + b"\n"


def _data(data: bytes) -> bytes:
    return b"data %d\n%s\n" % (len(data), data)


def _quoted(path: str) -> bytes:
    raw = os.fsencode(path)
    return b'"' + raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'
