"""Attacks on files: every way out with every tool that takes a path, and hostile contents."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from .attacks import Attack, Target, one, order


def attacks() -> Iterator[Attack]:
    """All of them, in a fixed order."""
    yield from _paths()
    yield from _files()


# --- paths: every way out, with every tool that takes a path --------------------------------------

_TAKES_PATH: Final[Mapping[str, Callable[[str], dict[str, Any]]]] = {
    "fs.read": lambda p: {"path": p},
    "fs.write": lambda p: {"path": p, "text": "owned\n"},
    "fs.patch": lambda p: {"edits": [{"path": p, "line": 1, "search": "canary", "replace": "owned"}]},
    "fs.patch diff": lambda p: {"path": p, "diff": f"--- {p}\n+++ {p}\n@@ -1 +1 @@\n-canary\n+owned\n"},
    "fs.delete": lambda p: {"path": p},
    "fs.move": lambda p: {"path": p, "to": "taken.txt"},
    "fs.move to": lambda p: {"path": "lib/work.py", "to": p},
    "fs.transaction": lambda p: {
        "steps": [{"op": "write", "path": "half.txt", "text": "half"}, {"op": "write", "path": p, "text": "owned"}]
    },
    "fs.list": lambda p: {"path": p},
    "fs.search": lambda p: {"regex": "canary", "path": p},
    "fs.outline": lambda p: {"path": p},
    "git.diff": lambda p: {"path": p},
    "git.log": lambda p: {"path": p},
    "git.show": lambda p: {"revision": "HEAD", "path": p},
    "git.checkout": lambda p: {"path": p},
    "git.clone": lambda p: {"source": p, "path": "clone"},
    "git.clone to": lambda p: {"source": "lib", "path": p},
    "test.run": lambda p: {"edits": [{"path": p, "line": 1, "search": "canary", "replace": "owned"}]},
}

_WAYS_OUT: Final[tuple[tuple[str, str, Callable[[Target], str]], ...]] = (
    ("A1", "up", lambda t: "../" * 12 + t.outside.lstrip("/") + "/secret.txt"),
    ("A1", "down and up", lambda t: "lib/../" + "../" * 12 + t.outside.lstrip("/") + "/secret.txt"),
    ("A2", "absolute", lambda t: f"{t.outside}/secret.txt"),
    ("A2", "two slashes", lambda t: f"//{t.outside}/secret.txt"),
    ("A3", "sibling", lambda t: "../w1-evil/secret.txt"),
    ("A4", "link to a file", lambda t: "link.txt"),
    ("A4", "link to a folder", lambda t: "linked/secret.txt"),
    ("A5", "chain of links", lambda t: "chain40/secret.txt"),
    ("A5", "loop of links", lambda t: "loop/secret.txt"),
    ("A9", "root of a process", lambda t: f"/proc/self/root{t.outside}/secret.txt"),
    ("A9", "descriptor", lambda t: "/dev/fd/0"),
    ("A10", "NUL", lambda t: "lib/work.py\x00.txt"),
    ("A10", "newline", lambda t: "lib/work.py\nx"),
    ("A10", "lone surrogate", lambda t: "lib/\udc80"),
    ("A10", "long name", lambda t: "n" * 5000),
    ("A10", "deep", lambda t: "d/" * 300 + "x"),
    ("A12", "pipe", lambda t: "fifo"),
    ("A17", "history", lambda t: ".git/config"),
    ("A17", "history in capitals", lambda t: ".GIT/config"),
    ("A17", "history in wide letters", lambda t: ".ｇit/config"),
)
_CODES: Final[Mapping[str, tuple[str, ...]]] = {
    "A1": ("E_PATH",),
    "A2": ("E_PATH",),
    "A3": ("E_PATH",),
    "A4": ("E_SYMLINK",),
    "A5": ("E_SYMLINK",),
    "A9": ("E_PATH",),
    "A10": ("E_ARG",),
    "A12": ("E_TYPE",),
    "A17": ("E_PROTECTED",),
}


def _paths() -> Iterator[Attack]:
    for row, way, path in _WAYS_OUT:
        for tool, arguments in _TAKES_PATH.items():
            yield Attack(
                f"{row} {way}/{tool}",
                row,
                "paths",
                _role(tool),
                lambda t, tool=tool, path=path, arguments=arguments: order(tool.split()[0], arguments(path(t))),  # type: ignore[misc]  # mypy does not see the bound defaults
                frozenset(_CODES[row]) | _also(row, tool),
            )


def _also(row: str, tool: str) -> frozenset[str]:
    """Further codes of tools that see a path otherwise: history knows no links, and sources are named in their own way."""
    if tool == "git.clone to" and row == "A12":
        return frozenset(("E_PATH", "E_EXISTS"))
    if tool == "fs.patch diff" and row == "A10":
        return frozenset(("E_PATCH",))
    if tool == "git.clone":
        return frozenset(("E_PATH", "E_REF", "E_PROTO", "E_REPO", "E_ARG", "E_MISSING"))
    if tool in ("git.log", "git.diff", "git.show", "git.checkout") and row in ("A4", "A5", "A12"):
        return frozenset(("ok", "E_MISSING", "E_TYPE"))
    if tool in ("fs.list", "fs.search", "fs.outline") and row in ("A4", "A5", "A12"):
        return frozenset(("E_SYMLINK", "E_TYPE", "E_MISSING", "ok"))
    return frozenset()


def _role(tool: str) -> str:
    return "runner" if tool.startswith("test.") else "coder"


# --- what is in a file, or would be ----------------------------------------------------------------

_SECOND_NAMES: Final = {
    f"hard{n}.txt": tool
    for n, tool in enumerate(("fs.write", "fs.patch", "fs.patch diff", "fs.delete", "fs.transaction"))
}
"""One for each tool, because attacks come in any order and one that succeeds replaces or removes its name."""


def _files() -> Iterator[Attack]:
    for name, tool in _SECOND_NAMES.items():
        arguments = _TAKES_PATH[tool](name)
        codes = ("E_SYMLINK", "E_TYPE", "E_PATCH", "ok")  # a new file in the name's place is no effect outside
        yield one(
            "A8",
            f"second name of a file/{tool}",
            "paths",
            "coder",
            order(tool.split()[0], arguments),
            *codes,
            changes=True,
        )
    for path in ("~/.ssh/id_rsa", "$HOME/x", "%2e%2e/%2e%2e/x", "..\\..\\x", "．．/x"):
        yield one(
            "A11",
            f"literal {path!r}",
            "paths",
            "coder",
            order("fs.write", {"path": path, "text": "x"}),
            "ok",
            "E_PROTECTED",
            "E_PATH",
            changes=True,
        )
    yield one("A13", "a large file at once", "paths", "coder", order("fs.read", {"path": "sparse.bin"}), "E_SIZE")
    yield one(
        "A14",
        "regex without end",
        "paths",
        "coder",
        order("fs.search", {"regex": "(a+)+$", "path": "lib"}),
        "E_TIMEOUT",
        "E_ARG",
        "ok",
    )
    yield one("A15", "search through a link", "paths", "coder", order("fs.search", {"regex": "canary"}), "ok")
    diffs = {
        "header outside": "--- /etc/x\n+++ /etc/x\n@@ -0,0 +1 @@\n+owned\n",
        "rename outside": "diff --git a/lib/work.py b/../../x\nrename from lib/work.py\nrename to ../../x\n",
        "binary": "diff --git a/lib/work.py b/lib/work.py\nGIT binary patch\nliteral 3\nKcmZQzU|?tc00IC4\n",
        "hunks without end": "--- a/lib/work.py\n+++ b/lib/work.py\n" + "@@ -1 +1 @@\n-x\n+y\n" * 5000,
        "half": "--- a/lib/work.py\n+++ b/lib/work.py\n@@ -1,9 +1,9 @@\n-def",
    }
    for name, diff in diffs.items():
        yield one("A16", name, "paths", "coder", order("fs.patch", {"diff": diff}), "E_PATCH", "E_PATH")
    for path in (
        ".mcp.json",
        ".vscode/tasks.json",
        ".envrc",
        "conftest.py",
        "lib/sitecustomize.py",
        "x.pth",
        "tests/test_work.py",
        ".gitmodules",
    ):
        yield one(
            "A17",
            f"write {path}",
            "paths",
            "coder",
            order("fs.write", {"path": path, "text": "import os\n"}),
            "E_PROTECTED",
        )
    yield one(
        "A18",
        "more than the quota",
        "budgets",
        "coder",
        order("fs.transaction", {"steps": [{"op": "write", "path": f"many/{n}", "text": ""} for n in range(900)]}),
        "E_QUOTA",
    )


# --- the workspace as an earlier attacker left it ------------------------------------------------------


def lay(root: Path, target: Target) -> None:
    """Put links, a pipe, a second name of a file outside and a hostile ``.git`` into a workspace."""
    outside = Path(target.outside)
    (root / "link.txt").symlink_to(outside / "secret.txt")
    (root / "linked").symlink_to(outside)
    (root / "chain0").symlink_to(outside)
    for n in range(1, 41):
        (root / f"chain{n}").symlink_to(f"chain{n - 1}")
    (root / "loop").symlink_to("loop")
    os.mkfifo(root / "fifo")
    for name in _SECOND_NAMES:
        try:
            os.link(outside / "hard.txt", root / name)
        except OSError:  # another file system: then there is no such attack
            (root / name).write_text("canary\n", encoding="utf-8")
    with (root / "sparse.bin").open("wb") as file:
        file.truncate(2 * 2**20)
    (root / "lib" / "slow.txt").write_text("a" * 5000 + "!\n", encoding="utf-8")
    fire = f"touch {outside}/fired; false"
    hooks = root / ".git" / "hooks"
    hooks.mkdir(parents=True)
    config = (
        f'[core]\n\tfsmonitor = "{fire}"\n\tsshCommand = "{fire}"\n\tpager = "{fire}"\n\teditor = "{fire}"\n'
        f'[filter "evil"]\n\tclean = "{fire}"\n\tsmudge = "{fire}"\n[diff "evil"]\n\ttextconv = "{fire}"\n'
        f'[alias]\n\tstatus = "!{fire}"\n'
    )
    (root / ".git" / "config").write_text(config, encoding="utf-8")
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    (root / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n", encoding="utf-8")
    for name in ("pre-commit", "post-checkout", "post-commit", "post-index-change", "reference-transaction"):
        (hooks / name).write_text(f"#!/bin/sh\n{fire}\n", encoding="utf-8")
        (hooks / name).chmod(0o755)
