"""Seals: tool servers that only their door can call.

A seal keeps honest code honest, and makes a mistake loud: whoever was handed a server and calls it is refused, and told
of. It is no wall against hostile Python in the same process, which can reach everything that the process can.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeGuard

from ...interfaces.llm import ChecksHealth, Health
from ...interfaces.tool import ToolCall, ToolResult, ToolServer, ToolSpec
from ..advice import is_interrupt
from .codes import E_DIRECT

_log = logging.getLogger(__name__)

Open = Callable[[ToolCall], Awaitable[object]]
"""The way into a sealed server."""
Blocked = Callable[[str, ToolCall], None]
"""Told of a direct call: the server's name, and the call."""


class SealedServer:
    """A tool server as everybody but its door sees it: it can be looked at and closed, not called."""

    __slots__ = ("_blocked", "_close", "_name", "_tools")

    def __init__(self, name: str, server: ToolServer, blocked: Blocked) -> None:
        self._name, self._blocked = name, blocked
        # In closures: no attribute of a seal leads to what is under it.
        self._tools: Callable[[], tuple[ToolSpec, ...]] = lambda: server.tools
        self._close: Callable[[], Awaitable[None]] = lambda: server.close()

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """Every tool of the server."""
        return self._tools()

    async def call(self, call: ToolCall) -> ToolResult:
        """Refused with ``E_DIRECT`` and told of; nothing reaches the server."""
        _log.warning("a direct call of %s was blocked", self._name)
        self._blocked(self._name, call)
        return ToolResult(False, error=E_DIRECT, detail=f"{self._name} is behind the door: use context.use")

    async def close(self) -> None:
        """Close the server; idempotent."""
        await self._close()


class SealedHealthServer(SealedServer):
    """The same for a server that can say how it is."""

    __slots__ = ("_health",)

    def __init__(self, name: str, server: ToolServer, blocked: Blocked) -> None:
        super().__init__(name, server, blocked)
        assert isinstance(server, ChecksHealth)
        asked: ChecksHealth = server
        self._health: Callable[[], Awaitable[Health]] = lambda: asked.health()

    async def health(self) -> Health:
        """What the server says of itself."""
        return await self._health()


def is_answer(answer: object) -> TypeGuard[ToolResult]:
    """Whether a server or an interceptor has answered with what it says: a result whose fields are of their types."""
    if not isinstance(answer, ToolResult):
        return False
    if type(answer.value) is not dict and not isinstance(answer.value, Mapping):
        return False
    return type(answer.ok) is bool and isinstance(answer.error, str) and isinstance(answer.detail, str)


def is_cancelled() -> bool:
    """Whether somebody has cancelled the present task: a server may raise CancelledError when nobody has."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def is_passing(error: BaseException) -> bool:
    """Whether what comes out of a server's call is not the server's own: it must go on to whoever it is meant for.

    A cancellation by somebody, an interrupt, and a GeneratorExit with which the call itself is closed. The last has no
    frame but the caller's: Python closes what is awaited first, and raises it anew.
    """
    if isinstance(error, asyncio.CancelledError):
        return is_cancelled()
    if isinstance(error, GeneratorExit):
        return error.__traceback__ is None or error.__traceback__.tb_next is None
    return is_interrupt(error)


def sealed(name: str, server: ToolServer, blocked: Blocked) -> tuple[SealedServer, Open]:
    """A server under seal, and the one way in, which the door keeps."""
    kind = SealedHealthServer if isinstance(server, ChecksHealth) else SealedServer
    return kind(name, server, blocked), server.call
