"""Makes a repository of ours out of one of others: a commit, what came before it, and no object besides."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..errors import GitError
from .addresses import Network, pinned
from .names import checked_name
from .runner import GitLimits, run_git
from .source import Source

if TYPE_CHECKING:
    from .repository import Repository

_ADDRESS: Final = re.compile(r"https://[A-Za-z0-9][A-Za-z0-9.-]*(?::\d{1,5})?/[!-?A-~]+")
_LIMITS: Final = GitLimits(seconds=900.0, output=1024**3)
_QUIET: Final = ("--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head", "--no-auto-gc")


def clone(
    kind: type[Repository],
    source: str | Path,
    git_dir: Path,
    revision: str,
    *,
    depth: int | None,
    network: bool,
    beneath: Path | None,
    networks: Sequence[Network] | None,
) -> Repository:
    """See ``Repository.clone``."""
    remote = isinstance(source, str) and "://" in source
    if remote and not (network and _ADDRESS.fullmatch(str(source))):
        why = "only https without user or password" if network else "the network is not allowed"
        raise GitError("E_PROTO", f"{str(source)[:200]!r}: {why}")
    if depth is not None and depth < 1:
        raise GitError("E_ARG", "the depth is 1 or more commits")
    if remote and revision != "HEAD":
        checked_name(revision)
    pin = pinned(str(source), networks) if remote and networks is not None else ""
    made = kind.init(git_dir)
    try:
        with tempfile.TemporaryDirectory(prefix=".apex-git-", dir=git_dir.parent) as place:
            view = kind.init(Path(place) / "view")
            if remote:
                _fetch(view, str(source), f"{revision}:refs/apex/fetched", "https", depth, pin)
                found = "refs/apex/fetched"
            else:
                found = _look_into(view, Path(source), revision, beneath)
            view.set_branch("main", view.peeled(found))
            try:
                _fetch(made, str(view.git_dir), "refs/heads/main:refs/heads/main", "file", depth)
            except GitError as error:
                if error.refusal != "E_GIT":
                    raise
                raise GitError("E_REPO", f"{source}: an object is missing or damaged: {error.cause}") from None
        if later := made.beyond("main"):
            raise GitError("E_REPO", f"{source}: {len(later):,} objects came along that {revision} does not hold")
    except BaseException:
        shutil.rmtree(git_dir, ignore_errors=True)
        raise
    return made


def _look_into(view: Repository, folder: Path, revision: str, beneath: Path | None) -> str:
    with Source(folder, beneath=beneath) as source:
        found = source.resolve(revision)
        source.give_objects(view.git_dir / "objects")
        if shallow := source.shallow:
            (view.git_dir / "shallow").write_text(shallow, encoding="ascii")
    return found


def _fetch(into: Repository, place: str, refs: str, protocol: str, depth: int | None, pin: str = "") -> None:
    shallow = [f"--depth={depth}"] if depth else []
    command = ["fetch", *_QUIET, "--update-shallow", *shallow, "--", place, refs]
    run_git(into.git_dir, command, protocols=protocol, pin=pin, limits=_LIMITS)
