"""An attacker's place: a source repository and a workspace that are its own, canaries that show what ran, a secret."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from apex_framework.errors import GitError
from apex_framework.git import GitLimits, Repository, run_git

SECRET = b"canary-7f3a91-secret"
NASTY_REVISIONS = (
    "--output={canaries}/output",
    "--upload-pack=touch {canaries}/pack",
    "-c core.pager=x",
    "--exec=touch {canaries}/exec",
    "HEAD\n--all",
    "HEAD^{{/secret}}",
    ":/secret",
    ":(top)a.txt",
    "@{{-1}}",
    "../../other",
    "refs/heads/../../HEAD",
    "",
    "\0",
    "a" * 5000,
    "HEAD..HEAD",
    "main:a.txt",
)
NASTY_PATHS = (
    ":(top)../x",
    ":/",
    ":!a.txt",
    ":(glob)**",
    ":(attr:x)a",
    "../../etc/passwd",
    "/etc/passwd",
    "-x",
    "--output=x",
    ".git/config",
    "a\0b",
    "",
)


def plain_git(folder: Path, *arguments: str, check: bool = True, data: bytes = b"") -> bytes:
    """Git as everybody runs it, but for its own home."""
    home = folder.parent if folder.parent.is_dir() else folder
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "LC_ALL": "C", "GIT_CONFIG_NOSYSTEM": "1"}
    who = ["-c", "user.name=u", "-c", "user.email=u@localhost", "-c", "init.defaultBranch=main"]
    done = subprocess.run(
        ["git", *who, *arguments], cwd=folder, env=env, input=data, capture_output=True, timeout=30, check=False
    )
    if check and done.returncode:
        raise AssertionError(f"git {' '.join(arguments)}: {done.stderr.decode(errors='replace')}")
    return done.stdout


def make_honest(folder: Path) -> Path:
    """Three commits on main, a branch from the second, a light and an annotated tag; the future is the third commit."""
    folder.mkdir(parents=True)
    plain_git(folder, "init", "-q")
    for number, text in enumerate(("one\n", "one\ntwo\n", "one\ntwo\nthe future\n"), 1):
        (folder / "a.txt").write_text(text)
        (folder / "b").mkdir(exist_ok=True)
        (folder / f"b/f{number}.bin").write_bytes(bytes(range(256)) * number)
        plain_git(folder, "add", "-A")
        plain_git(folder, "commit", "-qm", f"commit {number}")
        if number == 2:
            plain_git(folder, "branch", "side")
            plain_git(folder, "tag", "light")
            plain_git(folder, "tag", "-am", "noted", "noted")
    return folder


@dataclass
class Evil:
    """``source`` and ``work`` are the attacker's, ``ours`` is the framework's; ``elsewhere`` holds what nobody may reach."""

    root: Path
    source: Path
    work: Path
    ours: Path
    elsewhere: Path
    canaries: Path
    revisions: list[str] = field(default_factory=lambda: ["HEAD"])
    paths: list[str] = field(default_factory=lambda: ["a.txt"])
    patches: list[str] = field(default_factory=list)
    seen: list[bytes] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    @classmethod
    def at(cls, root: Path, honest: Path) -> Evil:
        """A place with a copy of the honest repository, its working files, and a repository with a secret elsewhere."""
        folders = {name: root / name for name in ("source", "work", "ours", "elsewhere", "canaries")}
        shutil.copytree(honest, folders["source"], symlinks=True)
        shutil.copytree(honest, folders["work"], symlinks=True, ignore=shutil.ignore_patterns(".git"))
        for name in ("ours", "canaries"):
            folders[name].mkdir()
        shutil.copytree(honest, folders["elsewhere"], symlinks=True)
        (folders["elsewhere"] / "secret.txt").write_bytes(SECRET)
        plain_git(folders["elsewhere"], "add", "-A")
        plain_git(folders["elsewhere"], "commit", "-qm", SECRET.decode())
        return cls(root, **folders)

    @property
    def git(self) -> Path:
        """The source's own git folder."""
        return self.source / ".git"

    def touch(self, name: str) -> str:
        """A shell command that shows that it ran."""
        return f"touch {self.canaries}/{name}"

    def script(self, path: Path, name: str) -> Path:
        """A program that shows that it ran."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{self.touch(name)}\ncat\nexit 0\n")
        path.chmod(0o755)
        return path

    def config(self, text: str, folder: Path | None = None) -> None:
        """More configuration for the source."""
        with ((folder or self.git) / "config").open("a") as file:
            file.write(text + "\n")

    def attributes(self, text: str) -> None:
        """Attributes: in the source's tree and git folder, and in the workspace."""
        (self.work / ".gitattributes").write_text(text + "\n")
        (self.source / ".gitattributes").write_text(text + "\n")
        (self.git / "info").mkdir(exist_ok=True)
        (self.git / "info/attributes").write_text(text + "\n")
        hooks = ["-c", f"core.hooksPath={os.devnull}", "-c", "core.fsmonitor=false"]
        plain_git(
            self.source, *hooks, "-c", "core.attributesFile=/dev/null", "add", "-f", ".gitattributes", check=False
        )
        plain_git(self.source, *hooks, "commit", "-qm", "attributes", check=False)
        # What the set-up itself fired says nothing.
        for canary in self.canaries.iterdir():
            canary.unlink()

    def tree_commit(self, entries: list[tuple[str, str, bytes]], branch: str = "main") -> None:
        """A commit on the source whose tree is written byte for byte, whatever it names: (mode, name, hash in hex)."""
        raw = b"".join(b"%s %s\0%s" % (m.encode(), n.encode(), bytes.fromhex(o.decode())) for m, n, o in entries)
        tree = plain_git(self.source, "hash-object", "-t", "tree", "-w", "--literally", "--stdin", data=raw)
        commit = plain_git(self.source, "commit-tree", "-m", "crafted", tree.decode().strip())
        (self.git / f"refs/heads/{branch}").write_bytes(commit)

    def blob(self, data: bytes) -> bytes:
        """A blob in the source."""
        return plain_git(self.source, "hash-object", "-w", "--stdin", data=data).strip()

    def fired(self) -> list[str]:
        """Names of the commands that ran."""
        return sorted(p.name for p in self.canaries.iterdir())

    def state(self) -> dict[str, tuple[int, bytes]]:
        """Everything outside ``ours``, to see that it was not written to."""
        return dict(self._state(self.root))

    def _state(self, folder: Path) -> Iterator[tuple[str, tuple[int, bytes]]]:
        for path in sorted(folder.iterdir()):
            if path == self.ours:
                continue
            mode = path.lstat().st_mode
            if stat.S_ISDIR(mode):
                yield str(path), (mode, b"")
                yield from self._state(path)
            elif stat.S_ISLNK(mode):
                yield str(path), (mode, os.fsencode(os.readlink(path)))
            elif stat.S_ISREG(mode):
                yield str(path), (mode, path.read_bytes())

    # --- everything that the framework does with a repository and a workspace ----------------------

    def work_through(self, kind: type[Repository] = Repository) -> None:
        """Clone, check out, take a snapshot of the workspace, compare, merge, apply; what is refused is noted."""
        for number, revision in enumerate(self.revisions):
            with self._noting():
                made = kind.clone(self.source, self.ours / f"git{number}", revision)
                into = self.ours / f"out{number}"
                into.mkdir()
                with self._noting():
                    made.check_out("main", into)
                if not number:
                    self._around(made)
                self._collect(made, into)

    def _around(self, made: Repository) -> None:
        with self._noting():
            theirs = made.snapshot(self.work, "from\x1b[2J the workspace\r\n\0", ("main",), when=7)
            self.seen.append(made.diff("main", theirs).encode("utf-8", "surrogateescape"))
            made.changed("main", theirs)
            made.set_branch("agent", theirs)
            again = self.ours / f"again-{made.git_dir.name}"
            again.mkdir()
            with self._noting():
                made.check_out(theirs, again)
            ours = (
                made.apply("--- a/n.txt\n+++ b/n.txt\n@@ -0,0 +1 @@\n+x\n", "main", "patched")
                if not self.patches
                else ""
            )
            made.merge(ours or "main", theirs, "both")
        for patch in self.patches:
            with self._noting():
                commit = made.apply(patch, "main", "theirs")
                into = self.ours / f"patched{len(self.refused)}-{commit[:6]}"
                into.mkdir()
                made.check_out(commit, into)
        for path in self.paths:
            with self._noting():
                self.seen.append(made.file("main", path))
            with self._noting():
                self.seen.append(made.diff("main", "main", path=path).encode("utf-8", "surrogateescape"))
            with self._noting():
                made.log("main", path=path)
        with self._noting():
            self.seen += [f"{c.author} {c.message}".encode() for c in made.log("main")]
        for revision in self.revisions:
            with self._noting():
                made.set_branch(revision, "main")
            with self._noting():
                made.log(revision)

    def _collect(self, made: Repository, into: Path) -> None:
        every = ["cat-file", "--batch-all-objects", "--batch", "--unordered"]
        self.seen.append(run_git(made.git_dir, every, limits=GitLimits(output=10**9)))
        for path in into.rglob("*"):
            if path.is_file():
                self.seen.append(path.read_bytes())

    @contextlib.contextmanager
    def _noting(self) -> Iterator[None]:
        try:
            yield
        except GitError as error:
            assert "\n" not in error.cause and error.cause.isprintable(), repr(error.cause)
            self.refused.append(f"{error.refusal}: {error.cause}")
