"""The transport under Ollama's official client: what it lets through is bounded, plain, in UTF-8, and from where it was asked."""

from __future__ import annotations

import codecs
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from apex_framework.errors import BackendError, Failure

from .connections import KEEP_ALIVE_S, PoolNumbers
from .sse import LINE_LIMIT


class Guarded(httpx.AsyncBaseTransport):
    """Refuses redirects, compressed bodies, bodies above ``max_bytes``, endless lines, and text that is no UTF-8.

    Every failure on the way is a BackendError, raised through the client.
    """

    def __init__(
        self,
        numbers: PoolNumbers,
        *,
        tls: ssl.SSLContext | bool,
        pooling: bool,
        max_connections: int,
        max_bytes: int,
        proxy: str,
    ) -> None:
        limits = httpx.Limits(
            max_connections=max_connections,
            max_keepalive_connections=max_connections if pooling else 0,
            keepalive_expiry=KEEP_ALIVE_S,
        )
        self._inner = httpx.AsyncHTTPTransport(verify=tls, limits=limits, proxy=proxy or None, trust_env=False)
        self._numbers, self._max_bytes = numbers, max_bytes

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """One request. Raises BackendError."""
        numbers, asked = self._numbers, time.perf_counter()
        opened = used = False

        async def trace(name: str, _: Any) -> None:
            nonlocal opened, used
            if name == "connection.connect_tcp.complete":
                opened = True
            elif name == "http11.send_request_headers.started":
                used = True
                numbers.acquired(opened=opened, ms=(time.perf_counter() - asked) * 1000)

        request.extensions = {**request.extensions, "trace": trace}
        request.headers["Accept-Encoding"] = "identity"

        def ended() -> None:
            nonlocal used
            numbers.in_use -= used
            used = False

        try:
            with failures(request.url.host, request.url.port):
                response = await self._inner.handle_async_request(request)
        except BaseException:
            ended()
            raise
        lines = "ndjson" in response.headers.get("Content-Type", "")
        response.stream = _Body(response.stream, self._max_bytes, LINE_LIMIT if lines else self._max_bytes, ended)  # type: ignore[arg-type]  # httpx types what its own async transport returns as either kind of stream
        if (reason := _refusal(response)) is not None:
            await response.aclose()
            raise reason
        return response

    async def aclose(self) -> None:
        """Close all connections."""
        await self._inner.aclose()


class _Body(httpx.AsyncByteStream):
    def __init__(self, inner: httpx.AsyncByteStream, most: int, line: int, ended: Any) -> None:
        self._inner, self._most, self._line, self._ended = inner, most, line, ended

    async def __aiter__(self) -> AsyncIterator[bytes]:
        decoder = codecs.getincrementaldecoder("utf-8")("strict")
        size = line = 0
        with failures("", None):
            async for part in self._inner:
                size += len(part)
                newline = part.rfind(b"\n")
                longest = line + part.find(b"\n") if newline >= 0 else line + len(part)
                line = len(part) - newline - 1 if newline >= 0 else line + len(part)
                if size > self._most or max(longest, line) > self._line:
                    limit = self._most if size > self._most else self._line
                    raise BackendError(f"the server sent more than {limit:,} bytes", kind=Failure.MALFORMED)
                try:
                    decoder.decode(part)
                except UnicodeDecodeError as error:
                    raise BackendError("the server sent bytes that are no UTF-8", kind=Failure.MALFORMED) from error
                yield part

    async def aclose(self) -> None:
        try:
            await self._inner.aclose()
        finally:
            self._ended()


@contextmanager
def failures(host: str, port: int | None) -> Iterator[None]:
    """What goes wrong between here and the server becomes a BackendError of its kind."""
    try:
        yield
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        where = f"{host}:{port}" if port else host
        certificate = "CERTIFICATE_VERIFY_FAILED" in str(error)
        reason = "its certificate cannot be verified" if certificate else _reason(error)
        remedy = "name the authority that signed it as ca_file" if certificate else ""
        raise BackendError(
            f"no connection to {where}: {reason}", remedy, kind=Failure.CONNECT, retryable=not certificate
        ) from error
    except httpx.PoolTimeout as error:
        raise BackendError("no connection came free", kind=Failure.CONNECT) from error
    except httpx.RemoteProtocolError as error:
        cut = "without" in str(error) or "incomplete" in str(error) or "peer closed" in str(error)
        if cut:
            raise BackendError("the connection ended in the middle of an answer", kind=Failure.TRUNCATED) from error
        raise BackendError("the server's answer is no HTTP", kind=Failure.MALFORMED) from error
    except (httpx.NetworkError, httpx.TimeoutException, OSError) as error:
        raise BackendError("the server closed the connection without an answer", kind=Failure.TRUNCATED) from error
    except httpx.HTTPError as error:
        raise BackendError("the server's answer is no HTTP", kind=Failure.MALFORMED) from error


def _reason(error: Exception) -> str:
    text = str(error) or "it does not accept connections in time"
    return "nothing answers there" if "All connection attempts failed" in text else text[:100]


def _refusal(response: httpx.Response) -> BackendError | None:
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        return BackendError(f"the server sends {encoding[:20]}, though asked for plain text", kind=Failure.MALFORMED)
    if 300 <= response.status_code < 400:
        return BackendError(
            f"the server redirects elsewhere (status {response.status_code})",
            "give the address that it redirects to, if you trust it",
            kind=Failure.NOT_FOUND,
        )
    return None
