"""Requests over HTTP through one pool of connections: bounded, to the configured host only, failures typed."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from apex_framework.errors import BackendError, ConfigError, Failure

from .connections import KEEP_ALIVE_S, MAX_BYTES, PoolNumbers, authorities
from .perloop import PerLoop


@dataclass(slots=True)
class _Use:
    """One request's connection: when it was asked for and, once there is one, how long that took."""

    asked: float = 0.0
    acquired: bool = False


class Reply:
    """A response whose body has not been read yet."""

    def __init__(self, response: aiohttp.ClientResponse, max_bytes: int) -> None:
        self._response, self._max_bytes = response, max_bytes
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        self._left = max_bytes

    @property
    def content_type(self) -> str:
        """The type alone, in lower case; empty when there is none."""
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    async def some(self) -> bytes:
        """What came next; empty at the end. Raises BackendError."""
        with failures():
            data = await self._response.content.readany()
        self._left -= len(data)
        if self._left < 0:
            raise BackendError(f"the server sent more than {self._max_bytes:,} bytes", kind=Failure.MALFORMED)
        return data

    async def body(self) -> bytes:
        """All of it. Raises BackendError."""
        parts = []
        while data := await self.some():
            parts.append(data)
        return b"".join(parts)


class PooledHTTPClient:
    """Keeps connections open between requests, at most ``max_connections``; with ``pooling`` off, none.

    It may be used from one event loop after another, also from several at once: each has connections of its own, which are
    closed when the loop's runner ends (``asyncio.run`` does) or by ``close``. Certificates are verified, against the
    system's authorities or those in ``ca_file``; redirects are not followed; the proxies that variables name are not
    used, only ``proxy``; responses are asked for, and taken, uncompressed only.
    """

    def __init__(
        self,
        max_connections: int = 64,
        *,
        pooling: bool = True,
        connect_s: float = 5.0,
        ca_file: str = "",
        proxy: str = "",
        max_bytes: int = MAX_BYTES,
    ) -> None:
        for name, value in (("max_connections", max_connections), ("max_bytes", max_bytes)):
            if type(value) is not int or value < 1:
                raise ConfigError(f"{name} must be an integer >= 1, not {value!r}")
        self._max_connections, self._pooling, self._connect_s = max_connections, pooling, connect_s
        self._proxy, self._max_bytes = proxy or None, max_bytes
        self._tls = authorities(ca_file) if ca_file else True
        self._sessions = PerLoop(self._opened)
        self.numbers = PoolNumbers()

    @asynccontextmanager
    async def request(
        self, method: str, url: str, *, data: Any = None, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[Reply]:
        """One request; the connection is given back at the end, or closed when the body was not read whole.

        ``data`` is sent as JSON. Raises BackendError; a redirect and a compressed body are such. No deadline but that
        for connecting.
        """
        session = await self._sessions.get()
        body = None if data is None else json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()
        sent = {**({"Content-Type": "application/json"} if body is not None else {}), **(headers or {})}
        use = _Use()
        try:
            with failures():
                response = await session.request(
                    method,
                    url,
                    data=body,
                    headers=sent,
                    allow_redirects=False,
                    proxy=self._proxy,
                    trace_request_ctx=use,
                )
            try:
                _refuse(response)
                yield Reply(response, self._max_bytes)
            finally:
                response.close()  # a connection whose body was read to its end has been given back by then
        finally:
            self.numbers.in_use -= use.acquired

    async def post(self, url: str, json: Any, timeout: float = 30.0) -> tuple[int, bytes]:  # noqa: ASYNC109 - a name that users know from every HTTP client
        """Status and body of one POST. Raises BackendError, also when it takes longer than ``timeout`` seconds."""
        try:
            async with asyncio.timeout(timeout), self.request("POST", url, data=json) as reply:
                return reply.status, await reply.body()
        except TimeoutError:
            raise BackendError(f"no complete answer within {timeout:g} s", kind=Failure.TOTAL_TIMEOUT) from None

    async def close(self) -> None:
        """Close this loop's connections; idempotent. The next request opens new ones."""
        await self._sessions.close()

    async def _opened(self) -> AsyncGenerator[aiohttp.ClientSession, None]:
        connector = (
            aiohttp.TCPConnector(limit=self._max_connections, ssl=self._tls, keepalive_timeout=KEEP_ALIVE_S)
            if self._pooling
            else aiohttp.TCPConnector(limit=self._max_connections, ssl=self._tls, force_close=True)
        )
        session = aiohttp.ClientSession(
            connector=connector,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Accept-Encoding": "identity", "User-Agent": "apex-framework"},
            skip_auto_headers=("Accept",),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._connect_s),
            trace_configs=[self._trace()],
        )
        try:
            yield session
        finally:
            await session.close()

    def _trace(self) -> aiohttp.TraceConfig:
        numbers = self.numbers

        async def begun(_: object, context: Any, __: object) -> None:
            context.trace_request_ctx.asked = time.perf_counter()

        def acquired(use: _Use, *, opened: bool) -> None:
            if not use.acquired:  # aiohttp may take a second one, when the first had been closed meanwhile
                use.acquired = True
                numbers.acquired(opened=opened, ms=(time.perf_counter() - use.asked) * 1000)

        async def opened(_: object, context: Any, __: object) -> None:
            acquired(context.trace_request_ctx, opened=True)

        async def reused(_: object, context: Any, __: object) -> None:
            acquired(context.trace_request_ctx, opened=False)

        trace = aiohttp.TraceConfig()
        trace.on_request_start.append(begun)
        trace.on_connection_create_end.append(opened)
        trace.on_connection_reuseconn.append(reused)
        return trace


