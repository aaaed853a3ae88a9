"""The ``fs`` tool server: files of the workspace, reached through the gate."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from apex_framework.interfaces import RunsTests, ToolCall, ToolResult, ToolSpec, Workspace
from apex_framework.ports import Effects, RealEffects

from . import gate
from .outline import functions_in
from .patching import apply_diff, apply_edits, edits_from
from .refusal import Refused, argument, only
from .search import MOST_HITS, search

T = TypeVar("T")

COST_S = 0.001
"""Declared duration of a file operation."""


def _schema(required: str = "", **properties: str) -> dict[str, Any]:
    kinds = {name: {"type": kind} for name, kind in properties.items()}
    return {"type": "object", "properties": kinds, "required": required.split(), "additionalProperties": False}


TOOLS = (
    ToolSpec(
        "fs.read",
        "Text of a file, or its lines start..end (1-based, inclusive).",
        _schema("path", path="string", start="integer", end="integer"),
    ),
    ToolSpec(
        "fs.write", "Give a file a new content, at once or not at all.", _schema("path text", path="string", text="string"),
        read_only=False, destructive=True,
    ),
    ToolSpec(
        "fs.patch",
        "Apply search/replace edits [{path, line, search, replace}] or a unified diff to one or more files: all or nothing.",
        _schema(path="string", diff="string", edits="array"), read_only=False, destructive=True,
    ),
    ToolSpec("fs.search", "Lines that match a regular expression.", _schema("regex", regex="string", glob="string")),
    ToolSpec("fs.list", "Paths of the files.", _schema(glob="string")),
    ToolSpec(
        "fs.outline", "Functions with their first and last lines; without a path, of all files but tests.",
        _schema(path="string"),
    ),
)  # fmt: skip


class FsServer:
    """Tools over ``call.capability.workspace``; ``root`` is only for the methods that take no workspace."""

    tools = TOOLS

    def __init__(self, *, effects: Effects | None = None, root: Path | str | None = None) -> None:
        self._effects = effects or RealEffects()
        self._root = Path(root) if root is not None else None
        self._work: dict[str, Callable[[Files, Mapping[str, Any]], dict[str, Any]]] = {
            "fs.read": _read,
            "fs.write": _write,
            "fs.patch": _patch,
            "fs.search": _search,
            "fs.list": _list,
            "fs.outline": _outline,
        }

    async def call(self, call: ToolCall) -> ToolResult:
        """Run one tool; refusals are results."""
        work = self._work.get(call.tool)
        if work is None:
            return ToolResult(False, error="E_TOOL", detail=f"no tool {call.tool!r}")

        def run() -> ToolResult:
            try:
                with Files(call.capability.workspace) as files:
                    return ToolResult(True, work(files, call.arguments))
            except Refused as refusal:
                return ToolResult(False, error=refusal.code, detail=refusal.detail)

        return await self._effects.run(run, cost=lambda _: COST_S)

    async def close(self) -> None:
        """Nothing is held between calls."""

    async def read_file(self, path: str) -> bytes:
        """A file below ``root``. Raises Refused."""
        return await self._rooted(lambda g: g.read(_readable(path)))

    async def write_file(self, path: str, data: bytes) -> None:
        """Replace a file below ``root`` atomically. Raises Refused."""
        await self._rooted(lambda g: g.replace_all({_writable(path, frozenset()): data}))

    async def patch_file(self, path: str, diff: str) -> None:
        """Apply a unified diff of one file below ``root``. Raises Refused."""

        def work(g: gate.Gate) -> None:
            parts = _writable(path, frozenset())
            changes = apply_diff(diff, lambda p: _text(g, gate.split(p)))
            if set(changes) != {"/".join(parts)}:
                raise Refused("E_PATCH", f"the diff is not of {path}")
            g.replace_all({parts: _bytes(changes["/".join(parts)])})

        await self._rooted(work)

    async def search_files(self, root: str, regex: str) -> list[str]:
        """Paths of files below the folder ``root`` (relative; ``.`` is all) with a matching line. Raises Refused."""

        def work(g: gate.Gate) -> list[str]:
            prefix = "".join(f"{p}/" for p in gate.split(root))
            return list(dict.fromkeys(path for path, _, _ in search(regex, _texts(g, lambda p: p.startswith(prefix)))))

        return await self._rooted(work)

    async def _rooted(self, work: Callable[[gate.Gate], T]) -> T:
        root = self._root
        if root is None:
            raise Refused("E_ARG", "this server was made without a root")

        def run() -> T:
            with gate.Gate(root) as g:
                return work(g)

        return await self._effects.run(run, cost=lambda _: COST_S)


class Files:
    """A workspace's files during one call."""

    def __init__(self, workspace: Workspace) -> None:
        self._gate = gate.Gate(workspace.root)
        tests = workspace.discover() if isinstance(workspace, RunsTests) else ()
        self.test_files = frozenset(test.partition("::")[0] for test in tests)

    def __enter__(self) -> Files:
        return self

    def __exit__(self, *_: object) -> None:
        self._gate.__exit__()

    def text(self, path: str) -> str | None:
        """Text of a file, None where there is none. Raises Refused."""
        return _text(self._gate, _readable(path))

    def texts(self, wanted: Callable[[str], bool]) -> dict[str, str]:
        """Text of every text file that is wanted."""
        return _texts(self._gate, wanted)

    def paths(self) -> list[str]:
        """Every path, in order."""
        return list(self._gate.files())

    def check(self, path: str) -> tuple[str, ...]:
        """Components of a path that agents may change. Raises Refused."""
        return _writable(path, self.test_files)

    def replace(self, changes: Mapping[str, str | None]) -> None:
        """All or none. Raises Refused."""
        self._gate.replace_all({self.check(path): _bytes(text) for path, text in changes.items()})


