"""Tools of ``git`` that change something: branch, commit, merge, checkout, clone."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from apex_framework.git import Repository

from .files import Files
from .gate import Put
from .git_desk import Desk
from .git_looks import changes_of, path_of, text_of
from .git_settings import GitSettings
from .refusal import Refused, argument, only

_PROGRAM, _LINK, _OTHER = "100755", "120000", "160000"
MOST_CLONED = 2000
MOST_BYTES = 64 * 1024**2
"""What one clone may bring: files, and bytes together."""


def branch(desk: Desk, files: Files, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """List, make, go over."""
    only(arguments, "name", "revision", "switch")
    switch = argument(arguments, "switch", bool, False)
    if "name" not in arguments:
        if switch or "revision" in arguments:
            raise Refused("E_ARG", "name is required")
        return {"branch": desk.git.branch, "branches": desk.git.branches()}
    name = argument(arguments, "name", str)
    known = desk.git.branches()
    if name not in known or "revision" in arguments:
        commit = desk.git.commit_of(argument(arguments, "revision", str, "HEAD"))
        desk.git.set_branch(name, commit, expected="")
    elif not switch:
        raise Refused("E_MOVED", f"there is a branch {name} already")
    if switch:
        try:
            _bring(desk, files, desk.git.commit_of(name))
            desk.git.switch(name)
        except BaseException:
            if name not in known:
                desk.git.remove_branch(name)
            raise
    return {"branch": desk.git.branch, "branches": desk.git.branches()}


def commit(desk: Desk, files: Files, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """All files as they are."""
    only(arguments, "message")
    message = argument(arguments, "message", str)
    if not message.strip() or len(message) > 65536:
        raise Refused("E_ARG", "a message has 1 to 65,536 characters")
    head = desk.git.commit_of("HEAD")
    made = desk.present(message)
    if made == head:
        raise Refused("E_EMPTY", "nothing was changed since the last commit")
    desk.git.set_branch(desk.git.branch, made, expected=head)
    return {"commit": made, "branch": desk.git.branch, **changes_of(desk, head, made)}


def merge(desk: Desk, files: Files, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Files first, then the branch: after a refusal both are as they were."""
    only(arguments, "branch", "message")
    theirs, name = argument(arguments, "branch", str), desk.git.branch
    head, other = desk.git.log("HEAD", count=1)[0], desk.git.log(theirs, count=1)[0]
    message = argument(arguments, "message", str, f"Merge {theirs} into {name}")
    made = desk.git.merge(head.oid, other.oid, message, when=max(head.when, other.when) + 1)
    how = "already" if made == head.oid else "forward" if made == other.oid else "merge"
    _bring(desk, files, made)
    desk.git.set_branch(name, made, expected=head.oid)
    return {"commit": made, "branch": name, "how": how, **changes_of(desk, head.oid, made)}


def checkout(desk: Desk, files: Files, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """One file."""
    only(arguments, "path", "revision")
    path = path_of(arguments) or ""
    parts = files.check(path)
    commit = desk.git.commit_of(argument(arguments, "revision", str, "HEAD"))
    if any(e.path == path and e.mode == _LINK for e in desk.git.entries(commit)):
        raise Refused("E_SYMLINK", f"{path} is a link there")
    files.change({parts: Put(desk.git.file(commit, path))})
    return {"path": path, "commit": commit}


def clone(files: Files, arguments: Mapping[str, Any], settings: GitSettings, *, network: bool) -> dict[str, Any]:
    """Files of another repository, below a new folder: all or none."""
    only(arguments, "source", "path", "revision")
    source, revision = argument(arguments, "source", str), argument(arguments, "revision", str, "HEAD")
    target = "/".join(files.check(argument(arguments, "path", str)))
    _refuse_taken(files, target)
    with tempfile.TemporaryDirectory(prefix="apex-git-") as place:
        git_dir, into = Path(place) / "git", Path(place) / "files"
        if "://" in source:
            made = Repository.clone(source, git_dir, revision, depth=1, network=network, networks=settings.networks)
        else:
            folder, beneath = _allowed(source, settings.sources)
            made = Repository.clone(folder, git_dir, revision, depth=1, beneath=beneath)
        entries = made.entries("main")
        if len(entries) > MOST_CLONED or sum(e.size for e in entries) > MOST_BYTES:
            raise Refused(
                "E_LIMIT", f"{len(entries):,} files; at most {MOST_CLONED:,} of {MOST_BYTES:,} bytes together"
            )
        into.mkdir()
        made.check_out("main", into)
        puts: dict[tuple[str, ...], Put | None] = {}
        left: list[str] = []
        for entry in entries:
            try:
                parts = files.check(f"{target}/{entry.path}")
            except Refused:
                left.append(text_of(entry.path))
                continue
            if entry.mode in (_LINK, _OTHER):
                left.append(text_of(entry.path))
            else:
                puts[parts] = Put((into / entry.path).read_bytes())
        files.change(puts)
        return {"commit": made.commit_of("main"), "path": target, "files": len(puts), "left_out": left}


def _refuse_taken(files: Files, path: str) -> None:
    try:
        files.listing(path)
    except Refused as refusal:
        if refusal.code == "E_MISSING":
            return
        if refusal.code != "E_TYPE":
            raise
    raise Refused("E_PATH", f"{path} exists already")


def _allowed(source: str, sources: Sequence[Path]) -> tuple[Path, Path]:
    path = Path(source)
    for allowed in sources:
        if path.is_absolute() and ".." not in path.parts and path.is_relative_to(allowed):
            return path, allowed
    raise Refused("E_PATH", "cloning from there is not allowed")


def _bring(desk: Desk, files: Files, commit: str) -> None:
    """Let the files be those of a commit; refused when something was not committed."""
    head = desk.git.commit_of("HEAD")
    if desk.present() != head:
        raise Refused("E_DIRTY", "there are changes that are not committed")
    changed = desk.git.changed(head, commit) if head != commit else {}
    if not changed:
        return
    before = {e.path: e.mode for e in desk.git.entries(head)}
    after = {e.path: e.mode for e in desk.git.entries(commit)}
    for path in changed:
        modes = {before.get(path), after.get(path)}
        if modes & {_LINK, _OTHER}:
            raise Refused("E_SYMLINK", f"{text_of(path)} is a link or a submodule")
        if _PROGRAM in modes and path in after and len(modes) > 1:
            raise Refused("E_TYPE", f"{text_of(path)} becomes a program, or is one no more: that is not for agents")
    contents = {p: None if kind == "D" else Put(desk.git.file(commit, p)) for p, kind in changed.items()}
    files.change({files.check(path): put for path, put in contents.items()})