@contextmanager
def failures() -> Iterator[None]:
    """What goes wrong between here and the server becomes a BackendError of its kind."""
    try:
        yield
    except aiohttp.ClientConnectorCertificateError as error:
        reason = getattr(error.certificate_error, "verify_message", "") or "it cannot be verified"
        raise BackendError(
            f"the server's certificate is refused: {reason}",
            "name the authority that signed it as ca_file",
            kind=Failure.CONNECT,
            retryable=False,
        ) from error
    except (aiohttp.ConnectionTimeoutError, aiohttp.SocketTimeoutError) as error:
        raise BackendError("the server does not accept connections in time", kind=Failure.CONNECT) from error
    except aiohttp.ClientConnectorError as error:
        raise BackendError(
            f"no connection to {error.host}:{error.port}: {_reason(error)}", kind=Failure.CONNECT
        ) from error
    except aiohttp.ClientPayloadError as error:
        raise BackendError("the connection ended in the middle of an answer", kind=Failure.TRUNCATED) from error
    except (aiohttp.ServerDisconnectedError, OSError) as error:
        raise BackendError("the server closed the connection without an answer", kind=Failure.TRUNCATED) from error
    except aiohttp.ClientError as error:
        raise BackendError("the server's answer is no HTTP", kind=Failure.MALFORMED) from error


def _reason(error: aiohttp.ClientConnectorError) -> str:
    cause = error.os_error
    if isinstance(cause, ssl.SSLError):
        return f"TLS fails ({(cause.reason or 'unknown reason').lower().replace('_', ' ')})"
    if cause.errno is not None and cause.errno > 0:
        return os.strerror(cause.errno)
    return (cause.strerror or type(cause).__name__)[:100]


def _refuse(response: aiohttp.ClientResponse) -> None:
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise BackendError(f"the server sends {encoding[:20]}, though asked for plain text", kind=Failure.MALFORMED)
    if 300 <= response.status < 400:
        raise BackendError(
            f"the server redirects elsewhere (status {response.status})",
            "give the address that it redirects to, if you trust it",
            kind=Failure.NOT_FOUND,
        )
