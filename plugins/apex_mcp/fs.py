"""The ``fs`` tool server: files of the workspace, reached through the gate."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from apex_framework.interfaces import ToolCall, ToolResult, ToolSpec
from apex_framework.ports import Effects, RealEffects

from . import quota, reading, writing
from .files import Files, as_bytes, readable, text_of, writable
from .gate import Gate, Put
from .names import split
from .patching import apply_diff
from .refusal import Refused
from .search import search

__all__ = ["COST_S", "TOOLS", "Files", "FsServer"]

T = TypeVar("T")

COST_S = 0.001
"""Declared duration of a file operation."""


def _schema(required: str = "", **properties: str) -> dict[str, Any]:
    kinds = {name: {"type": kind} for name, kind in properties.items()}
    return {"type": "object", "properties": kinds, "required": required.split(), "additionalProperties": False}


TOOLS = (
    ToolSpec(
        "fs.read",
        "Text of a file, or its lines start..end (1-based, inclusive), or a page: limit lines from start, or length bytes"
        " from offset of a file of any size. Where more follows a page, next is where to go on.",
        _schema(
            "path", path="string", start="integer", end="integer", limit="integer", offset="integer", length="integer"
        ),
    ),
    ToolSpec(
        "fs.write", "Give a file a new content, at once or not at all.", _schema("path text", path="string", text="string"),
        read_only=False, destructive=True, idempotent=True,
    ),
    ToolSpec(
        "fs.patch",
        "Apply search/replace edits [{path, line, search, replace}] or a unified diff to one or more files: all or nothing.",
        _schema(path="string", diff="string", edits="array"), read_only=False, destructive=True,
    ),
    ToolSpec(
        "fs.search", "Lines that match a regular expression, below a folder if path is given. More with after=next.",
        _schema("regex", regex="string", glob="string", path="string", after="string"),
    ),
    ToolSpec(
        "fs.list", "Paths of the files, below a folder if path is given. More with after=next.",
        _schema(glob="string", path="string", after="string", limit="integer"),
    ),
    ToolSpec(
        "fs.outline", "Functions with their first and last lines; without a path, of all files but tests.",
        _schema(path="string", after="string"),
    ),
    ToolSpec("fs.delete", "Remove a file.", _schema("path", path="string"), read_only=False, destructive=True),
    ToolSpec(
        "fs.move", "Give a file another name, which must be free.", _schema("path to", path="string", to="string"),
        read_only=False, destructive=True,
    ),
    ToolSpec(
        "fs.transaction",
        "Several steps, all or nothing, each seeing those before: {op: write, path, text}, {op: patch, edits or diff},"
        " {op: delete, path}, {op: move, path, to}.",
        _schema("steps", steps="array"), read_only=False, destructive=True,
    ),
)  # fmt: skip

Work = Callable[[Files, Mapping[str, Any], float], dict[str, Any]]
_LOOKS: Mapping[str, Work] = {
    "fs.read": reading.read,
    "fs.search": reading.look,
    "fs.list": reading.listing,
    "fs.outline": reading.outline,
}
_CHANGES: Mapping[str, Work] = {
    "fs.write": writing.write,
    "fs.patch": writing.patch,
    "fs.delete": writing.delete,
    "fs.move": writing.move,
    "fs.transaction": writing.transaction,
}


class FsServer:
    """Tools over ``call.capability.workspace``; ``root`` is only for the methods that take no workspace.

    ``quota_bytes`` and ``quota_files`` bound what calls may add to a workspace; ``spec`` is their text form. ``openat2``
    False goes one component at a time although the kernel could confine by itself.
    """

    tools = TOOLS

    def __init__(
        self,
        *,
        effects: Effects | None = None,
        root: Path | str | None = None,
        quota_bytes: int = quota.BYTES,
        quota_files: int = quota.FILES,
        openat2: bool | None = None,
        spec: str = "",
    ) -> None:
        self._effects = effects or RealEffects()
        self._root = Path(root) if root is not None else None
        self._quota = quota.quota_of(spec, quota_bytes, quota_files)
        self._kernel = openat2

    async def call(self, call: ToolCall) -> ToolResult:
        """Run one tool; refusals are results."""
        work = _LOOKS.get(call.tool) or _CHANGES.get(call.tool)
        if work is None:
            return ToolResult(False, error="E_TOOL", detail=f"no tool {call.tool!r}")
        alone = call.tool in _CHANGES

        def run() -> ToolResult:
            workspace = call.capability.workspace
            try:
                with Files(workspace, alone=alone, quota=self._quota, kernel=self._kernel) as files:
                    return ToolResult(True, work(files, call.arguments, call.deadline_s))
            except Refused as refusal:
                return ToolResult(False, error=refusal.code, detail=refusal.detail)

        return await self._effects.run(run, cost=lambda _: COST_S)

    async def close(self) -> None:
        """Nothing is held between calls."""

    async def read_file(self, path: str) -> bytes:
        """A file below ``root``. Raises Refused."""
        return await self._rooted(lambda g: g.read(readable(path)))

    async def write_file(self, path: str, data: bytes) -> None:
        """Replace a file below ``root`` atomically. Raises Refused."""
        await self._rooted(lambda g: g.change({writable(path, frozenset()): Put(data)}))

    async def patch_file(self, path: str, diff: str) -> None:
        """Apply a unified diff of one file below ``root``. Raises Refused."""

        def work(g: Gate) -> None:
            parts = writable(path, frozenset())
            changes = apply_diff(diff, lambda p: text_of(g, split(p)))
            if set(changes) != {"/".join(parts)}:
                raise Refused("E_PATCH", f"the diff is not of {path}")
            text = changes["/".join(parts)]
            g.change({parts: None if text is None else Put(as_bytes(text))})

        await self._rooted(work)

    async def search_files(self, root: str, regex: str) -> list[str]:
        """Paths of files below the folder ``root`` (relative; ``.`` is all) with a matching line. Raises Refused."""

        def work(g: Gate) -> list[str]:
            prefix = "".join(f"{p}/" for p in split(root))
            texts: dict[str, str] = {}
            for path in g.files():
                if path.startswith(prefix):
                    with contextlib.suppress(Refused):  # binary, too large, or swapped meanwhile: not searched
                        texts[path] = text_of(g, split(path)) or ""
            return list(dict.fromkeys(path for path, _, _ in search(regex, texts)))

        return await self._rooted(work)

    async def _rooted(self, work: Callable[[Gate], T]) -> T:
        root = self._root
        if root is None:
            raise Refused("E_ARG", "this server was made without a root")

        def run() -> T:
            with Gate(root, kernel=self._kernel) as g:
                g.lock(alone=True)
                return work(g)

        return await self._effects.run(run, cost=lambda _: COST_S)
