"""Bench ``fs-races``: names are swapped by another process while a file is read and written, time and again.

Contenders: ``apex``, the tool server ``fs``; ``apex, a step at a time``, the same where the kernel cannot confine;
``path strings``, which resolves the path, compares it with the root, and then opens it. An escape is a read that
returns the file outside, or a write that changes it. ``args.seconds`` is the time per race and contender.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

from ..interfaces import Capability, ToolCall, ToolResult
from ..plugins import load_plugins

SECONDS = 10.0
WRITTEN = "written\n"

Use = Callable[[Path, str, str | None], Awaitable[str]]
"""Read (None) or write a file of a root; what was read, empty when it was refused."""


def run(args: Any = None) -> Iterator[dict[str, object]]:
    """Rows of bench ``fs_races``: calls and escapes per race and contender."""
    from ..testing.swaps import RACES, Attack

    seconds = float(getattr(args, "seconds", None) or SECONDS)
    for case, race in RACES.items():
        for contender, use in _contenders().items():
            with tempfile.TemporaryDirectory() as folder, Attack(Path(folder), race) as attack:
                calls, passed, escapes = asyncio.run(_play(attack, use, seconds))
            yield _row(case, contender, "calls", calls, "")
            yield _row(case, contender, "not refused", passed, "")
            yield _row(case, contender, "escapes", escapes, "")


def _contenders() -> dict[str, Use]:
    make = load_plugins().catalog.make
    return {
        "apex": _tools(make("tool", "fs")),
        "apex, a step at a time": _tools(make("tool", "fs", openat2=False)),
        "path strings": _path_strings,
    }


async def _play(attack: Any, use: Use, seconds: float) -> tuple[int, int, int]:
    calls = passed = escapes = 0
    until = perf_counter() + seconds
    while perf_counter() < until:
        text = await use(attack.root, attack.race.path, None)
        passed += bool(text)
        escapes += attack.read(text)
        passed += bool(await use(attack.root, attack.race.path, WRITTEN))
        escapes += attack.written()
        calls += 2
    return calls, passed, escapes


def _tools(server: Any) -> Use:
    from ..testing.tool import FolderWorkspace

    async def use(root: Path, path: str, text: str | None) -> str:
        capability = Capability(FolderWorkspace(root), frozenset())
        more = {} if text is None else {"text": text}
        call = ToolCall("fs.read" if text is None else "fs.write", {"path": path, **more}, capability)
        result: ToolResult = await server.call(call)
        return str(result.value.get("text", WRITTEN)) if result.ok else ""

    return use


async def _path_strings(root: Path, path: str, text: str | None) -> str:
    return await asyncio.to_thread(_checked_then_opened, root, path, text)


def _checked_then_opened(root: Path, path: str, text: str | None) -> str:
    try:
        if not os.path.realpath(root / path).startswith(f"{os.path.realpath(root)}/"):
            return ""
        with open(root / path, "r" if text is None else "w") as file:
            if text is None:
                return file.read()
            file.write(text)
            return text
    except OSError:
        return ""


def _row(case: str, contender: str, metric: str, value: int, unit: str) -> dict[str, object]:
    return {"bench": "fs_races", "case": case, "contender": contender, "metric": metric, "value": value, "unit": unit}
