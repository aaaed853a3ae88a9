"""Envelopes: a message of ours as an A2A message, and back, with the topology's facts in its metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from apex_framework.interfaces import MessagePriority

from .refusal import E_ARG, E_AUTHZ, E_POLICY, Refusal
from .strict import integer, plain, text

EXTENSION: Final = "urn:apex-framework:a2a:envelope:1"
"""URI of the extension, and the name of its table in a message's metadata."""
MOST_PARTS: Final = 1000
MOST_TTL_S: Final = 3600
MOST_EPOCH: Final = 2**53

_FIELDS: Final = frozenset(
    {
        "episode", "epoch", "sender", "audience", "priority", "ttl_s", "attempt", "sequence", "operation", "tokens",
        "topology", "recipients", "cause",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Envelope:
    """What an outsider hands in, well formed but not yet allowed."""

    id: str
    episode: str
    epoch: int
    sender: str
    """The seat that it claims; empty: its own."""
    audience: str
    payload: Mapping[str, Any]
    priority: MessagePriority = MessagePriority.DRAFT
    ttl_s: float = 0.0
    """Seconds that it lives; 0: as long as every message."""
    sequence: int | None = None
    """Its number among the sender's own, if that counts."""
    tokens: int | None = None
    """Tokens that the sender says it took to write this."""


def read_envelope(message: Mapping[str, Any]) -> Envelope:
    """An envelope from an A2A message in JSON form. Raises Refusal: E_ARG, E_AUTHZ for BROADCAST, E_POLICY.

    Unknown fields of the extension's table are refused: a field that one end means and the other ignores would be a
    way around what is checked.
    """
    if not isinstance(message, Mapping):
        raise Refusal(E_ARG, "an envelope is an A2A message")
    metadata = message.get("metadata")
    table = metadata.get(EXTENSION) if isinstance(metadata, Mapping) else None
    if not isinstance(table, Mapping):
        raise Refusal(E_ARG, f"no metadata {EXTENSION!r}")
    if unknown := sorted(set(map(str, table)) - _FIELDS):
        raise Refusal(E_ARG, f"unknown field {unknown[0][:40]!r} of the envelope")
    operation = table.get("operation", "message")
    payload = read_payload(message.get("parts"))
    if operation != "message" or payload.get("kind") in ("tool_call", "model_call"):
        raise Refusal(E_POLICY, "only messages pass here; tools and models are reached by members, through their doors")
    integer(table.get("attempt", 0), "attempt", 0, 0)
    audience = text(table.get("audience"), "audience")
    if "BROADCAST" in audience.split("+"):
        raise Refusal(E_AUTHZ, "an outsider does not broadcast")
    priority = table.get("priority", "draft")
    if not isinstance(priority, str) or priority not in _PRIORITIES:
        raise Refusal(E_ARG, f"priority must be one of {', '.join(_PRIORITIES)}")
    return Envelope(
        text(message.get("messageId"), "messageId"),
        text(table.get("episode"), "episode", 256),
        integer(table.get("epoch"), "epoch", 0, MOST_EPOCH),
        text(table["sender"], "sender") if "sender" in table else "",
        audience,
        payload,
        _PRIORITIES[priority],
        float(integer(table.get("ttl_s", 0), "ttl_s", 0, MOST_TTL_S)),
        integer(table["sequence"], "sequence", 0, MOST_EPOCH) if "sequence" in table else None,
        integer(table["tokens"], "tokens", 0, 10**12) if "tokens" in table else None,
    )


def read_payload(parts: object) -> dict[str, Any]:
    """A payload from an A2A message's parts: its one data object, or its texts. Raises Refusal E_ARG."""
    if not isinstance(parts, list) or not 0 < len(parts) <= MOST_PARTS:
        raise Refusal(E_ARG, f"a message has 1 to {MOST_PARTS} parts")
    if not all(isinstance(part, Mapping) for part in parts):
        raise Refusal(E_ARG, "a part is an object")
    if len(parts) == 1 and isinstance(parts[0].get("data"), Mapping):
        return dict(plain(parts[0]["data"]))
    texts = [part.get("text") for part in parts]
    if not all(type(each) is str for each in texts):
        raise Refusal(E_ARG, "a message of a team holds one data object, or texts only")
    return {"kind": "text", "text": "\n".join(map(str, texts))}


_PRIORITIES = {each.value: each for each in MessagePriority}
