"""Remote members: an outside A2A agent at work in a team, asked under a deadline and a budget."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from apex_framework import Guard
from apex_framework.errors import ConfigError, RuntimeFault
from apex_framework.interfaces import Agent, AgentContext, AgentID, CallTags, Denied, Member, Message

from .bridge import A2ABridge
from .cards import read_card
from .dial import MOST_ANSWERED, bearer, channel, check_interfaces
from .envelope import EXTENSION, Envelope, read_envelope
from .refusal import E_ARG, E_QUOTA, E_SIZE, Refusal
from .responses import bounded_transport
from .settings import CardKey, Remote
from .strict import plain

if TYPE_CHECKING:
    from a2a.client import Client

_log = logging.getLogger(__name__)

MOST_ANSWERS: Final = 16
"""Messages that one answer may hold."""
CANCEL_S: Final = 2.0
"""Seconds that telling a remote to stop may take."""


def seat_of(remote: str) -> AgentID:
    """The member that a configured remote is."""
    return AgentID(f"remote_{remote}")


class Line(Protocol):
    """A way to one remote."""

    async def ask(self, message: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Its answers to an A2A message, as A2A messages in JSON form. Cancelled, it tells the remote to stop.

        Raises RuntimeFault when it cannot be reached or fails.
        """
        ...

    async def close(self) -> None:
        """Release the connection; idempotent."""
        ...


class RemoteAgent:
    """A member whose work is done elsewhere.

    A message for it becomes an envelope; the answers come back as envelopes, are judged by the bridge (identity,
    episode, epoch, audience, duplicates) and sent by the session like every member's messages. Before it is asked,
    ``price`` tokens are reserved; after, what it says it took is charged, at least ``least``, and ``price`` when it
    says nothing or fails. Denied by the budget, it is not asked. A remote that cannot be reached fails the message,
    which is tried again; a bad answer is refused and counted, and not asked for again.
    """

    def __init__(
        self,
        member: Member,
        name: str,
        remote: Remote,
        line: Line,
        bridge: A2ABridge,
        guard: Guard,
        tags: Callable[[Agent], CallTags],
    ) -> None:
        self.id, self.role = member.id, member.role
        self._name, self._remote, self._line = name, remote, line
        self._bridge, self._guard, self._tags = bridge, guard, tags
        self._answered: dict[str, None] = {}
        self.denied = 0
        """Messages that the budget did not pay for."""

    async def handle(self, message: Message, context: AgentContext) -> None:
        grant = self._guard.reserve(self._tags(self), self._remote.price)
        if isinstance(grant, Denied):
            self.denied += 1
            self._bridge.refuse(self._name, Refusal(E_QUOTA, "the budget does not pay for asking it"))
            return
        charge, epoch = self._remote.price, self._bridge.epoch
        try:
            async with asyncio.timeout(self._remote.deadline_s):
                answers = await self._line.ask(self._bridge.emit_external(message))
            envelopes, charge = self._read(answers)
        except TimeoutError:
            raise RuntimeFault(f"remote {self._name}: no answer within {self._remote.deadline_s:g} s") from None
        finally:
            self._guard.settle(grant.id, charge)
        for envelope in envelopes:
            try:
                self._bridge.check(envelope, self._name, epoch)
            except Refusal as refusal:
                self._bridge.refuse(self._name, refusal)
                continue
            if envelope.id in self._answered:
                continue
            result = await context.send(envelope.audience, dict(envelope.payload), priority=envelope.priority)
            self._bridge.admitted += 1
            self._answered[envelope.id] = None
            if not result:
                _log.warning("a2a: an answer of remote %s was not routed: %s", self._name, result.value)

    def overhear(self, message: Message) -> None:
        """What it only relays stays here: it is not told to the remote."""

    def _read(self, answers: list[dict[str, Any]]) -> tuple[list[Envelope], int]:
        """The well-formed ones, and the tokens to charge."""
        envelopes, said = [], 0
        if len(answers) > MOST_ANSWERS:
            self._bridge.refuse(self._name, Refusal(E_ARG, f"more than {MOST_ANSWERS} messages in an answer"))
            answers = answers[:MOST_ANSWERS]
        for answer in answers:
            try:
                envelope = read_envelope(plain(answer))
            except Refusal as refusal:
                self._bridge.refuse(self._name, refusal)
                continue
            envelopes.append(envelope)
            said += envelope.tokens or 0
        return envelopes, max(said, self._remote.least) if said else self._remote.price


