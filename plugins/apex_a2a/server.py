"""The server: JSON-RPC over HTTP and gRPC, one set of rules behind both."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import uvicorn
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryPushNotificationConfigStore
from a2a.types import AgentCard
from starlette.applications import Starlette

from apex_framework import Catalog
from apex_framework.errors import ConfigError, EnvironmentProblem
from apex_framework.ports import SystemClock

from .agent import Executor, Handler, Tasks
from .cards import our_card
from .grpc_door import grpc_server, literal, serve_grpc
from .limits import RPC_PATH, Threshold, bounded_protocol
from .principals import Doorman
from .remote import Line, SdkLine
from .settings import Principal, Server, Settings
from .urls import PinnedSender
from .work import Work, Works

_log = logging.getLogger(__name__)

LOCAL = "local"
"""The principal of everybody, with ``insecure_local``."""
SHUTDOWN_S = 5
CARD_AGE = "public, max-age=300"
"""How long a client may keep our card."""


@dataclass
class Running:
    """A server at work."""

    settings: Settings
    card: AgentCard
    http_port: int
    grpc_port: int
    threshold: Threshold
    executor: Executor
    doorman: Doorman

    @property
    def url(self) -> str:
        """Where HTTP clients find it."""
        return f"http://{literal(self.settings.server.host)}:{self.http_port}"


@contextlib.asynccontextmanager
async def serving(
    settings: Settings,
    catalog: Catalog,
    *,
    insecure_local: bool = False,
    lines: Mapping[str, Line] | None = None,
    work: Works | None = None,
) -> AsyncIterator[Running]:
    """Serve until the block ends; then tasks are cancelled, and nothing is left behind.

    ``lines`` are ways to remotes other than the official client, by name; ``work`` does the tasks, if not a team.

    Raises ConfigError without principals (unless ``insecure_local``, on loopback only) and EnvironmentProblem for a
    port that is taken or a sandbox that is too weak.
    """
    settings, anyone = admitted(settings, insecure_local=insecure_local)
    server = settings.server
    doorman = Doorman(
        settings.principals,
        clock=SystemClock(),
        requests=server.requests,
        tasks_at_once=settings.work.tasks_at_once,
        anyone=anyone,
    )
    ways: dict[str, Line] = {name: SdkLine(name, remote, settings.keys) for name, remote in settings.remotes.items()}
    ways.update(lines or {})
    async with contextlib.AsyncExitStack() as last:
        socket = last.enter_context(_socket(server.host, server.port))
        works: Works = work if work is not None else await asyncio.to_thread(Work, catalog, settings, ways)
        last.push_async_callback(works.close)
        for line in ways.values():
            last.push_async_callback(line.close)
        port = socket.getsockname()[1]
        rpc, grpc_port = grpc_server(server, doorman)
        base = server.public_url.rstrip("/") or f"http://{literal(server.host)}:{port}"
        address = f"{literal(server.host)}:{grpc_port}" if grpc_port else ""
        card = our_card(settings, base + RPC_PATH, address, secured=not anyone)
        executor = Executor(works, doorman)
        configs = InMemoryPushNotificationConfigStore() if settings.push.enabled else None
        sender = PinnedSender(configs, settings.push) if configs is not None else None
        handler = Handler(
            Tasks(doorman), card, executor=executor, doorman=doorman, push=settings.push, push_config_store=configs,
            push_sender=sender,
        )  # fmt: skip
        routes = [*create_agent_card_routes(card, cache_control=CARD_AGE), *create_jsonrpc_routes(handler, RPC_PATH)]
        threshold = Threshold(Starlette(routes=routes), server, doorman)
        web = _web(threshold, server)
        await web.startup(sockets=[socket])
        try:
            if rpc is not None:
                serve_grpc(rpc, handler, doorman)
                await rpc.start()
            yield Running(settings, card, port, grpc_port, threshold, executor, doorman)
        finally:
            if rpc is not None:
                await rpc.stop(0.5)
            await handler.aclose()
            web.force_exit = True
            await web.shutdown(sockets=[socket])


def _web(threshold: Threshold, server: Server) -> uvicorn.Server:
    web = uvicorn.Server(
        uvicorn.Config(
            threshold,
            http=bounded_protocol(server),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=max(1, int(server.header_s)),
            h11_max_incomplete_event_size=16 * 1024,
            timeout_graceful_shutdown=SHUTDOWN_S,
        )
    )
    web.config.load()
    web.lifespan = web.config.lifespan_class(web.config)
    return web


def admitted(settings: Settings, *, insecure_local: bool) -> tuple[Settings, str]:
    """The settings that are served, and who comes without a token. Raises ConfigError."""
    if not insecure_local:
        if not settings.principals:
            raise ConfigError(
                "nobody may talk to this server: [principals] is empty",
                "apex a2a token makes a token and what to write, or --insecure-local on this machine alone",
            )
        return settings, ""
    if settings.principals:
        raise ConfigError("--insecure-local lets everybody in, and [principals] is set", "leave one of them out")
    if not _loopback(settings.server.host):
        raise ConfigError(f"--insecure-local listens on loopback only, not on {settings.server.host}", "host 127.0.0.1")
    everybody = {LOCAL: Principal("0" * 64, tasks=settings.work.tasks_at_once)}
    return Settings(
        settings.server, settings.work, settings.push, settings.signing, everybody, settings.keys, settings.remotes
    ), LOCAL


def _socket(host: str, port: int) -> Any:
    import socket

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's algorithm off only where the protocol is named: 40 ms for an answer in two writes.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except (OSError, OverflowError) as error:
        made.close()
        raise EnvironmentProblem(f"{host}:{port} cannot be listened on: {error}", "another --host or --port") from None
    made.set_inheritable(False)
    return made


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
