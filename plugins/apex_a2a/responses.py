"""Responses of other servers, cut off before they fill the memory."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx


def bounded_transport(most: int) -> httpx.AsyncBaseTransport:
    """A transport on which no response has more than ``most`` bytes, and none is compressed.

    Raises httpx.ReadError where one is: before a parser has seen what is too much, and before anything is unpacked.
    """
    return _Bounded(most)


class _Bounded(httpx.AsyncHTTPTransport):
    def __init__(self, most: int) -> None:
        super().__init__(trust_env=False)
        self._most = most

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await super().handle_async_request(request)
        if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
            await response.aclose()
            raise httpx.ReadError("the response is compressed", request=request)
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Counted(response.stream, self._most, request)
        return response


class _Counted(httpx.AsyncByteStream):
    def __init__(self, stream: httpx.AsyncByteStream, most: int, request: httpx.Request) -> None:
        self._stream, self._left, self._request = stream, most, request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            self._left -= len(piece)
            if self._left < 0:
                raise httpx.ReadError("the response is too large", request=self._request)
            yield piece

    async def aclose(self) -> None:
        """Give the connection back."""
        await self._stream.aclose()
