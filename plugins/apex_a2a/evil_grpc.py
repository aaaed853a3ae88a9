"""The evil client over gRPC: the same attacks where they can be said in it, its own, and spoilt messages."""

from __future__ import annotations

import asyncio
import copy
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final

import grpc
from a2a.types import a2a_pb2
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import Message

from apex_framework import Catalog

from .evil import ATTACKS, PATIENCE_S, TOKENS, HeldWork, Siege, besieged, evil_settings
from .evil_fuzz import resident, seeds, spoilt, torn
from .refusal import CODES, E_ARG, E_AUTH, E_NOTFOUND, E_QUOTA, E_SIZE, E_SLOW
from .server import serving
from .settings import token_hash

SERVICE: Final = "/lf.a2a.v1.A2AService/"
NO_METHOD: Final = "no method"
_STREAMS: Final = frozenset({"SendStreamingMessage", "SubscribeToTask"})
_REQUESTS: Final[Mapping[str, type[Message]]] = {
    "CreateTaskPushNotificationConfig": a2a_pb2.TaskPushNotificationConfig,
    **{
        name: getattr(a2a_pb2, f"{name}Request")
        for name in (
            "GetTask", "ListTasks", "CancelTask", "SubscribeToTask", "GetTaskPushNotificationConfig",
            "DeleteTaskPushNotificationConfig", "GetExtendedAgentCard",
        )
    },
    "SendMessage": a2a_pb2.SendMessageRequest,
    "SendStreamingMessage": a2a_pb2.SendMessageRequest,
}  # fmt: skip
_BROKEN: Final = frozenset(
    {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DATA_LOSS}
)


@dataclass
class GrpcSiege(Siege):
    """The same siege, at the other port."""

    channel: Any = None

    async def call(self, method: str, params: Mapping[str, Any], token: str = "alice") -> str:
        """The code that answers a call."""
        kind = _REQUESTS.get(method, a2a_pb2.GetTaskRequest)
        body = ParseDict(dict(params), kind(), ignore_unknown_fields=True).SerializeToString()
        return await self.send(method, body, (("authorization", f"Bearer {TOKENS[token]}"),))

    async def send(self, method: str, body: bytes, metadata: tuple[tuple[str, str], ...], **options: Any) -> str:
        """The code that answers bytes."""
        return _code(await answer(self.channel, method, body, metadata, **options))


async def answer(
    channel: Any, method: str, body: bytes, metadata: tuple[tuple[str, str], ...], **options: Any
) -> tuple[grpc.StatusCode, str]:
    """Status and words that answer bytes; OK when all went well."""
    make = channel.unary_stream if method in _STREAMS else channel.unary_unary
    under_way = make(SERVICE + method)(body, metadata=metadata, timeout=PATIENCE_S, **options)
    try:
        if method in _STREAMS:
            async for _ in under_way:
                pass
        else:
            await under_way
    except grpc.RpcError as error:
        return error.code(), str(error.details())
    return grpc.StatusCode.OK, ""


async def _silent(channel: Any) -> str:
    """The code that answers a call whose message never comes."""
    try:
        await channel.stream_unary(SERVICE + "GetTask")(metadata=_alice(), timeout=PATIENCE_S)
    except grpc.RpcError as error:
        return _code((error.code(), str(error.details())))
    return "OK"


def _code(answered: tuple[grpc.StatusCode, str]) -> str:
    status, words = answered
    word = words.partition(":")[0]
    if word in CODES:
        return word
    if status == grpc.StatusCode.RESOURCE_EXHAUSTED:
        return E_SIZE if "larger than max" in words or "more than max" in words else E_QUOTA
    known = {grpc.StatusCode.NOT_FOUND: E_NOTFOUND, grpc.StatusCode.UNIMPLEMENTED: NO_METHOD}
    return str(known.get(status, status.name))


def _alice() -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {TOKENS['alice']}"),)


def _nested(depth: int) -> bytes:
    """A part whose data holds so many lists in each other."""
    value = b""
    for _ in range(depth):
        for tag in (0x0A, 0x32):  # ListValue.values, Value.list_value
            value = bytes([tag]) + _varint(len(value)) + value
    for tag in (0x22, 0x2A, 0x0A):  # Part.data, Message.parts, SendMessageRequest.message
        value = bytes([tag]) + _varint(len(value)) + value
    return value


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


async def _too_many(siege: GrpcSiege) -> str:
    """One call more at once than a principal may have, from two connections."""
    most = siege.running.settings.server.requests
    async with grpc.aio.insecure_channel(f"127.0.0.1:{siege.running.grpc_port}", _OWN_CONNECTION) as other:
        held = [asyncio.ensure_future(_silent(siege.channel)) for _ in range(most)]
        try:
            async with asyncio.timeout(PATIENCE_S):
                while siege.running.doorman.asking("alice") < most:  # noqa: ASYNC110 - nothing tells when a call has come in
                    await asyncio.sleep(0.01)
            return _code(await answer(other, "ListTasks", b"", _alice()))
        finally:
            for each in held:
                each.cancel()
            await asyncio.gather(*held, return_exceptions=True)


