"""How long a client may take to say something, and how much it may say: the head of a request, and its body."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

Receive = Callable[[], Awaitable[Any]]


class Unfinished(Exception):
    """No whole body; ``status`` and ``code`` are what is answered."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status, self.code = status, code


async def whole(receive: Receive, seconds: float, most: int) -> Receive:
    """The body once more, after all of it has come. Raises Unfinished: too late, too much, or cut off.

    The SDK would read all of it before it does anything, too, but waits for it without end.
    """
    body, more = bytearray(), True
    try:
        async with asyncio.timeout(seconds):
            while more:
                event = await receive()
                if event["type"] != "http.request":
                    raise Unfinished(400, "E_ARG")
                body += event.get("body", b"")
                more = event.get("more_body", False)
                if len(body) > most:
                    raise Unfinished(413, "E_SIZE")
    except TimeoutError:
        raise Unfinished(408, "E_SLOW") from None
    told = False

    async def again() -> Any:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": bytes(body), "more_body": False}

    return again


def patient(head_s: float) -> type[H11Protocol]:
    """uvicorn's HTTP/1.1, which ends a connection whose next request has no whole head after so many seconds."""

    class Patient(H11Protocol):
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._wait()

        def handle_events(self) -> None:
            before = self.cycle
            super().handle_events()
            if self.cycle is not before:
                self._stop()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if not self.transport.is_closing():
                self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            super().connection_lost(exc)

        def _wait(self) -> None:
            self._stop()
            self._timer = self.loop.call_later(head_s, self._slow)

        def _stop(self) -> None:
            if self._timer is not None:
                self._timer.cancel()

        def _slow(self) -> None:
            if not self.transport.is_closing():
                self.transport.write(b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                self.transport.close()

    return Patient
