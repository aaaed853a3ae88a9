"""Tools of ``git`` that look: status, diff, log, show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apex_framework.errors import GitError
from apex_framework.git import Commit

from .files import Files, readable
from .git_desk import Desk
from .refusal import Refused, argument, only

MOST_TEXT = 256 * 1024
"""Bytes of a diff or message that one answer holds."""
MOST_DIFF = 16 * 1024**2
MOST_COMMITS = 100
MOST_PATHS = 1000


def status(desk: Desk, files: Files, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Where HEAD is, and what differs from it."""
    only(arguments)
    head = desk.git.commit_of("HEAD")
    found = changes_of(desk, head, desk.present())
    return {"branch": desk.git.branch, "commit": head, "base": desk.base, **found}


def diff(desk: Desk, files: Files, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Unified diff of two commits, or of a commit and the present files."""
    only(arguments, "from", "to", "path")
    before = desk.git.commit_of(argument(arguments, "from", str, "HEAD"))
    after = desk.git.commit_of(argument(arguments, "to", str)) if "to" in arguments else desk.present()
    path = path_of(arguments)
    if path is not None and not any(_holds(desk, commit, path) for commit in (before, after)):
        raise Refused("E_MISSING", f"no {path} in either")
    return {"from": before, "to": after if "to" in arguments else "", **_shown_diff(desk, before, after, path)}


def log(desk: Desk, files: Files, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """A page of commits."""
    only(arguments, "revision", "path", "count", "skip")
    count, skip = argument(arguments, "count", int, 20), argument(arguments, "skip", int, 0)
    if not (1 <= count <= MOST_COMMITS and 0 <= skip < 2**31):
        raise Refused("E_ARG", f"count is 1 to {MOST_COMMITS}, skip is not negative")
    path = path_of(arguments)
    found = desk.git.log(argument(arguments, "revision", str, "HEAD"), count=count + 1, skip=skip, path=path)
    if path is not None and not found and not skip:
        raise Refused("E_MISSING", f"no commit changed {path}")
    page: dict[str, Any] = {"commits": [_commit(c) for c in found[:count]]}
    return page | ({"next": skip + count} if len(found) > count else {})


def show(desk: Desk, files: Files, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """A commit and what it changed against its first parent, or a file in it."""
    only(arguments, "revision", "path")
    found = desk.git.log(argument(arguments, "revision", str, "HEAD"), count=1)[0]
    path = path_of(arguments)
    if path is not None:
        data = desk.git.file(found.oid, path)
        try:
            return {"commit": found.oid, "path": path, "text": data.decode()}
        except UnicodeDecodeError:
            raise Refused("E_TYPE", f"{path} is not UTF-8 text") from None
    if not found.parents:
        return {**_commit(found), "paths": [e.path for e in desk.git.entries(found.oid)[:MOST_PATHS]]}
    try:
        parent = desk.git.commit_of(found.parents[0])
    except GitError:
        return _commit(found)  # a shallow history: the parent is not there
    return {**_commit(found), **_shown_diff(desk, parent, found.oid, None)}


def changes_of(desk: Desk, before: str, after: str) -> dict[str, Any]:
    """Changed paths with their kind, as JSON."""
    found = sorted(desk.git.changed(before, after).items()) if before != after else []
    rows = [{"path": text_of(path), "kind": kind} for path, kind in found[:MOST_PATHS]]
    return {"changed": rows, "partial": len(found) > MOST_PATHS}


def path_of(arguments: Mapping[str, Any]) -> str | None:
    """The path that was asked for, as git writes it. Raises Refused."""
    if "path" not in arguments:
        return None
    parts = readable(argument(arguments, "path", str))
    if not parts:
        raise Refused("E_PATH", "the workspace itself is not a file")
    return "/".join(parts)


def text_of(text: str) -> str:
    """Text that is Unicode, whatever bytes a name or a file had."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _holds(desk: Desk, commit: str, path: str) -> bool:
    return any(e.path == path or e.path.startswith(f"{path}/") for e in desk.git.entries(commit))


def _shown_diff(desk: Desk, before: str, after: str, path: str | None) -> dict[str, Any]:
    if before == after:
        return {"diff": "", "partial": False}
    try:
        text = text_of(desk.git.diff(before, after, binary=False, path=path, most=MOST_DIFF))
    except GitError as error:
        if error.refusal != "E_LIMIT":
            raise
        raise Refused("E_LIMIT", "the diff is too large; give a path") from None
    kept = text if len(text) <= MOST_TEXT else text[: text.rfind("\n", 0, MOST_TEXT) + 1]
    return {"diff": kept, "partial": kept != text}


def _commit(found: Commit) -> dict[str, Any]:
    message = "".join(c if c in "\n\t" or c.isprintable() else "?" for c in found.message[:MOST_TEXT])
    author = "".join(c if c.isprintable() else "?" for c in found.author[:200])
    return {
        "commit": found.oid,
        "parents": list(found.parents),
        "when": found.when,
        "author": author,
        "message": message,
    }
