"""The bridge: outside agents take part in one session, through its router and in no other way."""

from __future__ import annotations

import hashlib
import json
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from apex_framework import Router
from apex_framework.errors import PayloadError
from apex_framework.interfaces import AgentID, Message, Roster
from apex_framework.ports import Clock

from .envelope import EXTENSION, Envelope, read_envelope
from .refusal import E_ARG, E_AUTHZ, E_EPOCH, E_NOTFOUND, E_SIZE, Refusal
from .strict import read_json

_log = logging.getLogger(__name__)

REMEMBERED: Final = 10_000
"""Ids per outsider after which the oldest is forgotten."""


@dataclass(frozen=True, slots=True)
class Outsider:
    """A principal, the seats of the roster that it may speak from, and whom it may speak to (ids or roles; empty: nobody)."""

    principal: str
    seats: tuple[AgentID, ...]
    audiences: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of an envelope. ``result`` is the router's word; a duplicate was not routed again."""

    msg_id: str
    result: str
    sequence: int
    epoch: int
    duplicate: bool = False

    def to_json(self) -> dict[str, Any]:
        """Plain dict."""
        return {
            "msg_id": self.msg_id, "result": self.result, "sequence": self.sequence, "epoch": self.epoch,
            "duplicate": self.duplicate,
        }  # fmt: skip