class SdkLine:
    """A way through the official client; opened when first asked."""

    def __init__(self, name: str, remote: Remote, keys: Mapping[str, CardKey]) -> None:
        self._name, self._remote, self._keys = name, remote, keys
        self._client: Client | None = None
        self._http: Any = None
        self._opening = asyncio.Lock()

    async def ask(self, message: Mapping[str, Any]) -> list[dict[str, Any]]:
        from a2a.types import CancelTaskRequest, SendMessageRequest
        from google.protobuf.json_format import ParseDict

        client, answers, task = await self._open(), [], ""
        request = ParseDict({"message": message}, SendMessageRequest(), ignore_unknown_fields=True)
        try:
            size = 0
            async for event in client.send_message(request):
                size += event.ByteSize()
                if size > MOST_ANSWERED:
                    raise Refusal(E_SIZE, f"remote {self._name} answers without end")
                task = _task_of(event) or task
                answers += _messages(event)
        except asyncio.CancelledError:
            if task:
                # The remote is told, but whoever cancelled us does not wait for it for long.
                with contextlib.suppress(Exception):
                    async with asyncio.timeout(CANCEL_S):
                        await asyncio.shield(client.cancel_task(CancelTaskRequest(id=task)))
            raise
        except RuntimeFault:
            raise
        except Exception as error:  # noqa: BLE001 - somebody else's server and library: named, and tried again
            raise RuntimeFault(f"remote {self._name}: {type(error).__name__}: {str(error)[:200]}") from None
        return answers

    async def close(self) -> None:
        """Release the connection; idempotent."""
        client, http = self._client, self._http
        self._client = self._http = None
        if client is not None:
            await client.close()
        if http is not None:
            await http.aclose()

    async def _open(self) -> Client:
        async with self._opening:
            if self._client is None:
                self._client = await self._connect()
            return self._client

    async def _connect(self) -> Client:
        import httpx
        from a2a.client import ClientConfig, ClientFactory

        remote, token = self._remote, ""
        if remote.token_env and not (token := os.environ.get(remote.token_env, "")):
            raise ConfigError(f"remote {self._name}: {remote.token_env} is not set", "export its token there")
        headers = {"Accept-Encoding": "identity", **({"Authorization": f"Bearer {token}"} if token else {})}
        http = httpx.AsyncClient(
            transport=bounded_transport(MOST_ANSWERED),
            headers=headers,
            timeout=remote.deadline_s,
            follow_redirects=False,
            trust_env=False,
        )
        try:
            card = read_card(await self._card(http), self._keys, signed=remote.signed)
            check_interfaces(self._name, remote, card)
            config = ClientConfig(
                httpx_client=http,
                supported_protocol_bindings=[remote.binding],
                grpc_channel_factory=partial(channel, secure=httpx.URL(remote.url).scheme == "https"),
            )
            made = ClientFactory(config).create(card, interceptors=[bearer(token)] if token else [])
        except RuntimeFault:
            await http.aclose()
            raise
        except Exception as error:  # noqa: BLE001 - somebody else's server and library: named, and tried again
            await http.aclose()
            raise RuntimeFault(f"remote {self._name}: {type(error).__name__}: {str(error)[:200]}") from None
        self._http = http
        return made

    async def _card(self, http: Any) -> bytes:
        """The card, from its server, or from the operator's own file."""
        from a2a.utils.constants import AGENT_CARD_WELL_KNOWN_PATH

        if self._remote.card:
            return await asyncio.to_thread(Path(self._remote.card).read_bytes)
        found = await http.get(self._remote.url.rstrip("/") + AGENT_CARD_WELL_KNOWN_PATH)
        found.raise_for_status()
        return bytes(found.content)


def _task_of(event: Any) -> str:
    kind = event.WhichOneof("payload")
    if kind == "task":
        return str(event.task.id)
    if kind in ("status_update", "artifact_update"):
        return str(getattr(event, kind).task_id)
    return ""


def _messages(event: Any) -> list[dict[str, Any]]:
    """Messages for the team in one event: whatever carries our envelope."""
    from google.protobuf.json_format import MessageToDict

    kind = event.WhichOneof("payload")
    if kind == "message":
        found = [event.message]
    elif kind == "status_update" and event.status_update.status.HasField("message"):
        found = [event.status_update.status.message]
    elif kind == "task" and event.task.status.HasField("message"):
        found = [event.task.status.message]
    else:
        found = []
    return [MessageToDict(each) for each in found if EXTENSION in each.metadata.fields or kind == "message"]
