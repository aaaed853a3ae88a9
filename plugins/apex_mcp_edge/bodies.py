"""What outside servers send over HTTP, cut off before it fills the memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import httpx2
from mcp.shared._httpx_utils import create_mcp_http_client

from .lines import LINE_BYTES

MOST: Final = LINE_BYTES
"""Bytes of one answer, or of one event of a stream of them; as long as a line of a server on stdio."""


def bounded_client(headers: dict[str, str]) -> httpx2.AsyncClient:
    """The SDK's client, on which reading an answer raises httpx2.ReadError where it is too long or compressed."""
    client = create_mcp_http_client(headers={**headers, "accept-encoding": "identity"})
    client.event_hooks = {"response": [_bound]}
    return client


async def _bound(response: httpx2.Response) -> None:
    if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
        await response.aclose()
        raise httpx2.ReadError("the answer is compressed", request=response.request)
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    response.stream = Counted(response.stream, response.request, events=kind == "text/event-stream")


class Counted(httpx2.AsyncByteStream):
    """Bytes of a response, as long as there are not too many of them; of events, as long as none is too long."""

    def __init__(self, stream: httpx2.AsyncByteStream, request: httpx2.Request, *, events: bool) -> None:
        self._stream, self._request, self._events = stream, request, events
        self._size, self._end = 0, b""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            self._count(piece)
            if self._size > MOST:
                raise httpx2.ReadError("the answer is too long", request=self._request)
            yield piece

    def _count(self, piece: bytes) -> None:
        """Bytes since the last blank line, which ends an event; of all that came, where there are no events."""
        self._size += len(piece)
        if self._events:
            seen = self._end + piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            last = seen.rfind(b"\n\n")
            if last >= 0:
                self._size = len(seen) - last - 2
            self._end = seen[-1:]

    async def aclose(self) -> None:
        """Give the connection back."""
        await self._stream.aclose()
