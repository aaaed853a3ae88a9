"""Transport ``a2a_json``: every message as an A2A message in JSON, over a pair of queues in the process."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from dataclasses import fields
from typing import Any, Final

from apex_framework.errors import CarrierClosedError, PayloadError
from apex_framework.interfaces import MAX_PAYLOAD_BYTES, AgentID, Carrier, Epoch, Message, MessagePriority

from .envelope import EXTENSION
from .refusal import E_SIZE, Refusal
from .strict import read_json

MAX_FRAME_BYTES: Final = 2 * MAX_PAYLOAD_BYTES
MAX_DEPTH: Final = 100
"""Deepest nesting of a payload."""


class A2AJsonCodec:
    """The wire format ``a2a-json-1``: an A2A 1.0 message whose data part is the payload and whose metadata is the rest."""

    schema_hash = "a2a-json-1"

    def size(self, message: Message) -> int:
        """Bytes of the payload as compact UTF-8 JSON. Raises PayloadError when it has no such form."""
        return len(_dump(message.payload, f"payload of {message.msg_id}"))

    def encode(self, message: Message) -> bytes:
        """One frame. Raises PayloadError when payload or ``meta`` has no JSON form, or the frame is too long."""
        self.size(message)
        envelope = {
            "messageId": message.msg_id,
            "contextId": message.episode_id,
            "role": "ROLE_AGENT",
            "parts": [{"data": message.payload, "mediaType": "application/json"}],
            "extensions": [EXTENSION],
            "metadata": {EXTENSION: {name: getattr(message, name) for name in _REST}},
        }
        frame = _dump(envelope, f"message {message.msg_id}")
        if len(frame) > MAX_FRAME_BYTES:
            raise PayloadError(f"message {message.msg_id} needs a frame of {len(frame):,} bytes")
        return frame

    def decode(self, frame: bytes) -> tuple[bool, Message | None, str]:
        """(True, message, "") or (False, None, code): ``too_big``, ``not_json``, ``not_a_message``, ``bad_field:NAME``."""
        try:
            envelope = read_json(frame, max_bytes=MAX_FRAME_BYTES, max_depth=MAX_DEPTH + 6)
        except Refusal as refusal:
            return False, None, "too_big" if refusal.refusal == E_SIZE else "not_json"
        try:
            (part,) = envelope["parts"]
            (extension, table), *more = envelope["metadata"].items()
            values = {
                "episode_id": envelope["contextId"], "msg_id": envelope["messageId"], "payload": part["data"], **table,
            }  # fmt: skip
            whole = (envelope.keys(), part.keys(), extension, more, envelope["role"])
        except (KeyError, TypeError, ValueError, AttributeError):
            return False, None, "not_a_message"
        if whole != (_KEYS, _PART, EXTENSION, [], "ROLE_AGENT") or values.keys() != _KINDS.keys():
            return False, None, "not_a_message"
        for name, kinds in _KINDS.items():
            if type(values[name]) not in kinds:
                return False, None, f"bad_field:{name}"
        if values["priority"] not in _PRIORITIES:
            return False, None, "bad_field:priority"
        message = Message(**{**values, "priority": _PRIORITIES[values["priority"]]})
        message.sender, message.recipient = AgentID(message.sender), AgentID(message.recipient)
        message.topo_epoch = Epoch(message.topo_epoch)
        try:
            if self.size(message) > MAX_PAYLOAD_BYTES:
                return False, None, "too_big"
        except PayloadError:
            return False, None, "bad_field:payload"
        return True, message, ""


def _dump(value: Any, what: str) -> bytes:
    try:
        _check_names(value, 0)
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise PayloadError(f"{what} has no JSON form: {error}") from None


def _check_names(value: Any, depth: int) -> None:
    """json.dumps would quietly turn names that are no texts into texts, and another message would arrive."""
    if depth > MAX_DEPTH + 6:
        raise ValueError(f"nested deeper than {MAX_DEPTH}")
    if isinstance(value, dict):
        for name, item in value.items():
            if not isinstance(name, str):
                raise ValueError(f"name {name!r} is not a text")
            if isinstance(item, dict | list | tuple):
                _check_names(item, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            if isinstance(item, dict | list | tuple):
                _check_names(item, depth + 1)


class _Way:
    """One direction: frames under way, and whether either end has closed."""

    def __init__(self) -> None:
        self.frames: deque[bytes] = deque()
        self.closed = False
        self.news = asyncio.Event()


class QueueCarrier:
    """One end of a pair of queues."""

    def __init__(self, outward: _Way, inward: _Way) -> None:
        self._outward, self._inward = outward, inward

    async def send(self, frame: bytes) -> None:
        """Raises CarrierClosedError once either end is closed."""
        if self._outward.closed:
            raise CarrierClosedError("the carrier is closed")
        self._outward.frames.append(bytes(frame))
        self._outward.news.set()

    async def receive(self) -> bytes:
        """The next frame; what was sent before a close still arrives. Raises CarrierClosedError after that."""
        way = self._inward
        while not way.frames:
            if way.closed:
                raise CarrierClosedError("the carrier is closed")
            way.news.clear()
            await way.news.wait()
        return way.frames.popleft()

    async def close(self) -> None:
        """Close both directions."""
        for way in (self._outward, self._inward):
            way.closed = True
            way.news.set()


class A2AJson:
    """Both ends in one process; messages cross the edge encoded, as they would between two."""

    name = "a2a_json"
    local = False
    fallback: tuple[str, ...] = ("inproc",)

    def __init__(self) -> None:
        self.codec = A2AJsonCodec()

    async def open(self) -> tuple[Carrier, Carrier]:
        """Two ends within this event loop."""
        there, back = _Way(), _Way()
        return QueueCarrier(there, back), QueueCarrier(back, there)


_NONE = type(None)
_TYPES: dict[str, tuple[type, ...]] = {
    "topo_epoch": (int,),
    "payload": (dict,),
    "attempt": (int,),
    "created_ts": (float, int),
    "expires_ts": (float, int),
    "redelivered": (bool,),
    "drop_reason": (str, _NONE),
    "audience": (str, _NONE),
    "via": (str, _NONE),
    "cause_id": (str, _NONE),
    "trace_id": (str, _NONE),
    "meta": (dict, _NONE),
}
_KINDS = {f.name: _TYPES.get(f.name, (str,)) for f in fields(Message)}
_REST = tuple(name for name in _KINDS if name not in ("msg_id", "episode_id", "payload"))
_KEYS = dict.fromkeys(("messageId", "contextId", "role", "parts", "extensions", "metadata")).keys()
_PART = dict.fromkeys(("data", "mediaType")).keys()
_PRIORITIES = {each.value: each for each in MessagePriority}
