"""An outside server's process: argv only, its own process group, and nothing that it writes is kept beyond a bound."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from .lines import CHUNK, Lines, Unreadable, parse, write
from .servers_file import OutsideServer

Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]

GARBAGE: Final = 100
"""Lines that are no messages, after which the server is given up."""
UNASKED: Final = 2_000
"""Notifications and requests of the server without one answer between them, after which it is given up."""
KEPT_OF_STDERR: Final = 4_096
LEAVE_S: Final = 0.2
"""Seconds from closing its stdin to SIGTERM, from there to SIGKILL, and from its end to the end of its output."""
POLL_S: Final = 0.05


class Trouble:
    """Why a server's connection ended, and the end of what it said on stderr."""

    def __init__(self) -> None:
        self.cause = ""
        self.said = b""

    def heard(self, data: bytes) -> None:
        """Keep the end of it."""
        self.said = (self.said + data)[-KEPT_OF_STDERR:]

    def __str__(self) -> str:
        said = self.said.decode("utf-8", "replace").strip().splitlines()
        last = "".join(c for c in said[-1] if c.isprintable())[:200] if said else ""
        return (self.cause or "it closed the connection") + (f"; its last words: {last}" if last else "")


@asynccontextmanager
async def process_streams(server: OutsideServer, trouble: Trouble) -> AsyncIterator[Streams]:
    """Start a server and talk to it on its stdin and stdout. Raises OSError when it cannot be started."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *server.argv, stdin=pipe, stdout=pipe, stderr=pipe, env=dict(server.env), cwd=server.cwd, start_new_session=True
    )
    to_client, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, from_client = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as group:
            reading = anyio.CancelScope()
            group.start_soon(_read, process, to_client, trouble, reading)
            group.start_soon(_write, process, from_client)
            group.start_soon(_listen, process, trouble)
            group.start_soon(_watch, process, trouble, reading)
            try:
                yield incoming, outgoing
            finally:
                group.cancel_scope.cancel()
    finally:
        for stream in (to_client, incoming, outgoing, from_client):
            stream.close()
        with anyio.CancelScope(shield=True):
            await _end(process)


async def _read(
    process: asyncio.subprocess.Process,
    to_client: MemoryObjectSendStream[SessionMessage | Exception],
    trouble: Trouble,
    scope: anyio.CancelScope,
) -> None:
    assert process.stdout is not None
    lines, garbage, unasked = Lines(), 0, 0
    with scope, contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        while data := await process.stdout.read(CHUNK):
            for line in lines.feed(data):
                if line is not None and not line.strip():
                    continue
                try:
                    message = parse(line)
                except Unreadable as error:
                    garbage += 1
                    trouble.cause = f"line {garbage} of what it wrote is no message: {error.cause}"
                    if line is None or garbage >= GARBAGE or b'"jsonrpc"' in line[:100]:
                        return to_client.close()
                    continue
                answered = isinstance(message.message, types.JSONRPCResponse | types.JSONRPCError)
                unasked = 0 if answered else unasked + 1
                if unasked > UNASKED:
                    trouble.cause = f"it sent {UNASKED:,} messages that nobody asked for"
                    return to_client.close()
                await to_client.send(message)
            if lines.too_long:
                trouble.cause = "it wrote a line that is too long"
                return to_client.close()
    to_client.close()


async def _write(process: asyncio.subprocess.Process, from_client: MemoryObjectReceiveStream[SessionMessage]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(ConnectionError, anyio.ClosedResourceError):
        async for message in from_client:
            process.stdin.write(write(message))
            await process.stdin.drain()


async def _listen(process: asyncio.subprocess.Process, trouble: Trouble) -> None:
    assert process.stderr is not None
    while data := await process.stderr.read(CHUNK):
        trouble.heard(data)


async def _watch(process: asyncio.subprocess.Process, trouble: Trouble, reading: anyio.CancelScope) -> None:
    """A child of the server may hold its output open: when the server has ended, nobody waits for more."""
    # ``wait`` would not return while anybody holds one of the pipes.
    while (status := process.returncode) is None:  # noqa: ASYNC110 - see above
        await anyio.sleep(POLL_S)
    trouble.cause = trouble.cause or (f"it was killed by signal {-status}" if status < 0 else f"it ended with {status}")
    await anyio.sleep(LEAVE_S)
    reading.cancel()


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.stdin is not None:
        process.stdin.close()
    for sent in (None, signal.SIGTERM, signal.SIGKILL):
        if sent is not None:
            _signal(process, sent)
        with anyio.move_on_after(LEAVE_S if sent is not signal.SIGKILL else 5.0):
            while process.returncode is None:  # noqa: ASYNC110 - see ``_watch``
                await anyio.sleep(POLL_S / 5)
            break
    _signal(process, signal.SIGKILL)  # what it has started is of its group
    # A grandchild outside the group may hold the pipes: without this they would stay open with it.
    if (transport := getattr(process, "_transport", None)) is not None:
        transport.close()
    await asyncio.sleep(0)


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
