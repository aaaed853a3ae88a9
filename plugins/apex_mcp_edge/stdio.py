"""Serving over stdin and stdout: bounded lines; what a tool prints goes to stderr, never between the messages."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import anyio.to_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from .lines import CHUNK, Lines, Unreadable, parse, write

AsyncWork = Callable[[], Awaitable[None]]
Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]


@asynccontextmanager
async def stdio() -> AsyncIterator[Streams]:
    """Streams over this process's stdin and stdout, which until the end are nothing and stderr for everybody else."""
    reading, writing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        async with streams(reading, writing) as pair:
            yield pair
    finally:
        sys.stdout.flush()  # what was printed in between, before stdout is stdout again
        os.dup2(reading, 0)
        os.dup2(writing, 1)
        os.close(nothing)
        # ``reading`` and ``writing`` stay open: a thread may still wait in read, and a number must not be used again.


@asynccontextmanager
async def streams(reading: int, writing: int) -> AsyncIterator[Streams]:
    """Streams over two file descriptors. Lines that are no messages are answered with an error and go no further."""
    to_server, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, from_server = anyio.create_memory_object_stream[SessionMessage](0)
    turn = anyio.Lock()

    async def send(message: SessionMessage) -> None:
        data = memoryview(write(message))
        async with turn:
            while data:
                data = data[await anyio.to_thread.run_sync(os.write, writing, data) :]

    async def read() -> None:
        lines = Lines()
        async with to_server:
            while data := await anyio.to_thread.run_sync(os.read, reading, CHUNK, abandon_on_cancel=True):
                for line in lines.feed(data):
                    if line is not None and not line.strip():
                        continue
                    try:
                        message = parse(line)
                    except Unreadable as error:
                        await send(error.answer())
                    else:
                        await to_server.send(message)

    async def relay() -> None:
        async with from_server:
            async for message in from_server:
                await send(message)

    async with anyio.create_task_group() as group:
        group.start_soon(_while_open, read)
        group.start_soon(_while_open, relay)
        yield incoming, outgoing
        group.cancel_scope.cancel()


async def _while_open(work: AsyncWork) -> None:
    try:
        await work()
    except (anyio.ClosedResourceError, anyio.BrokenResourceError, BrokenPipeError):
        return  # the host went away, or the server has ended: the other side sees it by its own stream
