"""gRPC behind the same rules: who calls, how much, how deep and how long, before a message is read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import grpc
from a2a.server.request_handlers.grpc_handler import DefaultGrpcServerCallContextBuilder, GrpcHandler
from a2a.types.a2a_pb2_grpc import add_A2AServiceServicer_to_server
from a2a.utils.errors import VersionNotSupportedError
from google.protobuf.message import DecodeError

from apex_framework.errors import EnvironmentProblem

from .principals import Doorman
from .refusal import E_ARG, E_AUTH, E_QUOTA, E_SLOW, Refusal
from .settings import Server

ANY_PORT: Final = 65536
"""As ``grpc_port``: whichever is free."""
STATUS: Final = {
    E_ARG: grpc.StatusCode.INVALID_ARGUMENT,
    E_AUTH: grpc.StatusCode.UNAUTHENTICATED,
    E_QUOTA: grpc.StatusCode.RESOURCE_EXHAUSTED,
    E_SLOW: grpc.StatusCode.DEADLINE_EXCEEDED,
}


def grpc_server(server: Server, doorman: Doorman) -> tuple[Any, int]:
    """A server that does not yet run, and its port; None and 0 without one. Raises EnvironmentProblem."""
    if not server.grpc_port:
        return None, 0
    rpc = grpc.aio.server(
        interceptors=[_Door(doorman, server)],
        maximum_concurrent_rpcs=server.connections,
        options=[
            ("grpc.max_receive_message_length", server.body_bytes),
            ("grpc.max_metadata_size", 16 * 1024),
            ("grpc.max_concurrent_streams", server.requests),
            ("grpc.max_connection_idle_ms", 300_000),
            ("grpc.server_handshake_timeout_ms", int(server.header_s * 1000)),
            ("grpc.so_reuseport", 0),
        ],
    )
    wanted = 0 if server.grpc_port == ANY_PORT else server.grpc_port
    try:
        port = rpc.add_insecure_port(f"{literal(server.host)}:{wanted}")
    except RuntimeError:
        port = 0
    if not port:
        raise EnvironmentProblem(f"port {server.grpc_port} of {server.host} is taken", "--grpc-port N")
    return rpc, port


def serve_grpc(rpc: Any, handler: Any, doorman: Doorman) -> None:
    """Give the server the protocol's methods."""
    add_A2AServiceServicer_to_server(GrpcHandler(handler, _Context(doorman)), rpc)  # type: ignore[no-untyped-call]  # generated code has no types


def literal(host: str) -> str:
    """A host as it stands in an address."""
    return f"[{host}]" if ":" in host else host


class _Door(grpc.aio.ServerInterceptor):  # type: ignore[misc]  # grpc has no types
    """Nobody without a token that is known here reaches a method; each has so many calls at once.

    Every method is registered as one that takes a stream of bytes, of which the first message is read: the library
    waits for a method's one message without end, and answers one that cannot be parsed as an error of the server.
    """

    def __init__(self, doorman: Doorman, server: Server) -> None:
        self._doorman, self._server = doorman, server

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        handler = await continuation(details)
        if handler is None:
            return None
        name = self._doorman.who(_authorization(details.invocation_metadata))
        inner = handler.unary_stream if handler.response_streaming else handler.unary_unary
        doorman, read = self._doorman, handler.request_deserializer

        async def enter(context: Any) -> str:
            try:
                if name is None:
                    raise Refusal(E_AUTH, "a bearer token that is known here")
                doorman.begin_request(name)
            except Refusal as refusal:
                await _abort(context, refusal)
            return str(name)

        async def first(messages: AsyncIterator[bytes], who: str, context: Any) -> Any:
            try:
                async with asyncio.timeout(self._server.body_s):
                    body = await anext(messages, None)
                if body is None:
                    raise Refusal(E_ARG, "a call has a message")
                doorman.take_bytes(who, len(body))
                return read(body)
            except TimeoutError:
                await _abort(context, Refusal(E_SLOW, f"no message within {self._server.body_s:g} s"))
            except DecodeError:
                await _abort(context, Refusal(E_ARG, "no message of this method, or nested too deeply"))
            except Refusal as refusal:
                await _abort(context, refusal)

        async def one(messages: AsyncIterator[bytes], context: Any) -> Any:
            who = await enter(context)
            try:
                return await inner(await first(messages, who, context), context)
            finally:
                doorman.end_request(who)

        async def many(messages: AsyncIterator[bytes], context: Any) -> Any:
            who = await enter(context)
            try:
                async for item in inner(await first(messages, who, context), context):
                    yield item
            finally:
                doorman.end_request(who)

        if handler.response_streaming:
            return grpc.stream_stream_rpc_method_handler(many, response_serializer=handler.response_serializer)
        return grpc.stream_unary_rpc_method_handler(one, response_serializer=handler.response_serializer)


class _Context(DefaultGrpcServerCallContextBuilder):
    def __init__(self, doorman: Doorman) -> None:
        self._doorman = doorman

    def build(self, context: Any) -> Any:
        built = super().build(context)
        built.state.clear()  # the token has done its work
        for key, value in context.invocation_metadata() or ():
            if key == "a2a-version" and str(value).partition(".")[0] != "1":
                raise VersionNotSupportedError(f"{E_ARG}: version 1.0 is spoken here")
        return built

    def build_user(self, context: Any) -> Any:
        name = self._doorman.who(_authorization(context.invocation_metadata()))
        if name is None:
            raise Refusal(E_AUTH, "a bearer token that is known here")
        return _user(name)


async def _abort(context: Any, refusal: Refusal) -> None:
    """End the call; raises always."""
    await context.abort(STATUS[refusal.refusal], str(refusal))


def _user(name: str) -> Any:
    from a2a.auth.user import User as SdkUser

    class Known(SdkUser):
        is_authenticated = True
        user_name = name

    return Known()


def _authorization(metadata: Any) -> str:
    found = [value for key, value in metadata or () if key == "authorization"]
    return str(found[0]) if len(found) == 1 else ""
