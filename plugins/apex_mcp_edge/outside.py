"""The tool server ``mcp``: outside MCP servers of an operator's file, as tools behind the one door."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import logging
import os
import threading
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from apex_framework.errors import ConfigError, EnvironmentProblem
from apex_framework.interfaces import ToolCall, ToolResult, ToolSpec
from apex_framework.ports import Effects, RealEffects

from .foreign import spec_of
from .link import E_TIMEOUT, Link
from .servers_file import OutsideServer, read_servers

T = TypeVar("T")

COST_S: Final = 0.05
"""Declared duration of a call."""
GRACE_S: Final = 5.0
"""Seconds beyond a deadline after which a call is given up even if the connections' own loop does not answer."""
ARGUMENT_BYTES: Final = 1024**2

_log = logging.getLogger(__name__)


class OutsideTools:
    """Starts every server of the file and pins its tools. Raises ConfigError, EnvironmentProblem.

    The connections live on an event loop of their own, in a thread: an episode's loop may run on virtual time.
    """

    def __init__(self, *, spec: str = "", effects: Effects | None = None) -> None:
        if not spec:
            raise ConfigError("tool server 'mcp' needs a file of servers", "--set mcp_servers=FILE")
        self._file = Path(os.path.realpath(spec))
        servers = read_servers(self._file)
        self._effects = effects or RealEffects()
        self._loop = asyncio.new_event_loop()
        self._links: dict[str, Link] = {}
        self._stop: asyncio.Event | None = None
        opened: concurrent.futures.Future[dict[str, Link]] = concurrent.futures.Future()

        def work() -> None:
            try:
                with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                    runner.run(self._main(servers, opened))
            except BaseException as error:  # noqa: BLE001 - a thread's edge: nobody else would hear of it
                if opened.done():
                    _log.exception("the connections to MCP servers ended")
                else:
                    opened.set_exception(error)

        self._thread = threading.Thread(target=work, name="apex-mcp", daemon=True)
        self._thread.start()
        try:
            self._links = opened.result()
        except BaseException:
            self._thread.join(timeout=10.0)
            raise
        self._specs = tuple(self._taken())
        self._names = frozenset(spec.name for spec in self._specs)

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """Every usable tool, named ``server.tool``, as it was described at the start."""
        return self._specs

    @property
    def pins(self) -> Mapping[str, str]:
        """Hash of each server's tools, for ``"apex": {"pin": ...}`` in the file."""
        return {name: link.pin for name, link in self._links.items()}

    async def call(self, call: ToolCall) -> ToolResult:
        """Pass a call on; what comes back is data of somebody else, and says so."""
        if call.tool not in self._names:
            return ToolResult(False, error="E_TOOL", detail=f"no tool {call.tool!r}")
        if self._lies_in(call.capability.workspace.root):
            return ToolResult(False, error="E_POLICY", detail="the file of MCP servers lies in the workspace")
        try:
            arguments = json.loads(json.dumps(dict(call.arguments), allow_nan=False))
        except (TypeError, ValueError, RecursionError):
            return ToolResult(False, error="E_ARG", detail="arguments: no JSON")
        if len(json.dumps(arguments)) > ARGUMENT_BYTES:
            return ToolResult(False, error="E_ARG", detail=f"arguments: more than {ARGUMENT_BYTES:,} bytes")
        name, _, tool = call.tool.partition(".")
        link = self._links[name]
        future: concurrent.futures.Future[ToolResult] | None = None

        def work() -> ToolResult:
            nonlocal future
            try:
                future = self._submit(link.call(tool, arguments, call.deadline_s, call.progress))
                return future.result(timeout=call.deadline_s + GRACE_S)
            except (concurrent.futures.TimeoutError, concurrent.futures.CancelledError, RuntimeError):
                if future is not None:
                    future.cancel()
                return ToolResult(False, error=E_TIMEOUT, detail=f"{name}: no answer")

        try:
            return await self._effects.run(work, cost=lambda _: COST_S)
        except asyncio.CancelledError:
            if future is not None:
                future.cancel()
            raise

    async def close(self) -> None:
        """End every server; idempotent."""
        await self._effects.run(self.shut, cost=lambda _: 0.0)  # no plain thread: the loop's time may be virtual

    def shut(self) -> None:
        """End every server, blocking; idempotent."""
        if self._stop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(timeout=10.0)

    def _lies_in(self, folder: Path) -> bool:
        return self._file.is_relative_to(os.path.realpath(folder))

    def _submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        if not self._thread.is_alive():
            work.close()
            raise RuntimeError("closed")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _main(self, servers: Sequence[OutsideServer], opened: concurrent.futures.Future[dict[str, Link]]) -> None:
        self._stop = asyncio.Event()
        links = [Link(server) for server in servers]
        async with asyncio.TaskGroup() as group:
            results = await asyncio.gather(*(link.open(group) for link in links), return_exceptions=True)
            failed = next((r for r in results if isinstance(r, BaseException)), None)
            if failed is None:
                opened.set_result({link.server.name: link for link in links})
                await self._stop.wait()
            await asyncio.gather(*(link.close() for link in links))
        if failed is not None:
            opened.set_exception(failed)

    def _taken(self) -> list[ToolSpec]:
        taken: list[ToolSpec] = []
        for link in self._links.values():
            wanted = link.server.tools
            if wanted is not None and (missing := sorted(wanted - {tool.name for tool in link.tools})):
                self.shut()
                raise EnvironmentProblem(f"MCP server {link.server.name!r} has no tool {missing[0]!r}")
            for tool in link.tools:
                if wanted is not None and tool.name not in wanted:
                    continue
                spec = spec_of(link.server, tool)
                if spec is None:
                    _log.warning("MCP server %s: a tool has no usable name or schema, left out", link.server.name)
                else:
                    taken.append(spec)
        return taken
