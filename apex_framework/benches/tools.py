"""What the door to tools costs: the same call straight to its server and through the door, in turns.

Case ``no-op`` is a tool that does nothing, so that the difference is the door alone: capability, schema, log row, digests.
Case ``fs.read`` reads a file of 4 KB, in the loop's own thread, so that no thread's waking is measured. Further ways to the same tools (a pipe, a socket) add their case to ``CASES``.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from time import perf_counter_ns
from typing import Any, Final, TypeVar

from ..interfaces import Capability, ToolCall, ToolResult, ToolServer, ToolSpec
from ..ports import SystemClock
from ..services import DoorSettings, ToolService
from .paired import at

CALLS: Final = 2_000
WARM_UP: Final = 200
TURNS: Final = 16
"""Arguments that take turns."""
LIMIT_US: Final = 100.0
"""What the door may add to a call, at the median."""

T = TypeVar("T")
Call = Callable[[], Awaitable[ToolResult]]
Ways = Callable[[Path], Iterator[tuple[str, Call]]]


def run(args: Any = None) -> Iterator[dict[str, object]]:
    """Rows of bench ``tools``: microseconds per call, bare and through the door, and what the door adds.

    ``args.n`` is the number of calls per way.
    """
    calls = max(10, int(getattr(args, "n", None) or CALLS))
    with tempfile.TemporaryDirectory() as place:
        for case, ways in CASES.items():
            took = asyncio.run(_measured(list(ways(Path(place))), calls))
            for contender, us in took.items():
                for metric, percent in (("p50", 50), ("p99", 99)):
                    yield _row(case, contender, f"call {metric}", round(at(us, percent), 2))
            added = [ours - bare for ours, bare in zip(took["apex"], took["bare"], strict=True)]
            yield _row(case, "apex", "added p50", round(at(added, 50), 2))


def _row(case: str, contender: str, metric: str, value: float) -> dict[str, object]:
    return {"bench": "tools", "case": case, "contender": contender, "metric": metric, "value": value, "unit": "us"}


async def _measured(ways: list[tuple[str, Call]], calls: int) -> dict[str, list[float]]:
    """Way -> microseconds of each call; the ways take turns, so that load falls on all of them alike."""
    took: dict[str, list[float]] = {name: [] for name, _ in ways}
    for n in range(WARM_UP + calls):
        for name, call in ways:
            began = perf_counter_ns()
            result = await call()
            us = (perf_counter_ns() - began) / 1000
            assert result.ok, result
            if n >= WARM_UP:
                took[name].append(us)
    return took


def _both(server: ToolServer, root: Path, tool: str, arguments: Callable[[int], Any]) -> Iterator[tuple[str, Call]]:
    from ..testing.tool import FolderWorkspace

    capability = Capability(FolderWorkspace(root), frozenset({tool}), "coder", "coder")
    door = ToolService({"x": server}, clock=SystemClock(), settings=DoorSettings())
    # The arguments change, for the door would take thousands of the same call for the loop that they are.
    bare, ours = itertools.count(), itertools.count()
    yield "bare", lambda: server.call(ToolCall(tool, arguments(next(bare) % TURNS), capability))
    yield "apex", lambda: door.use(capability, tool, arguments(next(ours) % TURNS), episode_id="bench")


def _no_op(place: Path) -> Iterator[tuple[str, Call]]:
    return _both(_Nothing(), place, "x.nothing", lambda n: {"path": "src/module.py", "line": n})


def _read(place: Path) -> Iterator[tuple[str, Call]]:
    from ..plugins import load_plugins

    (place / "sample.py").write_text("x = 1  # sixteen\n" * 256)
    server = load_plugins().catalog.make("tool", "fs", effects=_Inline())
    return _both(server, place, "fs.read", lambda n: {"path": "sample.py", "start": 1, "end": 256 - n})


CASES: Final[dict[str, Ways]] = {"no-op": _no_op, "fs.read 4 KB": _read}
"""Case -> its ways to one call: ``bare``, ``apex``, and any others, in the order in which they take turns."""


class _Inline:
    """Effects in the loop's own thread: how long a thread takes to wake varies by more than what is measured."""

    async def run(self, work: Callable[[], T], *, cost: Callable[[T], float]) -> T:
        return work()


class _Nothing:
    """A server whose tool does nothing."""

    tools = (
        ToolSpec(
            "x.nothing",
            "",
            {
                "type": "object",
                "properties": {"path": {"type": "string"}, "line": {"type": "integer"}},
                "required": ["path"],
                "additionalProperties": False,
            },
        ),
    )

    async def call(self, call: ToolCall) -> ToolResult:
        return ToolResult(True, {"ok": True})

    async def close(self) -> None:
        """Nothing is held."""