_OWN_CONNECTION: Final = [("grpc.use_local_subchannel_pool", 1)]
_HELLO: Final = a2a_pb2.ListTasksRequest().SerializeToString()

GrpcAttack = tuple[str, Callable[[GrpcSiege], Awaitable[str]]]

OWN: Final[Mapping[str, GrpcAttack]] = {
    "no token": (E_AUTH, lambda s: s.send("ListTasks", _HELLO, ())),
    "unknown token": (E_AUTH, lambda s: s.send("ListTasks", _HELLO, (("authorization", "Bearer nobody"),))),
    "another scheme": (E_AUTH, lambda s: s.send("ListTasks", _HELLO, (("authorization", "Basic ZXZpbDpldmls"),))),
    "two tokens": (E_AUTH, lambda s: s.send("ListTasks", _HELLO, (*_alice(), *_alice()))),
    "the hash as token": (
        E_AUTH,
        lambda s: s.send("ListTasks", _HELLO, (("authorization", f"Bearer {token_hash(TOKENS['alice'])}"),)),
    ),
    "message too large": (E_SIZE, lambda s: s.send("SendMessage", b"\0" * 600_000, _alice())),
    "a message that unpacks to 64 MiB": (
        E_SIZE,
        lambda s: s.send("SendMessage", b"\0" * 2**26, _alice(), compression=grpc.Compression.Gzip),
    ),
    "nested ten thousand deep": (E_ARG, lambda s: s.send("SendMessage", _nested(10_000), _alice())),
    "no protobuf": (E_ARG, lambda s: s.send("SendMessage", b"\xff\xff{}", _alice())),
    "text that is no Unicode": (E_ARG, lambda s: s.send("GetTask", b"\x12\x02\xc3\x28", _alice())),
    "another version": (E_ARG, lambda s: s.send("ListTasks", _HELLO, (*_alice(), ("a2a-version", "99.0")))),
    "a method that is not there": (NO_METHOD, lambda s: s.send("Shutdown", _HELLO, _alice())),
    "a message that never comes": (E_SLOW, lambda s: _silent(s.channel)),
    "too many calls": (E_QUOTA, _too_many),
}
_HTTP: Final = tuple(ATTACKS)[: tuple(ATTACKS).index("a tool called from outside")]
GRPC_ATTACKS: Final[Mapping[str, GrpcAttack]] = {
    **{f"grpc: {name}": attack for name, attack in OWN.items()},
    **{
        f"grpc: {name}": ((NO_METHOD if "called from outside" in name else code), attack)
        for name, (code, attack) in ATTACKS.items()
        if name not in _HTTP and "drips" not in name and name != "too many connections"
    },
}
"""Those of HTTP that can be said here, and those of gRPC itself."""


@asynccontextmanager
async def grpc_besieged(catalog: Catalog) -> AsyncIterator[GrpcSiege]:
    """As ``besieged``, at the port of gRPC."""
    async with besieged(catalog) as siege, grpc.aio.insecure_channel(f"127.0.0.1:{siege.running.grpc_port}") as channel:
        yield GrpcSiege(siege.running, siege.held, siege.tasks, channel)


def fuzzed_messages(count: int, seed: int) -> list[tuple[str, bytes]]:
    """Methods, each with a message spoilt by structure, or bytes gone wrong."""
    rng, good = random.Random(seed), [json.loads(each) for each in seeds()]
    made = []
    for _ in range(count):
        given = copy.deepcopy(rng.choice(good))
        method = given["method"]
        body = ParseDict(given["params"], _REQUESTS[method](), ignore_unknown_fields=True).SerializeToString()
        if rng.random() < 0.5:
            try:
                worse = json.loads(spoilt(given, rng)).get("params")
                kind = _REQUESTS[method]()
                body = ParseDict(worse, kind, ignore_unknown_fields=True).SerializeToString()
            except (ParseError, ValueError, TypeError, AttributeError, RecursionError, SystemError):
                body = torn(body, rng)  # nothing that protobuf can say; a lone surrogate as a name is its SystemError
        else:
            body = torn(body, rng)
        made.append((method, body))
    return made


async def grpc_fuzz(catalog: Catalog, count: int, seed: int) -> dict[str, Any]:
    """Spoilt messages, through a channel. ``broken``: answers that are the server's fault."""
    broken, first, began = 0, "", perf_counter()
    token = (("authorization", f"Bearer {TOKENS['fuzz']}"),)
    async with serving(evil_settings(), catalog, work=HeldWork(catalog, hold=False)) as running:
        warm, before = min(count // 10, 1000), resident()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{running.grpc_port}") as channel:
            for number, (method, body) in enumerate(fuzzed_messages(count, seed)):
                if number == warm:
                    before = resident()
                status, words = await answer(channel, method, body, token)
                late = status == grpc.StatusCode.DEADLINE_EXCEEDED and not words.startswith(E_SLOW)
                if status in _BROKEN or late:
                    broken += 1
                    first = first or f"{method} {body[:200]!r} -> {status.name} {words[:200]}"
        grown = resident() - before
    seconds = perf_counter() - began
    return {
        "broken": broken, "first": first, "bodies": count, "per_s": count / max(seconds, 1e-9),
        "grown_mib": grown / 2**20,
    }  # fmt: skip
