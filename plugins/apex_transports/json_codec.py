"""Messages as UTF-8 JSON: exact sizes without encoding, and a decoder that answers instead of raising."""

from __future__ import annotations

import json
import math
from dataclasses import fields
from json.encoder import encode_basestring
from typing import Any

from apex_framework.errors import PayloadError
from apex_framework.interfaces import MAX_PAYLOAD_BYTES, AgentID, Epoch, Message, MessagePriority

MAX_FRAME_BYTES = 2 * MAX_PAYLOAD_BYTES
"""Longest frame that is looked at: a payload of full size with its envelope and ``meta``."""
MAX_DEPTH = 100
"""Deepest nesting of a payload."""

_PLAIN = bytes(b for b in range(256) if b >= 0x20 and b not in b'"\\')
_SHORT_ESCAPES = b'"\\\b\f\n\r\t'
_SHORT_TEXT = 64
_LONG_TEXT = 1024
_REMEMBERED = 16
_REMEMBERED_KEYS = 1024


def text_size(text: str) -> int:
    """Bytes of a string as UTF-8 JSON, quotes included. Raises UnicodeEncodeError for a lone surrogate."""
    if len(text) < _SHORT_TEXT and text.isascii():
        return len(encode_basestring(text))
    data = text.encode()
    escaped = data.translate(None, _PLAIN)
    long_escapes = len(escaped.translate(None, _SHORT_ESCAPES)) if escaped else 0
    return len(data) + 2 + len(escaped) + 4 * long_escapes


class JsonCodec:
    """The wire format ``apex-json-1``: one JSON object per frame, the payload among the message's fields.

    Times go over the wire as they are: they mean something only to a receiver that shares the
    sender's clock. One that does not sets ``expires_ts`` to 0.0, and its router stamps anew.
    """

    schema_hash = "apex-json-1"

    def __init__(self) -> None:
        # Long texts travel more than once (to several members, in retries), and keys are always the same ones:
        # what was measured lately is not measured again.
        self._sizes: dict[int, tuple[str, int]] = {}
        self._keys: dict[str, int] = {}

    def size(self, message: Message) -> int:
        """Bytes of the payload as compact UTF-8 JSON. Raises PayloadError when it has no such form."""
        try:
            return self._size(message.payload, 0)
        except (ValueError, RecursionError) as error:
            raise PayloadError(f"payload of {message.msg_id} has no JSON form: {error}") from None

    def _size(self, value: Any, depth: int) -> int:
        kind = type(value)
        if kind is str:
            return self._text(value)
        if kind is dict:
            if depth >= MAX_DEPTH:
                raise ValueError(f"nested deeper than {MAX_DEPTH}")
            total = 1 + len(value) if value else 2
            keys = self._keys
            for key, item in value.items():
                known = keys.get(key) if type(key) is str else None
                total += known if known is not None else self._key(key)
                if type(item) is not str:
                    total += self._size(item, depth + 1)
                elif len(item) < _SHORT_TEXT and item.isascii():
                    total += len(encode_basestring(item))
                else:
                    total += self._text(item)
            return total
        if kind is list or kind is tuple:
            if depth >= MAX_DEPTH:
                raise ValueError(f"nested deeper than {MAX_DEPTH}")
            return (1 + len(value) if value else 2) + sum(self._size(item, depth + 1) for item in value)
        if value is None or value is True:
            return 4
        if value is False:
            return 5
        if kind is int:
            return len(repr(value))
        if kind is float:
            if not math.isfinite(value):
                raise ValueError(f"{value} is not a JSON number")
            return len(repr(value))
        if isinstance(value, str):
            return self._text(str.__str__(value))
        raise ValueError(f"a {kind.__name__} is not JSON")

    def _key(self, key: Any) -> int:
        """Bytes of a key and its colon."""
        if type(key) is not str:
            raise ValueError(f"key {key!r} is not a string")
        size = text_size(key) + 1
        if len(key) < _SHORT_TEXT and len(self._keys) < _REMEMBERED_KEYS:
            self._keys[key] = size
        return size

    def _text(self, text: str) -> int:
        if len(text) < _LONG_TEXT:
            return text_size(text)
        known = self._sizes.get(id(text))
        if known is not None and known[0] is text:
            return known[1]
        size = text_size(text)
        if len(self._sizes) >= _REMEMBERED:
            del self._sizes[next(iter(self._sizes))]
        self._sizes[id(text)] = (text, size)
        return size

    def encode(self, message: Message) -> bytes:
        """One frame. Raises PayloadError when payload or ``meta`` has no JSON form, or the frame is too long."""
        self.size(message)
        record = {name: getattr(message, name) for name in _FIELDS}
        try:
            frame = json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise PayloadError(f"message {message.msg_id} has no JSON form: {error}") from None
        if len(frame) > MAX_FRAME_BYTES:
            raise PayloadError(f"message {message.msg_id} needs a frame of {len(frame):,} bytes")
        return frame

    def decode(self, frame: bytes) -> tuple[bool, Message | None, str]:
        """(True, message, "") or (False, None, code): ``too_big``, ``not_json``, ``not_a_message``, ``bad_field:NAME``."""
        if len(frame) > MAX_FRAME_BYTES:
            return False, None, "too_big"
        try:
            record = _DECODER.decode(frame.decode())
        except (ValueError, RecursionError, MemoryError):
            return False, None, "not_json"
        if type(record) is not dict or record.keys() != _FIELDS.keys():
            return False, None, "not_a_message"
        for name, kinds in _FIELDS.items():
            if type(record[name]) not in kinds:
                return False, None, f"bad_field:{name}"
        if record["priority"] not in _PRIORITIES:
            return False, None, "bad_field:priority"
        try:
            message = Message(**{**record, "priority": _PRIORITIES[record["priority"]]})
            message.sender, message.recipient = AgentID(message.sender), AgentID(message.recipient)
            message.topo_epoch = Epoch(message.topo_epoch)
            if self.size(message) > MAX_PAYLOAD_BYTES:
                return False, None, "too_big"
            json.dumps(record, ensure_ascii=False, allow_nan=False).encode()
        except PayloadError:
            return False, None, "bad_field:payload"
        except (ValueError, RecursionError):
            return False, None, "not_json"
        return True, message, ""


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _constant(text: str) -> float:
    raise ValueError(text)


_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_constant)
_PRIORITIES = {p.value: p for p in MessagePriority}
_NONE = type(None)
_KINDS: dict[str, tuple[type, ...]] = {
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
_FIELDS = {f.name: _KINDS.get(f.name, (str,)) for f in fields(Message)}
"""Every field of a message, and the types that its JSON form may have."""
