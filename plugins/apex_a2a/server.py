"""The server: JSON-RPC over HTTP and gRPC, one set of rules behind both."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import grpc
import uvicorn
from a2a.server.request_handlers.grpc_handler import DefaultGrpcServerCallContextBuilder, GrpcHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryPushNotificationConfigStore
from a2a.types import AgentCard
from a2a.types.a2a_pb2_grpc import add_A2AServiceServicer_to_server
from starlette.applications import Starlette

from apex_framework import Catalog
from apex_framework.errors import ConfigError, EnvironmentProblem
from apex_framework.ports import SystemClock

from .agent import Executor, Handler, Tasks
from .cards import our_card
from .limits import RPC_PATH, Threshold, bounded_protocol
from .principals import Doorman
from .refusal import E_AUTH, Refusal
from .remote import Line, SdkLine
from .settings import Principal, Server, Settings
from .urls import PinnedSender
from .work import Work, Works

_log = logging.getLogger(__name__)

LOCAL = "local"
"""The principal of everybody, with ``insecure_local``."""
SHUTDOWN_S = 5


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
        return f"http://{_literal(self.settings.server.host)}:{self.http_port}"


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
        rpc, grpc_port = _grpc(settings, doorman)
        base = server.public_url.rstrip("/") or f"http://{_literal(server.host)}:{port}"
        address = f"{_literal(server.host)}:{grpc_port}" if grpc_port else ""
        card = our_card(settings, base + RPC_PATH, address, secured=not anyone)
        executor = Executor(works, doorman)
        configs = InMemoryPushNotificationConfigStore() if settings.push.enabled else None
        sender = PinnedSender(configs, settings.push) if configs is not None else None
        handler = Handler(
            Tasks(doorman), card, executor=executor, doorman=doorman, push=settings.push, push_config_store=configs,
            push_sender=sender,
        )  # fmt: skip
        routes = [*create_agent_card_routes(card), *create_jsonrpc_routes(handler, RPC_PATH)]
        threshold = Threshold(Starlette(routes=routes), server, doorman)
        web = _web(threshold, server)
        await web.startup(sockets=[socket])
        try:
            if rpc is not None:
                add_A2AServiceServicer_to_server(GrpcHandler(handler, _Context(doorman)), rpc)  # type: ignore[no-untyped-call]  # generated code has no types
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


class _Context(DefaultGrpcServerCallContextBuilder):
    def __init__(self, doorman: Doorman) -> None:
        self._doorman = doorman

    def build(self, context: Any) -> Any:
        built = super().build(context)
        built.state.clear()  # the token has done its work
        return built

    def build_user(self, context: Any) -> Any:
        name = self._doorman.who(_authorization(context.invocation_metadata()))
        if name is None:
            raise Refusal(E_AUTH, "a bearer token that is known here")
        return _user(name)


class _Door(grpc.aio.ServerInterceptor):  # type: ignore[misc]  # grpc has no types
    """Nobody without a token that is known here reaches a method; each has so many calls at once."""

    def __init__(self, doorman: Doorman) -> None:
        self._doorman = doorman

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        handler = await continuation(details)
        if handler is None:
            return None
        name = self._doorman.who(_authorization(details.invocation_metadata))
        inner = handler.unary_stream if handler.response_streaming else handler.unary_unary
        doorman = self._doorman

        async def enter(request: Any, context: Any) -> None:
            if name is None:
                await context.abort(grpc.StatusCode.UNAUTHENTICATED, f"{E_AUTH}: a bearer token that is known here")
                return
            try:
                doorman.begin_request(name)
            except Refusal as refusal:
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(refusal))
            try:
                doorman.take_bytes(name, request.ByteSize())
            except Refusal as refusal:
                doorman.end_request(name)
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(refusal))

        async def one(request: Any, context: Any) -> Any:
            await enter(request, context)
            try:
                return await inner(request, context)
            finally:
                doorman.end_request(str(name))

        async def many(request: Any, context: Any) -> Any:
            await enter(request, context)
            try:
                async for item in inner(request, context):
                    yield item
            finally:
                doorman.end_request(str(name))

        make = (
            grpc.unary_stream_rpc_method_handler if handler.response_streaming else grpc.unary_unary_rpc_method_handler
        )
        return make(
            many if handler.response_streaming else one,
            request_deserializer=handler.request_deserializer,
            response_serializer=handler.response_serializer,
        )


def _grpc(settings: Settings, doorman: Doorman) -> tuple[Any, int]:
    server = settings.server
    if not server.grpc_port:
        return None, 0
    rpc = grpc.aio.server(
        interceptors=[_Door(doorman)],
        maximum_concurrent_rpcs=server.connections,
        options=[
            ("grpc.max_receive_message_length", server.body_bytes),
            ("grpc.max_metadata_size", 16 * 1024),
            ("grpc.max_concurrent_streams", server.requests),
            ("grpc.max_connection_idle_ms", 300_000),
            ("grpc.so_reuseport", 0),
        ],
    )
    wanted = 0 if server.grpc_port == ANY_PORT else server.grpc_port
    try:
        port = rpc.add_insecure_port(f"{_literal(server.host)}:{wanted}")
    except RuntimeError:
        port = 0
    if not port:
        raise EnvironmentProblem(f"port {server.grpc_port} of {server.host} is taken", "--grpc-port N")
    return rpc, port


ANY_PORT = 65536
"""As ``grpc_port``: whichever is free."""


def _socket(host: str, port: int) -> Any:
    import socket

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except (OSError, OverflowError) as error:
        made.close()
        raise EnvironmentProblem(f"{host}:{port} cannot be listened on: {error}", "another --host or --port") from None
    made.set_inheritable(False)
    return made


def _user(name: str) -> Any:
    from a2a.auth.user import User as SdkUser

    class Known(SdkUser):
        is_authenticated = True
        user_name = name

    return Known()


def _authorization(metadata: Any) -> str:
    found = [value for key, value in metadata or () if key == "authorization"]
    return str(found[0]) if len(found) == 1 else ""


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _literal(host: str) -> str:
    return f"[{host}]" if ":" in host else host
