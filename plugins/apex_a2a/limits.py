"""Before anything is parsed: connections, time, size, depth and identity of every HTTP request."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from email.utils import formatdate
from typing import Any, Final

from a2a.utils.constants import AGENT_CARD_WELL_KNOWN_PATH
from uvicorn.protocols.http.h11_impl import H11Protocol

from apex_framework.ports import SystemClock

from .principals import Doorman
from .refusal import E_ARG, E_AUTH, E_AUTHZ, E_NOTFOUND, E_POLICY, E_QUOTA, E_SIZE, E_SLOW, Refusal
from .settings import Server
from .strict import read_json

_log = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

RPC_PATH: Final = "/"
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
CONTENT_TYPE = -32005
MOST_DRAINED: Final = 4 * 1024 * 1024
DRAIN_S: Final = 0.5
STATUS: Final = {E_AUTH: 401, E_AUTHZ: 403, E_NOTFOUND: 404, E_POLICY: 403, E_QUOTA: 429, E_SIZE: 413, E_SLOW: 408}
"""HTTP status by code; 400 for all others, and 200 where the call itself is at fault, as JSON-RPC has it."""
METHODS: Final = frozenset(
    {
        "SendMessage", "SendStreamingMessage", "GetTask", "ListTasks", "CancelTask", "SubscribeToTask",
        "CreateTaskPushNotificationConfig", "GetTaskPushNotificationConfig", "ListTaskPushNotificationConfigs",
        "DeleteTaskPushNotificationConfig", "GetExtendedAgentCard",
    }
)  # fmt: skip


class User:
    """Who a request comes from, as the SDK asks."""

    is_authenticated = True

    def __init__(self, name: str) -> None:
        self.display_name = self.user_name = name


class Threshold:
    """ASGI middleware around the SDK's application: what does not pass here is seen by no parser but ours."""

    def __init__(self, app: App, server: Server, doorman: Doorman) -> None:
        self._app, self._server, self._doorman = app, server, doorman
        self._since = formatdate(SystemClock().wall(), usegmt=True).encode()
        self.refused: dict[str, int] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        body = _Body(receive)
        try:
            if scope["type"] != "http":
                raise Refusal(E_ARG, "HTTP only")
            await self._pass(scope, body, send)
        except Refusal as refusal:
            self.refused[refusal.refusal] = self.refused.get(refusal.refusal, 0) + 1
            _log.warning("a2a: request refused: %s", refusal)
            if scope["type"] == "http":
                await body.drain()
                await refuse(send, refusal)

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        if b"origin" in headers:
            raise Refusal(E_AUTHZ, "no web page talks to this server")
        if (scope["method"], scope["path"]) == ("GET", AGENT_CARD_WELL_KNOWN_PATH):
            await self._app(scope, receive, self._dated(send))
            return
        if scope["path"] != RPC_PATH or scope["method"] != "POST":
            raise Refusal(E_NOTFOUND, f"POST {RPC_PATH} and GET {AGENT_CARD_WELL_KNOWN_PATH}")
        name = self._doorman.who(headers.get(b"authorization", b"").decode("latin-1"))
        if name is None:
            raise Refusal(E_AUTH, "a bearer token that is known here")
        self._doorman.begin_request(name)
        try:
            body = await self._body(headers, receive)
            self._doorman.take_bytes(name, len(body))
            try:
                call = read_json(body, max_bytes=self._server.body_bytes, max_depth=self._server.depth)
            except Refusal as refusal:
                raise Refusal(refusal.refusal, refusal.what, rpc=PARSE_ERROR) from None
            _check_call(call)
            inner = {
                **scope,
                "user": User(name),
                # The token has done its work: nobody behind this line can log or repeat it.
                "headers": [(k, v) for k, v in scope["headers"] if k not in (b"authorization", b"cookie")],
            }
            await self._app(inner, _replay(body, receive), send)
        finally:
            self._doorman.end_request(name)

    def _dated(self, send: Send) -> Send:
        """The card is as old as this server."""

        async def dated(event: MutableMapping[str, Any]) -> None:
            if event["type"] == "http.response.start":
                event = {**event, "headers": [*event["headers"], (b"last-modified", self._since)]}
            await send(event)

        return dated

    async def _body(self, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != b"application/json":
            raise Refusal(E_ARG, "Content-Type: application/json", rpc=CONTENT_TYPE)
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            raise Refusal(E_ARG, "compressed requests are not read")
        announced = headers.get(b"content-length", b"0")
        if not announced.isdigit() or int(announced[:18]) > self._server.body_bytes:
            raise Refusal(E_SIZE, f"at most {self._server.body_bytes:,} bytes")
        body = bytearray()
        try:
            async with asyncio.timeout(self._server.body_s):
                while True:
                    event = await receive()
                    if event["type"] == "http.disconnect":
                        raise Refusal(E_ARG, "the client went away")
                    body += event.get("body", b"")
                    if len(body) > self._server.body_bytes:
                        raise Refusal(E_SIZE, f"at most {self._server.body_bytes:,} bytes")
                    if not event.get("more_body"):
                        return bytes(body)
        except TimeoutError:
            raise Refusal(E_SLOW, f"no whole request within {self._server.body_s:g} s") from None


def _check_call(call: object) -> None:
    """The frame of a JSON-RPC call. Raises Refusal."""
    if not isinstance(call, dict):
        raise Refusal(E_ARG, "one JSON-RPC call, an object", rpc=INVALID_REQUEST)
    number = call.get("id")
    short = isinstance(number, str) and len(number) <= 256
    if number is not None and not short and not (type(number) is int and abs(number) <= 2**63):
        raise Refusal(E_ARG, "an id is a short text or an integer", rpc=INVALID_REQUEST)
    method = call.get("method")
    if call.get("jsonrpc") != "2.0" or not isinstance(method, str):
        raise Refusal(E_ARG, "JSON-RPC 2.0, with a method", rpc=INVALID_REQUEST, call=number)
    if method not in METHODS:
        inside = method.partition("/")[0] in ("tools", "llm", "sampling", "completion")
        what = "tools and models are not reached from outside" if inside else "no such method"
        raise Refusal(E_POLICY if inside else E_ARG, what, rpc=METHOD_NOT_FOUND, call=number)
    if not isinstance(call.get("params", {}), dict):
        raise Refusal(E_ARG, "params are given by name", rpc=INVALID_PARAMS, call=number)


class _Body:
    """A request's body as it comes; knows whether all of it has."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._ended = False

    async def __call__(self) -> MutableMapping[str, Any]:
        event = await self._receive()
        self._ended = not event.get("more_body")
        return event

    async def drain(self) -> None:
        """Throw the rest away, for a moment: a client that is still sending would not see the answer."""
        left = MOST_DRAINED
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                while left > 0 and not self._ended:
                    left -= len((await self()).get("body", b""))


def _replay(body: bytes, receive: Receive) -> Receive:
    told = False

    async def again() -> MutableMapping[str, Any]:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def refuse(send: Send, refusal: Refusal) -> None:
    """Answer with a refusal, as HTTP and as JSON-RPC."""
    error = {"code": refusal.rpc or INVALID_REQUEST, "message": str(refusal), "data": {"code": refusal.refusal}}
    body = json.dumps({"jsonrpc": "2.0", "id": refusal.call, "error": error}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    status = 200 if refusal.rpc else STATUS.get(refusal.refusal, 400)
    if not refusal.rpc:
        headers.append((b"connection", b"close"))
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def bounded_protocol(server: Server) -> type[H11Protocol]:
    """uvicorn's HTTP/1.1 with a bound on connections, and on the time that the head of a request may take."""

    class Bounded(H11Protocol):
        _timer: asyncio.TimerHandle | None = None
        _turned_away = False

        def connection_made(self, transport: Any) -> None:
            if len(self.connections) >= server.connections:
                self._turned_away = True
                transport.write(_short("429 Too Many Requests"))
                transport.close()
                return
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            if not self._turned_away:
                super().data_received(data)

        def handle_events(self) -> None:
            before = self.cycle
            super().handle_events()
            if self.cycle is not before and self._timer is not None:
                self._timer.cancel()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if not self.transport.is_closing():
                self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            if self._timer is not None:
                self._timer.cancel()
            if not self._turned_away:
                super().connection_lost(exc)

        def eof_received(self) -> None:
            pass

        def _wait(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self.loop.call_later(server.header_s, self._slow)

        def _slow(self) -> None:
            if not self.transport.is_closing():
                self.transport.write(_short("408 Request Timeout"))
                self.transport.close()

    return Bounded


def _short(status: str) -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode()