class A2ABridge:
    """Turns envelopes into messages of a session and back.

    What comes in is sent by ``router.route``, so epoch, topology, lanes, budgets of bytes and policies hold for it as
    for every member. ``topology`` names the shape in force, for what goes out. Every refusal is counted by code in
    ``refused`` and logged with its principal.
    """

    def __init__(
        self,
        router: Router,
        roster: Roster,
        episode_id: str,
        outsiders: Mapping[str, Outsider],
        *,
        clock: Clock,
        topology: Callable[[], str] = lambda: "",
    ) -> None:
        members = set(roster.ids)
        for outsider in outsiders.values():
            for seat in outsider.seats:
                if seat not in members:
                    raise Refusal(E_AUTHZ, f"seat {seat!r} of {outsider.principal!r} is no member")
        self._router, self._roster, self._episode = router, roster, episode_id
        self._outsiders, self._clock, self._topology = dict(outsiders), clock, topology
        self._seen: dict[str, OrderedDict[str, tuple[str, Receipt]]] = {name: OrderedDict() for name in outsiders}
        self._numbers: dict[str, int] = dict.fromkeys(outsiders, 0)
        self._last: dict[str, int] = {}
        self._sent: dict[AgentID, int] = {}
        self.refused: dict[str, int] = {}
        self.admitted = 0
        """Envelopes handed to the router."""

    @property
    def epoch(self) -> int:
        """The epoch that envelopes must be written for now."""
        return int(self._router.epoch)

    def resolve_agent(self, external_id: str) -> AgentID:
        """The seat that ``principal`` or ``principal/seat`` stands for. Raises Refusal E_AUTHZ."""
        principal, _, seat = external_id.partition("/")
        outsider = self._outsiders.get(principal)
        if outsider is None or not outsider.seats:
            raise Refusal(E_AUTHZ, "nobody of this name has a seat here")
        if not seat:
            return outsider.seats[0]
        if AgentID(seat) not in outsider.seats:
            raise Refusal(E_AUTHZ, f"{principal} may not speak as {seat[:64]!r}")
        return AgentID(seat)

    async def ingest_external(self, envelope: Mapping[str, Any] | bytes, principal: str) -> Receipt:
        """Route an envelope of an authenticated ``principal``. Raises Refusal; then nothing has reached the router.

        An id that was seen before is answered as the first time, and not routed again.
        """
        try:
            raw = read_json(envelope) if isinstance(envelope, bytes) else envelope
            return await self._ingest(read_envelope(raw), principal)
        except Refusal as refusal:
            self.refuse(principal, refusal)
            raise

    def refuse(self, principal: str, refusal: Refusal) -> None:
        """Count and log a refusal."""
        self.refused[refusal.refusal] = self.refused.get(refusal.refusal, 0) + 1
        _log.warning("a2a: envelope of %r refused: %s", principal[:64], refusal)

    def check(self, envelope: Envelope, principal: str, epoch: int | None = None) -> AgentID:
        """The seat that an envelope speaks from, when it is allowed all that it asks for. Raises Refusal."""
        seat = self.resolve_agent(f"{principal}/{envelope.sender}" if envelope.sender else principal)
        if envelope.episode != self._episode:
            raise Refusal(E_EPOCH, "written for another episode")
        now = self.epoch
        if envelope.epoch != (now if epoch is None else epoch) or envelope.epoch != now:
            raise Refusal(E_EPOCH, f"written for epoch {envelope.epoch}, now is {now}")
        allowed = self._outsiders[principal].audiences
        for part in envelope.audience.split("+"):
            if not self._roster.resolve(part):
                raise Refusal(E_NOTFOUND, "no such audience")
            if part not in allowed:
                raise Refusal(E_AUTHZ, f"{principal} may not address {part[:64]!r}")
        return seat

    async def _ingest(self, envelope: Envelope, principal: str) -> Receipt:
        if principal not in self._outsiders:
            raise Refusal(E_AUTHZ, "nobody of this name has a seat here")
        digest, known = _digest(envelope), self._seen[principal]
        if (before := known.get(envelope.id)) is not None:
            if before[0] != digest:
                raise Refusal(E_ARG, "an id that stood on another envelope")
            first = before[1]
            return Receipt(first.msg_id, first.result, first.sequence, first.epoch, True)
        seat = self.check(envelope, principal)
        if envelope.sequence is not None and envelope.sequence <= self._last.get(principal, -1):
            raise Refusal(E_ARG, "sequence numbers only rise")
        number = self._numbers[principal] = self._numbers[principal] + 1
        now = self._clock.monotonic()
        message = Message(
            self._episode,
            f"a2a:{principal}:{envelope.id}",
            seat,
            AgentID(envelope.audience),
            self._router.epoch,
            dict(envelope.payload),
            envelope.priority,
            created_ts=now,
            expires_ts=now + envelope.ttl_s if envelope.ttl_s else 0.0,
            audience=envelope.audience,
            meta={"a2a": {"principal": principal, "id": envelope.id, "sequence": number}},
        )
        # Known before it is routed: while the router makes this one wait, its twin must not pass.
        pending = Receipt(message.msg_id, "pending", number, self.epoch)
        known[envelope.id] = (digest, pending)
        try:
            result = await self._router.route(message)
        except PayloadError as error:
            del known[envelope.id]
            raise Refusal(E_SIZE, error.cause) from None
        except BaseException:
            known.pop(envelope.id, None)
            raise
        self.admitted += 1
        if envelope.sequence is not None:
            self._last[principal] = max(envelope.sequence, self._last.get(principal, -1))
        receipt = Receipt(message.msg_id, result.value, number, self.epoch)
        known[envelope.id] = (digest, receipt)
        while len(known) > REMEMBERED:
            known.popitem(last=False)
        return receipt

    def emit_external(self, message: Message) -> dict[str, Any]:
        """A message for a seat, as an A2A message in JSON form: its payload, and what the answer needs to know.

        ``recipients`` are the audiences that an answer may have; ``epoch`` the one that it must be written for.
        Raises Refusal E_AUTHZ when the message's recipient is nobody's seat.
        """
        outsider = next((o for o in self._outsiders.values() if message.recipient in o.seats), None)
        if outsider is None:
            raise Refusal(E_AUTHZ, f"{message.recipient!r} is no outsider's seat")
        number = self._sent[message.recipient] = self._sent.get(message.recipient, 0) + 1
        return {
            "messageId": message.msg_id,
            "role": "ROLE_USER",
            "parts": [{"data": message.payload, "mediaType": "application/json"}],
            "extensions": [EXTENSION],
            "metadata": {
                EXTENSION: {
                    "episode": self._episode,
                    "epoch": self.epoch,
                    "topology": self._topology(),
                    "sender": self._roster.role_of(message.sender) if message.sender in self._roster.ids else "user",
                    "audience": str(message.recipient),
                    "recipients": sorted(outsider.audiences),
                    "priority": message.priority.value,
                    "sequence": number,
                }
            },
        }


def _digest(envelope: Envelope) -> str:
    what = [envelope.sender, envelope.audience, envelope.episode, envelope.epoch, envelope.priority, envelope.payload]
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()
