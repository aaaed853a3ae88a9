"""What a tool call costs an outside host: over stdio and HTTP, in both eras of the protocol, beside the SDK's own server.

Every case is the same reading of a 4 KB file by the official client. ``apex`` is `apex mcp serve fs`, ``mcp`` a server of
the SDK's that reads the file without a question, and ``door`` the same call in this process, without any protocol. The
contenders take turns, and ``added`` is what a way takes beyond the door in the same turn. Needs the extra [mcp].
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from time import perf_counter_ns
from typing import Any, Final

from ..errors import MissingExtraError
from ..interfaces import Capability
from ..ports import SystemClock
from ..services import ToolService
from .paired import at

CALLS: Final = 300
WARM_UP: Final = 30
TURNS: Final = 16
"""Arguments that take turns: thousands of the same call would be taken for a loop."""
LIMIT_MS: Final = 3.0
"""What stdio may add to a call through the door, at the median."""
BASE: Final = ("in the process", "door")
ERAS: Final = {"2026": "auto", "handshake": "legacy"}

_PEER: Final = """
import sys
from mcp.server import MCPServer
server = MCPServer("peer")
@server.tool()
def fs_read(path: str, start: int, end: int) -> dict[str, str]:
    with open(sys.argv[1] + "/" + path) as file:
        return {"text": "".join(file.readlines()[start - 1 : end])}
server.run("stdio")
"""

Call = Callable[[dict[str, Any]], Awaitable[Any]]


def run(args: Any = None) -> Iterator[dict[str, object]]:
    """Rows of bench ``mcp``: milliseconds per call. ``args.n`` is the number of calls of each contender."""
    calls = max(10, int(getattr(args, "n", None) or CALLS))
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "sample.py").write_text("x = 1  # sixteen\n" * 256)
        took = asyncio.run(_measured(Path(place), calls))
    door = took[BASE]
    for (case, contender), ms in took.items():
        yield _row(case, contender, "call p50", at(ms, 50))
        yield _row(case, contender, "call p99", at(ms, 99))
        if (case, contender) != BASE:
            yield _row(
                case, contender, "added p50", at([theirs - ours for theirs, ours in zip(ms, door, strict=True)], 50)
            )


def _row(case: str, contender: str, metric: str, ms: float) -> dict[str, object]:
    row: dict[str, object] = {"bench": "mcp", "case": case, "contender": contender, "metric": metric}
    return {**row, "value": round(ms, 3), "unit": "ms"}


async def _measured(root: Path, calls: int) -> dict[tuple[str, str], list[float]]:
    async with AsyncExitStack() as stack:
        ways = await _ways(stack, root)
        took: dict[tuple[str, str], list[float]] = {way: [] for way in ways}
        for n in range(WARM_UP + calls):
            arguments = {"path": "sample.py", "start": 1, "end": 256 - n % TURNS}
            for way, call in ways.items():
                began = perf_counter_ns()
                await call(arguments)
                if n >= WARM_UP:
                    took[way].append((perf_counter_ns() - began) / 1e6)
    return took


async def _ways(stack: AsyncExitStack, root: Path) -> dict[tuple[str, str], Call]:
    try:
        from mcp import Client, StdioServerParameters
        from mcp.client.streamable_http import streamable_http_client
        from mcp.shared._httpx_utils import create_mcp_http_client
    except ImportError as error:
        raise MissingExtraError("bench mcp", "mcp", error.name or "") from error
    ways: dict[tuple[str, str], Call] = {BASE: _door(root)}
    serve = ["-m", "apex_framework", "mcp", "serve", "fs", "--root", str(root)]
    url, token = await _http(stack, serve, root)
    for era, mode in ERAS.items():
        for contender, argv in (("apex", serve), ("mcp", ["-c", _PEER, str(root)])):
            there = StdioServerParameters(command=sys.executable, args=argv)
            ways[f"stdio {era}", contender] = _of(await stack.enter_async_context(Client(there, mode=mode)))
        web = await stack.enter_async_context(create_mcp_http_client(headers={"authorization": f"Bearer {token}"}))
        over = streamable_http_client(url, http_client=web)
        ways[f"http {era}", "apex"] = _of(await stack.enter_async_context(Client(over, mode=mode)))
    return ways


def _of(client: Any) -> Call:
    async def call(arguments: dict[str, Any]) -> None:
        result = await client.call_tool("fs_read", arguments)
        assert not result.is_error, result

    return call


def _door(root: Path) -> Call:
    from ..plugins import load_plugins
    from ..testing.tool import FolderWorkspace

    service = ToolService({"fs": load_plugins().catalog.make("tool", "fs")}, clock=SystemClock())
    capability = Capability(FolderWorkspace(root), frozenset({"fs.read"}), "host", "host")

    async def call(arguments: dict[str, Any]) -> None:
        result = await service.use(capability, "fs.read", arguments)
        assert result.ok, result

    return call


async def _http(stack: AsyncExitStack, serve: list[str], root: Path) -> tuple[str, str]:
    file, token = root.parent / f"{root.name}.token", os.urandom(16).hex()
    file.touch(0o600)
    file.write_text(token)
    stack.callback(file.unlink)
    argv = [*serve, "--http", "127.0.0.1:0", "--token-file", str(file)]
    process = await asyncio.create_subprocess_exec(sys.executable, *argv, stderr=asyncio.subprocess.PIPE)

    async def end() -> None:
        process.terminate()
        await process.wait()

    stack.push_async_callback(end)
    assert process.stderr is not None
    return (await process.stderr.readline()).decode().strip(), token
