"""What is looked at before a server is used: is it there, does it take the key, has it the model, and how much context."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Final, Protocol

from apex_framework.errors import BackendError, Failure
from apex_framework.interfaces import Finding, Grade, Health, LLMCapabilities, ModelIdentity, Needs

from .settings import Address, Key

_TIMEOUTS: Final = frozenset({Failure.FIRST_TOKEN_TIMEOUT, Failure.IDLE_TIMEOUT, Failure.TOTAL_TIMEOUT})


class Server(Protocol):
    """What this asks of a backend."""

    @property
    def capabilities(self) -> LLMCapabilities: ...

    async def health(self) -> Health: ...

    async def identity(self) -> ModelIdentity: ...


def unwell(error: BackendError) -> Health:
    """The answer to a question that failed."""
    return Health(False, error.cause, failure=error.kind, remedy=error.remedy)


def no_such_server(error: BackendError) -> Health:
    """The same where no model was asked for: what is not found there is the server, not the model."""
    if error.kind in _TIMEOUTS:
        return Health(False, error.cause, failure=error.kind, remedy="see whether the server is stuck or still loading")
    if error.kind is not Failure.NOT_FOUND:
        return unwell(error)
    usual = error.remedy == Failure.NOT_FOUND.remedy
    remedy = Failure.MALFORMED.remedy if usual else error.remedy
    return Health(False, error.cause, failure=Failure.MALFORMED, remedy=remedy)


async def examine_server(
    server: Server, address: Address, key: Key, variables: Sequence[str], needs: Needs, *, more_context: str
) -> list[Finding]:
    """Findings on server, key, model and context. ``variables`` may hold the key; ``more_context`` says how to get more."""
    health = await server.health()
    model = server.capabilities.model_id
    if not health.ok and health.failure not in (Failure.AUTH, Failure.NOT_FOUND):
        return [Finding("server", Grade.FAIL, f"{address.url}: {health.detail}", health.remedy)]
    known, why = ModelIdentity(model), ""
    if health.ok:
        try:
            known = await server.identity()
        except BackendError as error:
            why = error.cause
    what = known.server or health.version
    found = [Finding("server", Grade.OK, f"answers at {address.url}" + (f": {what}" if what else ""))]
    found.append(_key(health, address, key, variables))
    if health.failure == Failure.AUTH:
        return found
    if health.failure == Failure.NOT_FOUND:
        return [*found, Finding("model", Grade.FAIL, health.detail, health.remedy)]
    if why:
        return [*found, Finding("model", Grade.WARN, f"{model}: nothing more is told: {why}")]
    found.append(Finding("model", Grade.OK, " ".join(filter(None, (known.model_id, known.quantisation)))))
    return [*found, _context(known.context_tokens, server.capabilities.context_tokens, needs, more_context)]


def _key(health: Health, address: Address, key: Key, variables: Sequence[str]) -> Finding:
    named = " or ".join(variables)
    if health.failure == Failure.AUTH:
        return Finding("key", Grade.FAIL, health.detail, f"{'correct' if key else 'set'} {named}")
    if not key:
        return Finding("key", Grade.OK, "none is set, and none is asked for")
    if not address.secure and not _is_here(address.host):
        remedy = "use https, or a tunnel"
        return Finding("key", Grade.WARN, "accepted, and sent to another machine unencrypted", remedy)
    return Finding("key", Grade.OK, "accepted")


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _context(told: int, assumed: int, needs: Needs, more: str) -> Finding:
    context = min(told or assumed, assumed)
    grade = suits = needs.grade(context)
    shown = f"{context:,} tokens" + ("" if told else ", assumed: the server does not tell")
    if told and told < assumed:
        grade = max(grade, Grade.WARN, key=list(Grade).index)
        shown += f"; {assumed:,} were expected, and longer prompts are refused or cut"
    if needs.context_tokens > context:
        shown += f"; the budget's longest calls have about {needs.context_tokens:,}"
    remedy = "" if grade is Grade.OK else more if suits is Grade.OK else f"{more}, or take a smaller --budget"
    return Finding("context", grade, shown, remedy)
