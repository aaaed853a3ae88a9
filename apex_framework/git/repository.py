"""A repository of our own, apart from the folder that agents work in: clone, check out, commit, compare, merge."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import GitError
from . import folders, merging, trees
from .addresses import Network
from .cloning import clone
from .names import OID, checked_name, stepped
from .runner import MOST_OUTPUT, GitLimits, run_git

_BATCH = 32 * 1024**2


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit; ``when`` in seconds since 1970."""

    oid: str
    parents: tuple[str, ...]
    when: int
    author: str
    message: str


@dataclass(frozen=True, slots=True)
class CheckedOut:
    """What a check-out left out: submodules, links that lead out of the tree; and what is a stand-in only."""

    files: int
    submodules: tuple[str, ...] = ()
    outside_links: tuple[str, ...] = ()
    lfs_pointers: tuple[str, ...] = ()


class Repository:
    """``git_dir`` is a bare repository that only this framework writes. Every method blocks and raises GitError."""

    def __init__(self, git_dir: Path) -> None:
        self.git_dir = git_dir
        # Whole names of commits that were seen here: they never go away, so they are not looked up twice.
        self._known: set[str] = set()

    # --- making one -----------------------------------------------------------------------------

    @classmethod
    def init(cls, git_dir: Path) -> Repository:
        """An empty one, in a folder that does not exist or is empty. Raises GitError (``E_PATH``)."""
        try:
            git_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            if any(git_dir.iterdir()):
                raise GitError("E_PATH", f"{git_dir} is not empty")
        except OSError as error:
            raise GitError("E_PATH", f"{git_dir}: {error.strerror}") from None
        run_git(git_dir, ["init", "--quiet", "--bare", "--object-format=sha1", "--template=", str(git_dir.absolute())])
        return cls(git_dir)

    @classmethod
    def clone(
        cls,
        source: str | Path,
        git_dir: Path,
        revision: str = "HEAD",
        *,
        depth: int | None = None,
        network: bool = False,
        beneath: Path | None = None,
        networks: Sequence[Network] | None = None,
    ) -> Repository:
        """One with ``revision`` and what came before it, and no object besides: nobody can look into the future.

        ``source`` is a folder, reached without a link from ``beneath`` where that is given, or with ``network`` an https
        address; ``networks`` then lets it lead to public addresses and to these networks alone, else anywhere.
        ``revision`` is HEAD, a branch, a tag or a whole hash; its commit becomes ``refs/heads/main``.
        Git is never started in the source. Nothing is left behind a failure. Raises GitError: ``E_REPO`` for no
        repository or a damaged one, ``E_PROTO`` for another protocol, ``E_REF`` for no such commit, ``E_PATH`` when
        ``git_dir`` is not empty.
        """
        return clone(cls, source, git_dir, revision, depth=depth, network=network, beneath=beneath, networks=networks)

    # --- names ----------------------------------------------------------------------------------

    def commit_of(self, revision: str) -> str:
        """The commit that HEAD, a branch or an object's name stands for, ``~2`` or ``^`` steps before it.

        Raises GitError (``E_REF``).
        """
        if revision in self._known:
            return revision
        base, steps = stepped(revision)
        if steps:
            return self.peeled(f"{self.commit_of(base)}{steps}")
        if revision == "HEAD":
            return self.peeled("HEAD")
        if OID.fullmatch(revision):
            with contextlib.suppress(GitError):
                return self.peeled(revision)
        return self.peeled(f"refs/heads/{checked_name(revision)}")

    def peeled(self, name: str) -> str:
        """The commit behind an object or a full ref of ours. Raises GitError (``E_REF``)."""
        command = ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"]
        try:
            commit = run_git(self.git_dir, command).decode("ascii").strip()
        except GitError as error:
            if error.refusal != "E_GIT":
                raise
            raise GitError("E_REF", f"no commit {name.removeprefix('refs/heads/')}") from None
        self._known.add(commit)
        return commit

    @property
    def branch(self) -> str:
        """The branch that HEAD stands for."""
        name = run_git(self.git_dir, ["symbolic-ref", "--quiet", "HEAD"]).decode("utf-8", "replace").strip()
        return name.removeprefix("refs/heads/")

    def switch(self, name: str) -> None:
        """Let HEAD stand for a branch; no folder is changed. Raises GitError (``E_REF``) if there is none."""
        self.peeled(f"refs/heads/{checked_name(name)}")
        run_git(self.git_dir, ["symbolic-ref", "HEAD", f"refs/heads/{name}"])

    def branches(self) -> dict[str, str]:
        """Name -> commit."""
        out = run_git(self.git_dir, ["for-each-ref", "--format=%(refname:lstrip=2)%00%(objectname)", "refs/heads/"])
        pairs = (line.split("\0") for line in out.decode("utf-8", "replace").splitlines() if line)
        return {pair[0]: pair[1] for pair in pairs}

    def set_branch(self, name: str, commit: str, *, expected: str | None = None) -> None:
        """Make or move a branch; with ``expected`` only if it is still there ("" for: does not exist).

        Raises GitError: ``E_REF`` for an impossible name or no such commit, ``E_MOVED`` when the branch is elsewhere.
        """
        ref, new = f"refs/heads/{checked_name(name)}", self.commit_of(commit)
        old = [] if expected is None else [self.commit_of(expected) if expected else "0" * len(new)]
        try:
            run_git(self.git_dir, ["update-ref", "--end-of-options", ref, new, *old])
        except GitError as error:
            if error.refusal != "E_GIT":
                raise
            raise GitError("E_MOVED" if old else "E_REF", f"the branch {name} cannot be set: {error.cause}") from None

    def remove_branch(self, name: str) -> None:
        """Forget a branch; its commits stay."""
        run_git(self.git_dir, ["update-ref", "-d", "--end-of-options", f"refs/heads/{checked_name(name)}"])

    def beyond(self, revision: str) -> set[str]:
        """Names of objects that are here and that neither ``revision`` nor its history holds."""
        big = GitLimits(seconds=900.0, output=1024**3)
        every = ["cat-file", "--batch-all-objects", "--batch-check=%(objectname)", "--unordered"]
        here = set(run_git(self.git_dir, every, limits=big).split())
        held = ["rev-list", "--objects", "--no-object-names", "--end-of-options", self.commit_of(revision), "--"]
        return {name.decode("ascii") for name in here.difference(run_git(self.git_dir, held, limits=big).split())}

    # --- folders --------------------------------------------------------------------------------

    def entries(self, revision: str) -> list[trees.Entry]:
        """Every file of a commit. Raises GitError (``E_PATH``) if a path is none that may be made."""
        return self._listed(self.commit_of(revision))

    def check_out(self, revision: str, into: Path) -> CheckedOut:
        """Write a commit's files below ``into``, a folder that exists and is empty, byte for byte and without a ``.git``.

        Submodules and links that lead out of the tree are left out. After a failure the folder is empty again.
        """
        found = self.entries(revision)
        submodules = tuple(e.path for e in found if e.mode == trees.SUBMODULE)
        wanted = [e for e in found if e.mode != trees.SUBMODULE]
        hollow: list[str] = []
        links: dict[str, bytes] = {}
        with folders.opened(into) as fd:
            writer = folders.Writer(fd)
            try:
                for entry, data in zip(wanted, self._contents(wanted), strict=True):
                    if entry.mode == trees.LINK:
                        links[entry.path] = data
                        continue
                    writer.file(entry.path, entry.mode, data)
                    if trees.is_lfs_pointer(data):
                        hollow.append(entry.path)
                outside = trees.outside({path: os.fsdecode(target) for path, target in links.items()})
                # Links last: nothing is ever written through one.
                for path, target in links.items():
                    if path not in outside:
                        writer.link(path, target)
            except BaseException:
                writer.clear()
                raise
            finally:
                writer.close()
        return CheckedOut(len(wanted) - len(outside), submodules, tuple(sorted(outside)), tuple(hollow))

    def snapshot(
        self,
        folder: Path,
        message: str,
        parents: tuple[str, ...] = (),
        *,
        when: int = 0,
        ignore: frozenset[str] = frozenset(),
    ) -> str:
        """A commit of a folder's present files, on no branch; the same files, message, parents and time give the same one.

        What is called ``.git`` or as in ``ignore``, empty folders, sockets and devices are no part of it.
        """
        files = list(folders.read_folder(folder, ignore))
        ref = f"refs/apex/{secrets.token_hex(16)}"
        known = [self.commit_of(parent) for parent in parents]
        stream = trees.import_stream(files, message, known, _checked_time(when), ref)
        made = run_git(self.git_dir, ["fast-import", "--quiet", "--force", "--done"], stdin=stream)
        return made.decode("ascii").strip()

    def _listed(self, tree: str) -> list[trees.Entry]:
        return trees.listed(run_git(self.git_dir, ["ls-tree", "-r", "-z", "-l", "--full-tree", tree]))

    def _contents(self, entries: Sequence[trees.Entry]) -> Iterator[bytes]:
        """Contents in order, so many at a time that they fit in memory."""
        part: list[trees.Entry] = []
        size = 0
        for entry in entries:
            part.append(entry)
            size += entry.size + 100
            if size > _BATCH:
                yield from self._batch(part, size)
                part, size = [], 0
        if part:
            yield from self._batch(part, size)

    def _batch(self, part: Sequence[trees.Entry], size: int) -> Iterator[bytes]:
        names = "".join(f"{e.oid}\n" for e in part).encode("ascii")
        out = run_git(self.git_dir, ["cat-file", "--batch"], stdin=names, limits=GitLimits(output=size + 1024**2))
        at = 0
        for entry in part:
            end = out.find(b"\n", at)
            header = out[at:end].split(b" ")
            if end < 0 or len(header) != 3 or header[1] != b"blob" or int(header[2]) != entry.size:
                raise GitError("E_REPO", f"the content of {trees.shown(entry.path)} is missing or damaged")
            yield out[end + 1 : end + 1 + entry.size]
            at = end + 2 + entry.size

    # --- looking --------------------------------------------------------------------------------

    def diff(
        self,
        before: str,
        after: str,
        *,
        context: int = 3,
        binary: bool = True,
        path: str | None = None,
        most: int = MOST_OUTPUT,
    ) -> str:
        """Unified diff between two commits, names from the top of the tree, ``a/`` and ``b/``.

        ``path`` is one file or folder. Raises GitError (``E_LIMIT``) when it is longer than ``most`` bytes.
        """
        options = ["--no-ext-diff", "--no-textconv", "--no-renames", "--full-index", f"--unified={context}"]
        command = ["diff-tree", "-r", "-p", *options, *(["--binary"] if binary else []), "--end-of-options"]
        only = [] if path is None else [trees.checked(path)]
        command += [self.commit_of(before), self.commit_of(after), "--", *only]
        return run_git(self.git_dir, command, limits=GitLimits(output=most)).decode("utf-8", "surrogateescape")

    def changed(self, before: str, after: str) -> dict[str, str]:
        """Path -> ``A`` added, ``M`` changed, ``D`` removed, ``T`` another type."""
        command = ["diff-tree", "-r", "-z", "--no-renames", "--name-status", "--end-of-options"]
        parts = run_git(self.git_dir, [*command, self.commit_of(before), self.commit_of(after), "--"]).split(b"\0")
        return {os.fsdecode(path): kind.decode("ascii") for kind, path in zip(parts[::2], parts[1::2], strict=False)}

    def log(self, revision: str = "HEAD", *, count: int = 20, skip: int = 0, path: str | None = None) -> list[Commit]:
        """Commits from ``revision`` back, newest first; with ``path`` those that changed it."""
        plain = ["--no-show-signature", "--no-mailmap", "--no-notes", "--no-color", "--no-patch", "--no-decorate"]
        command = ["log", "-z", *plain, "--format=%H%x00%P%x00%ct%x00%an%x00%B%x00", f"-n{count}", f"--skip={skip}"]
        only = [] if path is None else [trees.checked(path)]
        out = run_git(self.git_dir, [*command, "--end-of-options", self.commit_of(revision), "--", *only])
        fields = out.decode("utf-8", "replace").split("\0")
        rows = [fields[at : at + 5] for at in range(0, len(fields) - 5, 6)]
        return [
            Commit(oid, tuple(p.split()), int(when) if when.isdigit() else 0, who, text.rstrip("\n"))
            for oid, p, when, who, text in rows
        ]

    def file(self, revision: str, path: str, *, most: int = 1024**2) -> bytes:
        """A file as it is in a commit. Raises GitError: ``E_MISSING``, ``E_LIMIT``."""
        commit = self.commit_of(revision)
        out = run_git(self.git_dir, ["ls-tree", "-z", "--full-tree", "-l", commit, "--", trees.checked(path)])
        facts = out.partition(b"\t")[0].split()
        if len(facts) != 4 or facts[1] != b"blob":
            raise GitError("E_MISSING", f"no file {path} in {revision}")
        if int(facts[3]) > most:
            raise GitError("E_LIMIT", f"{path} has {int(facts[3]):,} bytes, more than {most:,}")
        return run_git(self.git_dir, ["cat-file", "blob", facts[2].decode("ascii")])

    # --- changing -------------------------------------------------------------------------------

    def is_ancestor(self, older: str, newer: str) -> bool:
        """Whether ``newer`` holds all of ``older``'s history (as ``git merge-base --is-ancestor``)."""
        older, newer = self.commit_of(older), self.commit_of(newer)
        left = run_git(self.git_dir, ["rev-list", "-n1", "--end-of-options", older, f"^{newer}", "--"])
        return not left.strip()

    def merge(self, ours: str, theirs: str, message: str, *, when: int = 0) -> str:
        """The commit that holds both: one of them if it holds the other's history already, else a merge.

        Raises GitError (``E_CONFLICT``) that names the files; nothing is changed then.
        """
        ours, theirs = self.commit_of(ours), self.commit_of(theirs)
        if self.is_ancestor(theirs, ours):
            return ours
        if self.is_ancestor(ours, theirs):
            return theirs
        return self._committed(merging.merged_tree(self.git_dir, ours, theirs), (ours, theirs), message, when)

    def apply(self, patch: str, base: str, message: str, *, when: int = 0) -> str:
        """A commit of ``base`` with a unified diff applied. Raises GitError (``E_PATCH``); nothing is changed then."""
        commit = self.commit_of(base)
        tree = merging.patched_tree(self.git_dir, commit, patch)
        self._listed(tree)
        return self._committed(tree, (commit,), message, when)

    def _committed(self, tree: str, parents: tuple[str, ...], message: str, when: int) -> str:
        lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
        lines += [f"{who} apex <apex@localhost> {_checked_time(when)} +0000" for who in ("author", "committer")]
        text = "\n".join([*lines, "", ""]).encode("ascii") + trees.told(message)
        return run_git(self.git_dir, ["hash-object", "-t", "commit", "-w", "--stdin"], stdin=text).decode().strip()


def _checked_time(when: int) -> int:
    if not 0 <= when < 2**40:
        raise GitError("E_ARG", f"{when} is no time in seconds since 1970")
    return when
