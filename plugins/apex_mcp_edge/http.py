"""Serving over streamable HTTP: a guard in front of the SDK's application, and the server that runs it."""

from __future__ import annotations

import hmac
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import uvicorn
from mcp.server import Server
from mcp.server.transport_security import TransportSecuritySettings

from .lines import LINE_BYTES
from .patience import Unfinished, patient, whole

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]

CONNECTIONS: Final = 64
SESSIONS: Final = 256
IDLE_S: Final = 600.0
HEAD_S: Final = 30.0
"""Seconds for the head of a request, and between two requests of one connection."""
BODY_S: Final = 30.0


class Guard:
    """Lets a request through that names one of our hosts, comes from none but our origins, and has the token.

    A foreign Host or Origin (DNS rebinding) is answered 403, a missing or wrong token 401, before anything is read; a
    body that has not come within ``body_s`` 408, and one that is too large 413.
    """

    def __init__(
        self, app: App, *, hosts: frozenset[str], origins: frozenset[str], token: str, body_s: float = BODY_S
    ) -> None:
        self._app, self._hosts, self._origins, self._body_s = app, hosts, origins, body_s
        self._expected = b"Bearer " + token.encode()

    async def __call__(
        self, scope: Scope, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        if scope["type"] != "http":
            return
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value)
        if (refusal := self._refusal(headers)) is not None:
            await _answer(send, *refusal)
            return
        try:
            body = await whole(receive, self._body_s, LINE_BYTES)
        except Unfinished as unfinished:
            await _answer(send, unfinished.status, unfinished.code)
            return
        await self._app(scope, body, send)

    def _refusal(self, headers: dict[bytes, list[bytes]]) -> tuple[int, str] | None:
        hosts, origins = headers.get(b"host", []), headers.get(b"origin", [])
        if len(hosts) != 1 or hosts[0].decode("latin-1").lower() not in self._hosts:
            return 403, "E_HOST"
        if any(origin.decode("latin-1").lower() not in self._origins for origin in origins):
            return 403, "E_ORIGIN"
        shown = headers.get(b"authorization", [])
        if len(shown) != 1 or not hmac.compare_digest(shown[0], self._expected):
            return 401, "E_TOKEN"
        return None


async def _answer(send: Callable[[Any], Awaitable[None]], status: int, code: str) -> None:
    body = b'{"error": "%s"}' % code.encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status not in (401, 403):  # more of the body may be on its way
        headers.append((b"connection", b"close"))
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def application(
    server: Server[Any], names: list[str], token: str, origins: tuple[str, ...] = (), *, body_s: float = BODY_S
) -> Guard:
    """The ASGI application at ``/mcp`` for the hosts ``names`` (each ``host:port``)."""
    own = [name.lower() for name in names]
    allowed = [*(f"http://{name}" for name in own), *(origin.lower() for origin in origins)]
    security = TransportSecuritySettings(allowed_hosts=own, allowed_origins=allowed)
    inner = server.streamable_http_app(
        transport_security=security, session_idle_timeout=IDLE_S, max_sessions=SESSIONS, host="0.0.0.0"
    )
    return Guard(inner, hosts=frozenset(own), origins=frozenset(allowed), token=token, body_s=body_s)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's algorithm off only where the protocol is named: 40 ms for an answer in two writes.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(CONNECTIONS)
    except OSError:
        made.close()
        raise
    return made


def runner(app: Guard, *, head_s: float = HEAD_S) -> uvicorn.Server:
    """A web server for the application; ``await it.serve(sockets=[...])`` runs it until a signal."""
    config = uvicorn.Config(
        app,
        http=patient(head_s),
        log_level="warning",
        access_log=False,
        lifespan="on",
        ws="none",
        server_header=False,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=int(HEAD_S),
        timeout_graceful_shutdown=3,
        h11_max_incomplete_event_size=16 * 1024,
    )
    return uvicorn.Server(config)