def _readable(path: str) -> tuple[str, ...]:
    parts = gate.split(path)
    gate.check_readable(parts)
    return parts


def _writable(path: str, read_only: frozenset[str]) -> tuple[str, ...]:
    parts = gate.split(path)
    if not parts:
        raise Refused("E_PATH", "the workspace itself is not a file")
    gate.check_writable(parts, read_only)
    return parts


def _bytes(text: str | None) -> bytes | None:
    try:
        return None if text is None else text.encode()
    except UnicodeEncodeError:
        raise Refused("E_ARG", "the text is not valid Unicode") from None


def _text(g: gate.Gate, parts: tuple[str, ...]) -> str | None:
    try:
        return g.read(parts).decode()
    except UnicodeDecodeError:
        raise Refused("E_TYPE", f"{'/'.join(parts)} is not UTF-8 text") from None
    except Refused as refusal:
        if refusal.code == "E_MISSING":
            return None
        raise


def _texts(g: gate.Gate, wanted: Callable[[str], bool]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for path in g.files():
        if wanted(path):
            try:
                texts[path] = _text(g, gate.split(path)) or ""
            except Refused:
                continue  # binary, too large, or swapped meanwhile: not searched
    return texts


def _glob(arguments: Mapping[str, Any]) -> Callable[[str], bool]:
    pattern = argument(arguments, "glob", str, "*")
    return lambda path: fnmatch.fnmatchcase(path, pattern)


def _read(files: Files, arguments: Mapping[str, Any]) -> dict[str, Any]:
    only(arguments, "path", "start", "end")
    path = argument(arguments, "path", str)
    text = files.text(path)
    if text is None:
        raise Refused("E_MISSING", f"no {path}")
    lines = text.split("\n")
    total = len(lines) - (lines[-1] == "")
    if "start" not in arguments and "end" not in arguments:
        return {"path": path, "text": text, "start": 1, "end": total, "lines": total}
    start, end = argument(arguments, "start", int, 1), argument(arguments, "end", int, total)
    if start < 1 or end < start:
        raise Refused("E_ARG", "lines are counted from 1, and end is not before start")
    return {
        "path": path,
        "text": "\n".join(lines[start - 1 : min(end, total)]),
        "start": start,
        "end": min(end, total),
        "lines": total,
    }


def _write(files: Files, arguments: Mapping[str, Any]) -> dict[str, Any]:
    only(arguments, "path", "text")
    path, text = argument(arguments, "path", str), argument(arguments, "text", str)
    files.replace({path: text})
    return {"paths": ["/".join(files.check(path))]}


def _patch(files: Files, arguments: Mapping[str, Any]) -> dict[str, Any]:
    only(arguments, "path", "diff", "edits")
    if ("diff" in arguments) == ("edits" in arguments):
        raise Refused("E_ARG", "give either diff or edits")
    path = argument(arguments, "path", str, "")
    if "edits" in arguments:
        edits = edits_from(argument(arguments, "edits", list), path)
        for edit in edits:
            files.check(edit.path)
        changes: Mapping[str, str | None] = apply_edits(edits, files.text)
    else:
        changes = apply_diff(argument(arguments, "diff", str), lambda p: files.text("/".join(files.check(p))))
        if path and set(changes) != {path}:
            raise Refused("E_PATCH", f"the diff is not of {path} alone")
    files.replace(changes)
    return {"paths": sorted(changes)}


def _search(files: Files, arguments: Mapping[str, Any]) -> dict[str, Any]:
    only(arguments, "regex", "glob")
    hits = search(argument(arguments, "regex", str), files.texts(_glob(arguments)))
    found = [{"path": path, "line": line, "text": text} for path, line, text in hits[:MOST_HITS]]
    return {"hits": found, "partial": len(hits) > MOST_HITS}


def _list(files: Files, arguments: Mapping[str, Any]) -> dict[str, Any]:
    only(arguments, "glob")
    wanted = _glob(arguments)
    paths = files.paths()
    return {"paths": [p for p in paths if wanted(p)], "partial": len(paths) >= gate.MOST_FILES}


def _outline(files: Files, arguments: Mapping[str, Any]) -> dict[str, Any]:
    only(arguments, "path")
    path = argument(arguments, "path", str, "")
    if path:
        text = files.text(path)
        if text is None:
            raise Refused("E_MISSING", f"no {path}")
        texts = {path: text}
    else:
        texts = files.texts(lambda p: p.endswith(".py") and p not in files.test_files)
    found = [
        {"path": p, "name": name, "first": first, "last": last}
        for p, text in texts.items()
        for name, first, last in functions_in(text)
    ]
    return {"functions": found}
