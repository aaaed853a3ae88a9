"""What a durable session writes down: the kinds of its records, and messages in a form that a journal can keep."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from enum import IntEnum
from typing import Any

from ..budget import Entry, Reservation, ScopeInstance
from ..budget.entries import Expired, Leased, Opened, Reserved, Settled
from ..interfaces import AgentID, Denied, Epoch, Limits, LLMResult, LLMStatus, Message, MessagePriority, ToolResult

FORM = 1
"""Version of the forms in this file."""


class Kind(IntEnum):
    """Records of a durable session. Each is one change of its state, whole or not at all."""

    BEGUN = 16
    """Whose journal this is."""
    ADMITTED = 17
    """A message from outside."""
    STEP = 18
    """A message was handled: what was sent, the agent's state, where the message goes on."""
    RELAYED = 19
    """A message passed an agent that it was not for."""
    FAILED = 20
    """An agent failed on a message; it will be tried again, or is dead."""
    DEAD = 21
    """A message will not reach some of its receivers."""
    ROUTED = 22
    """Whom a message is for, where that is not its whole audience."""
    CALL = 23
    """A tool that changes something is about to be called."""
    ANSWER = 24
    """What a tool or a model answered."""
    LEDGER = 25
    """An entry of the budget's ledger."""
    JUDGED = 26
    """``on_step`` has heard of a step."""
    ENDED = 27
    """How the session ended."""
    KEPT = 28
    """One piece of the state, in a journal that begins with a copy of it."""
    COPIED = 29
    """The copy is complete: this journal replaces the one before."""


def to_message(message: Message) -> dict[str, Any]:
    """A message's own fields; its ways are kept apart."""
    row: dict[str, Any] = {
        "id": message.msg_id,
        "from": message.sender,
        "to": message.recipient,
        "for": message.audience,
        "class": str(message.priority),
        "body": message.payload,
    }
    for name in ("cause_id", "trace_id", "meta"):
        if (value := getattr(message, name)) is not None:
            row[name] = value
    return row


def from_message(row: dict[str, Any], episode_id: str, now: float) -> Message:
    """A message as it was admitted; its time to live begins again at ``now``."""
    return Message(
        episode_id,
        row["id"],
        AgentID(row["from"]),
        AgentID(row["to"]),
        Epoch(0),
        row["body"],
        MessagePriority(row["class"]),
        created_ts=now,
        audience=row["for"],
        cause_id=row.get("cause_id"),
        trace_id=row.get("trace_id"),
        meta=row.get("meta"),
    )


def key_of(*parts: object) -> str:
    """A name for a call, made of all that decides its effect: the same call has the same name in every life."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), default=repr)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


Answer = LLMResult | Denied | ToolResult


def to_answer(answer: Answer) -> dict[str, Any]:
    """An answer as JSON values. Raises TypeError or ValueError for a tool's value that has no JSON form."""
    row = {"type": type(answer).__name__, **asdict(answer)}
    return dict(json.loads(json.dumps(row, allow_nan=False)))


def from_answer(row: dict[str, Any]) -> Answer:
    """The answer that was written down."""
    fields = {name: value for name, value in row.items() if name != "type"}
    if row["type"] == "LLMResult":
        return LLMResult(**{**fields, "status": LLMStatus(fields["status"])})
    return Denied(**fields) if row["type"] == "Denied" else ToolResult(**fields)


def to_entry(entry: Entry) -> dict[str, Any]:
    """An entry of the ledger as JSON values."""
    return {"type": type(entry).__name__, **asdict(entry)}


def from_entry(row: dict[str, Any]) -> Entry:
    """The entry that was written down."""
    match row["type"]:
        case "Opened":
            scope = row["scope"]
            return Opened(ScopeInstance(scope["name"], scope["key"], Limits(**scope["limits"]), scope["parent"]))
        case "Reserved":
            held = row["reservation"]
            return Reserved(Reservation(**{**held, "scopes": tuple(held["scopes"])}))
        case "Leased":
            return Leased(row["scope"], row["tokens"])
        case "Expired":
            return Expired(row["id"])
        case _:
            return Settled(row["id"], row["tokens"], row["ms"])
