"""One outside server at work: started, pinned, called, and started again a few times when it dies."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import mcp_types as types
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from apex_framework.errors import EnvironmentProblem
from apex_framework.interfaces import ToolResult

from .bodies import bounded_client
from .foreign import MOST_TOOLS, as_result, hash_of, pin_of, plain
from .process import Trouble, process_streams
from .servers_file import OutsideServer

E_TOOL_DIED: Final = "E_TOOL_DIED"
"""The server ended, or could not be understood, before it answered: whether the call had an effect is not known."""
E_TOOL_CHANGED: Final = "E_TOOL_CHANGED"
"""What the server says of a tool is no longer what it said at the start."""
E_TIMEOUT: Final = "E_TIMEOUT"
STARTS: Final = 3
"""Starts within WINDOW_S, the first one not counted, after which a server that dies is left alone."""
WINDOW_S: Final = 60.0
PAGES: Final = 20
"""Pages of a list of tools that are read."""
_REMEDY: Final = {
    "command": "start its command by hand: it has to speak MCP on stdin and stdout",
    "url": "see that its url answers, and that headers hold what it wants",
}

_log = logging.getLogger(__name__)


class LeftAlone(Exception):
    """The server died too often."""


class Link:
    """A connection to one server. All methods belong to one event loop; ``open`` is its first call."""

    def __init__(self, server: OutsideServer, *, now: Callable[[], float] = time.monotonic) -> None:
        self.server = server
        self.tools: tuple[types.Tool, ...] = ()
        """As they were at the start."""
        self.pin = ""
        self._now = now
        self._hashes: dict[str, str] = {}
        self._client: Client | None = None
        self._trouble = Trouble()
        self._gone = asyncio.Event()
        self._gone.set()
        self._leave = asyncio.Event()
        self._lock = asyncio.Lock()
        self._starts: deque[float] = deque()
        self._group: asyncio.TaskGroup | None = None
        self._task: asyncio.Task[None] | None = None

    async def open(self, group: asyncio.TaskGroup) -> None:
        """Start the server and pin its tools. Raises EnvironmentProblem, one line."""
        self._group = group
        name = f"MCP server {self.server.name!r}"
        try:
            async with asyncio.timeout(self.server.start_s):
                client = await self._connected()
                self.tools = tuple(await _listed(client))
        except TimeoutError:
            await self.close()
            raise EnvironmentProblem(f"{name}: no list of tools within {self.server.start_s:g} s") from None
        except Exception as error:
            await self.close()
            remedy = _REMEDY["url" if self.server.url else "command"]
            raise EnvironmentProblem(f"{name} cannot be used: {self._why(error)}", remedy) from error
        self._hashes = {tool.name: hash_of(tool) for tool in self.tools}
        self.pin = pin_of(self.tools)
        if self.server.pin and self.server.pin != self.pin:
            await self.close()
            raise EnvironmentProblem(
                f"{name} has other tools than those that were pinned (E_TOOL_CHANGED)",
                f"look at them with `apex mcp tools FILE`; their hash is now {self.pin}",
            )

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        deadline_s: float,
        progress: Callable[[float, str], None] | None = None,
    ) -> ToolResult:
        """One call; whatever goes wrong is a result."""
        limit = min(deadline_s, self.server.timeout_s)
        try:
            async with asyncio.timeout(limit):
                return await self._called(tool, arguments, progress)
        except TimeoutError:
            return ToolResult(False, error=E_TIMEOUT, detail=f"{self.server.name}: no answer within {limit:g} s")
        except MCPError as error:
            if error.code == types.CONNECTION_CLOSED or self._gone.is_set():
                return self._died(error)
            detail = f"{self.server.name} refuses: {plain(error.message, 500)} ({error.code})"
            return ToolResult(False, error="E_ARG" if error.code == types.INVALID_PARAMS else "E_TOOL", detail=detail)
        except Exception as error:  # noqa: BLE001 - a foreign server's edge: whatever it does is a failed call
            return self._died(error)

    async def close(self) -> None:
        """End the connection and the server; idempotent."""
        self._leave.set()
        if self._client is None and self._task is not None:
            self._task.cancel()  # it is still connecting, and would not look at ``_leave``
        await self._gone.wait()

    # --- calls ----------------------------------------------------------------------------------

    async def _called(
        self, tool: str, arguments: dict[str, Any], report: Callable[[float, str], None] | None
    ) -> ToolResult:
        client = await self._connected()
        if changed := await self._changed(client, tool):
            return ToolResult(False, error=E_TOOL_CHANGED, detail=changed)

        async def told(progress: float, total: float | None, message: str | None) -> None:
            if report is not None:
                report(progress / total if total else 0.0, plain(message or "", 200))

        # Not Client.call_tool: it matches results against the server's own output schema, whose patterns may hang.
        given = await client.session.send_request(
            types.CallToolRequest(params=types.CallToolRequestParams(name=tool, arguments=arguments)),
            types.CallToolResult,
            progress_callback=told if report is not None else None,
        )
        return as_result(self.server, given)

    async def _changed(self, client: Client, tool: str) -> str:
        """How a tool differs from what it was at the start; asked before every call, and empty when it does not."""
        now = {found.name: hash_of(found) for found in await _listed(client)}
        if now.get(tool) == self._hashes.get(tool):
            return ""
        what = "describes it otherwise" if tool in now else "no longer has it"
        return f"{self.server.name}.{tool}: the server {what}: start anew to look at it"

    def _died(self, error: BaseException) -> ToolResult:
        self._leave.set()
        return ToolResult(False, error=E_TOOL_DIED, detail=f"{self.server.name}: {self._why(error)}")

    def _why(self, error: BaseException) -> str:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, ValidationError):
            return f"what it sent is no {error.title}"
        if isinstance(error, LeftAlone):
            return str(error)
        if self._trouble.cause or self._trouble.said:
            return str(self._trouble)
        return plain(" ".join(f"{type(error).__name__}: {error}".split()), 300)

    # --- the connection -------------------------------------------------------------------------

    async def _connected(self) -> Client:
        async with self._lock:
            if self._client is not None and not self._leave.is_set():
                return self._client
            await self._gone.wait()
            now = self._now()
            while self._starts and now - self._starts[0] > WINDOW_S:
                self._starts.popleft()
            if len(self._starts) > STARTS:
                raise LeftAlone(f"it died {STARTS} times within {WINDOW_S:g} s and is left alone")
            self._starts.append(now)
            assert self._group is not None
            ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
            self._trouble, self._leave = Trouble(), asyncio.Event()
            self._gone.clear()
            self._task = self._group.create_task(self._keep(ready))
            return await asyncio.shield(ready)

    async def _keep(self, ready: asyncio.Future[Client]) -> None:
        """Own the connection from its start to its end: the SDK's scopes must be left by the task that entered them."""
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self.server.start_s):
                    client = await stack.enter_async_context(self._connection())
                self._client = client
                if not ready.done():
                    ready.set_result(client)
                await self._leave.wait()
        except Exception as error:  # noqa: BLE001 - a foreign server's edge: its end must not end the others
            if ready.done():
                _log.warning("MCP server %s: %s", self.server.name, self._why(error))
            else:
                ready.set_exception(error)
                ready.exception()  # the one who waited may have left: then nobody else looks at it
        finally:
            if not ready.done():
                ready.cancel()
            self._client = None
            self._leave.set()
            self._gone.set()

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Client]:
        server = self.server
        async with AsyncExitStack() as stack:
            if server.url:
                web = await stack.enter_async_context(bounded_client(dict(server.headers)))
                transport = streamable_http_client(server.url, http_client=web)
            else:
                transport = process_streams(server, self._trouble)
            client = Client(transport, cache=None, input_required_max_rounds=1)
            yield await stack.enter_async_context(client)


async def _listed(client: Client) -> list[types.Tool]:
    found: list[types.Tool] = []
    cursor: str | None = None
    for _ in range(PAGES):
        params = types.PaginatedRequestParams(cursor=cursor) if cursor is not None else None
        page = await client.session.list_tools(params=params)
        found += page.tools
        cursor = page.next_cursor
        if len(found) > MOST_TOOLS:
            raise ValueError(f"it has more than {MOST_TOOLS} tools")
        if cursor is None:
            break
    else:
        raise ValueError(f"its list of tools has more than {PAGES} pages")
    names = [tool.name for tool in found]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"it has two tools {plain(twice, 80)!r} (E_DUP)")
    return found
