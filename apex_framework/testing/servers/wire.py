"""A small HTTP/1.1 server on loopback, in a thread of its own, that does with its connections whatever a test wants."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import struct
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

HOST: Final = "127.0.0.1"
REASONS: Final = {200: "OK", 302: "Found", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found"}


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asked. Names of headers are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    def json(self) -> Any:
        """The decoded body; an empty object when there is none or it is no JSON."""
        try:
            return json.loads(self.body or b"{}")
        except ValueError:
            return {}


class Wire:
    """One connection, to answer a request on: as HTTP wants it, or byte by byte."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.keep = True
        """Whether the connection may carry another request."""

    async def head(self, status: int, headers: Mapping[str, str]) -> None:
        """The status line and these headers, nothing added."""
        lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Status')}", *(f"{k}: {v}" for k, v in headers.items())]
        await self.raw("\r\n".join(lines).encode() + b"\r\n\r\n")

    async def reply(self, status: int, data: Any, headers: Mapping[str, str] | None = None) -> None:
        """A whole answer: JSON, or HTML for a text."""
        text = isinstance(data, str)
        body = data.encode() if text else json.dumps(data).encode()
        kind = "text/html" if text else "application/json"
        await self.head(status, {"Content-Type": kind, "Content-Length": str(len(body)), **(headers or {})})
        await self.raw(body)

    async def begin(self, content_type: str, headers: Mapping[str, str] | None = None) -> None:
        """The head of a chunked answer."""
        await self.head(200, {"Content-Type": content_type, "Transfer-Encoding": "chunked", **(headers or {})})

    async def chunk(self, data: bytes) -> None:
        """A part of it."""
        await self.raw(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def end(self) -> None:
        """Its end."""
        await self.raw(b"0\r\n\r\n")

    async def raw(self, data: bytes) -> None:
        """These bytes."""
        self._writer.write(data)
        await self._writer.drain()

    def reset(self) -> None:
        """End the connection with a reset (RST) instead of a farewell."""
        sock = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()
        self.keep = False


class LoopbackServer:
    """To be subclassed with ``answer``, and used in a ``with`` statement, from any thread or loop.

    ``tls`` makes it speak TLS. ``rtt_s`` emulates the distance to a server: so long is every new connection held up
    before it is read, and every answer before its first byte. (A connect itself cannot be delayed here.)
    """

    def __init__(self, *, port: int = 0, tls: ssl.SSLContext | None = None, rtt_s: float = 0.0) -> None:
        self.requests: list[Request] = []
        """What was asked, in order."""
        self.connections = 0
        """How many were accepted."""
        self.broken_off = 0
        """How many answers the client did not wait for."""
        self._tls, self._rtt_s, self._port = tls, rtt_s, port
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening = threading.Event()
        self._failed: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._port

    @property
    def url(self) -> str:
        """Its address, without a path."""
        return f"{'https' if self._tls else 'http'}://{'localhost' if self._tls else HOST}:{self._port}"

    @property
    def open(self) -> int:
        """Connections that are open now."""
        return len(self._tasks)

    def __enter__(self) -> Self:
        """Listen. Raises OSError when the port is taken."""
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="loopback server", daemon=True)
        self._thread.start()
        self._listening.wait()
        if self._failed is not None:
            self._thread.join()
            raise self._failed
        return self

    def __exit__(self, *_: object) -> None:
        assert self._thread is not None and self._loop is not None and self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def answer(self, request: Request, wire: Wire) -> None:
        """Answer one request; to be overridden."""
        await wire.reply(404, {"error": "nothing is here"})

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        try:
            server = await asyncio.start_server(self._connected, HOST, self._port, ssl=self._tls, limit=2**24)
        except OSError as error:
            self._failed = error
            self._listening.set()
            return
        self._port = server.sockets[0].getsockname()[1]
        self._listening.set()
        await self._stop.wait()
        server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        wire = Wire(writer)
        try:
            await asyncio.sleep(self._rtt_s)
            ahead = b""
            while wire.keep and (request := await _read(reader, ahead)) is not None:
                self.requests.append(request)
                await asyncio.sleep(self._rtt_s)
                ahead = await self._answer(request, wire, reader)
        except (OSError, asyncio.IncompleteReadError, ValueError):
            pass  # the client went away, or speaks no HTTP
        except asyncio.CancelledError:
            pass  # the server is being closed; nothing awaits this task's end but ``_serve``
        finally:
            self._tasks.discard(task)
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await asyncio.wait_for(writer.wait_closed(), 0.2)

    async def _answer(self, request: Request, wire: Wire, reader: asyncio.StreamReader) -> bytes:
        """Answer until done, or until the client has gone; what it sent ahead of its next request."""
        answering = asyncio.ensure_future(self.answer(request, wire))
        listening = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait({answering, listening}, return_when=asyncio.FIRST_COMPLETED)
            heard = listening.done()
            ahead = b"" if not heard or listening.exception() else listening.result()
            if heard and not ahead and not answering.done():
                self.broken_off += 1
                wire.keep = False
            else:
                await answering
            return ahead
        finally:
            for work in (answering, listening):
                work.cancel()
            await asyncio.gather(answering, listening, return_exceptions=True)


async def _read(reader: asyncio.StreamReader, ahead: bytes) -> Request | None:
    try:
        head = (ahead + await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.rstrip("\r\n").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, path, headers, body)
