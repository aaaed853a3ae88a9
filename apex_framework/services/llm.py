"""The door to models: estimate, policies, reservation, call under a deadline, settlement, once each."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..budget import Estimate, Grant, Guard, Ledger, estimate
from ..budget.estimates import count
from ..errors import ApexError, BackendError, ConfigError
from ..events import CallDenied, CallSettled, Event
from ..interfaces.budget import CallTags, Denied
from ..interfaces.interceptor import Intercepted, Interceptor, Point
from ..interfaces.llm import LLMBackend, LLMRequest, LLMResult, LLMStatus
from ..interfaces.policy import ModelCall, Policy
from ..ports import Clock, Ids, rng
from .advice import chain, denial
from .usage import Usage, usage

_log = logging.getLogger(__name__)

BACKOFF_S, BACKOFF_MAX_S = 0.1, 5.0
"""Full jitter: the n-th retry waits uniformly between 0 and min(max, base x 2^n)."""


@dataclass(slots=True)
class _Call:
    """One admitted call on its way.

    ``in_flight``: the backend has the request and may have charged for it. ``answered``: it has answered something.
    """

    tags: CallTags
    purpose: str
    backend: LLMBackend
    request: LLMRequest
    estimate: Estimate
    message_tokens: int
    tokenize_ms: float
    grant: Grant
    in_flight: bool = False
    answered: bool = False


class LLMService:
    """Asks the backend of a role ("*": of every other role) on an agent's behalf. Temperature 0, top_p 1.

    What a call costs: the backend's own counts (see ``usage``). When there are none: nothing after a
    ``BackendError`` with ``retryable``; the prompt after any other failure; everything that was reserved
    after a timeout or a cancellation while the backend had the request, or an answer that cannot be read.

    A reservation is kept alive while its call is. With ``free_messages`` the part of a prompt that came from
    other agents is neither reserved nor charged. The declared latency of a deterministic backend passes on
    the event loop's clock. With a ``machine`` clock, events tell how long counting tokens took. Raises ConfigError for an empty mapping of backends.
    """

    def __init__(
        self,
        backends: Mapping[str, LLMBackend],
        guard: Guard,
        *,
        clock: Clock,
        policies: Sequence[Policy] = (),
        interceptors: Sequence[Interceptor] = (),
        on_event: Callable[[Event], None] | None = None,
        retries: int = 2,
        deadline_s: float = 60.0,
        free_messages: bool = False,
        machine: Clock | None = None,
    ) -> None:
        if not backends:
            raise ConfigError("no backend for any role")
        self._backends = dict(backends)
        self._guard = guard
        self._clock = clock
        self._policies = tuple(policies)
        self._interceptors = tuple(interceptors)
        self._on_event = on_event or (lambda event: None)
        self._retries = retries
        self._deadline_s = deadline_s
        self._free_messages = free_messages
        self._ids = Ids("c")
        self.before_call: Callable[[], Awaitable[None]] | None = None
        """Awaited when a call is reserved and about to be made: what it follows from must be on disk by then."""
        self._machine = machine

    async def ask(
        self,
        tags: CallTags,
        prompt: str,
        *,
        max_tokens: int,
        purpose: str = "",
        seed: int = 0,
        system: str = "",
        message_tokens_text: str = "",
    ) -> LLMResult | Denied:
        """One call. ``message_tokens_text`` is the part of the prompt that other agents' messages brought.

        A denial is an answer; a failed or timed-out call is a result with that status. Raises ConfigError for a
        role without a backend or ``max_tokens`` < 1; a cancellation passes through, settled.
        """
        backend = self._backends.get(tags.role) or self._backends.get("*")
        if backend is None:
            raise ConfigError(f"no backend for role {tags.role!r}", "name one for '*'")
        if type(max_tokens) is not int or max_tokens < 1:
            raise ConfigError(f"max_tokens must be an integer >= 1, not {max_tokens!r}")
        request = LLMRequest(prompt, max_tokens, system=system, seed=seed, request_id=self._ids.next())

        async def work(passing: Intercepted) -> LLMResult | Denied:
            return await self._admit(tags, purpose, backend, passing.subject, message_tokens_text)

        passing = Intercepted(Point.MODEL_CALL, request, tags.agent_id, tags.role, tags.episode_id)
        try:
            answer: object = await chain(self._interceptors, passing, work)
        except Exception as error:  # noqa: BLE001 - a plugin's edge: an agent sees a failed call, never an exception
            return _failed(error)
        if not isinstance(answer, LLMResult | Denied):
            return _failed(TypeError(f"an interceptor answered {type(answer).__name__}"))
        return answer

    @property
    def ledger(self) -> Ledger:
        """Where calls are reserved and settled."""
        return self._guard.ledger

    def headroom(self, tags: CallTags) -> dict[str, float]:
        """Scope name -> share of its tokens that such a call could still reserve, in [0, 1]."""
        return self._guard.headroom(tags)

    async def close(self) -> None:
        """Close every backend once."""
        for backend in {id(b): b for b in self._backends.values()}.values():
            await backend.close()

    async def _admit(
        self, tags: CallTags, purpose: str, backend: LLMBackend, request: LLMRequest, heard: str
    ) -> LLMResult | Denied:
        started = self._machine.monotonic() if self._machine is not None else 0.0
        need = estimate(backend, request)
        tokenize_ms = (self._machine.monotonic() - started) * 1000 if self._machine is not None else 0.0
        message_tokens = min(count(backend, heard), need.prompt_tokens) if heard else 0
        if self._free_messages:
            need = Estimate(need.prompt_tokens - message_tokens, need.max_tokens)
        if ruling := denial(self._policies, ModelCall(tags.agent_id, tags.role, request)):
            refused = Denied({ruling[0]: f"policy:{ruling[1]}"}, self._guard.remaining(tags), need.total)
            return self._denied(tags, purpose, refused)
        limit_ms = math.ceil(self._deadline_s * 1000)
        grant = self._guard.reserve(tags, need.prompt_tokens, limit_ms, max_tokens=need.max_tokens)
        if isinstance(grant, Denied):
            return self._denied(tags, purpose, grant)
        return await self._run(_Call(tags, purpose, backend, request, need, message_tokens, tokenize_ms, grant))

    def _denied(self, tags: CallTags, purpose: str, denied: Denied) -> Denied:
        self._on_event(
            CallDenied(
                tags.episode_id, tags.agent_id, tags.role, purpose, denied.estimate, denied.reasons, denied.remaining
            )
        )
        return denied

    async def _run(self, call: _Call) -> LLMResult:
        """Make the call and settle it, whatever happens to it."""
        started = self._clock.monotonic()
        everything = Usage(call.estimate.prompt_tokens, call.grant.tokens - call.estimate.prompt_tokens)
        heartbeat = _Heartbeat(self._guard, call.grant.id)
        try:
            async with asyncio.timeout(self._deadline_s):
                result = await self._attempts(call, started)
            cost = self._cost(call, result)
        except asyncio.CancelledError:
            self._settle(call, everything if call.in_flight else Usage(0, 0), LLMStatus.CANCELLED, started)
            raise
        except TimeoutError:
            cost = everything if call.in_flight else Usage(0, 0)
            result = LLMResult(
                "", cost.tokens_in, cost.tokens_out, LLMStatus.TIMEOUT, f"no answer within {self._deadline_s:g} s"
            )
        except Exception as error:  # noqa: BLE001 - a plugin's edge: a broken backend is a failed call
            cost = everything if call.answered else Usage(call.estimate.prompt_tokens if call.in_flight else 0, 0)
            result = _failed(error)
        finally:
            heartbeat.stop()
        self._settle(call, cost, result.status, started)
        return replace(result, tokens_in=cost.tokens_in, tokens_out=cost.tokens_out)

    async def _attempts(self, call: _Call, started: float) -> LLMResult:
        """Ask until there is an answer, a failure that may have cost something, or no retry left."""
        jitter = rng("backoff", call.request.seed, call.request.request_id)
        for attempt in range(self._retries + 1):
            if attempt:
                await asyncio.sleep(jitter.uniform(0, min(BACKOFF_MAX_S, BACKOFF_S * 2**attempt)))
            if self.before_call is not None:
                await self.before_call()
            call.in_flight = True
            try:
                result: object = await call.backend.generate(call.request)
            except BackendError as error:
                call.in_flight = not error.retryable
                if call.in_flight or attempt == self._retries:
                    raise
                _log.info("call %s: %s; again", call.request.request_id, error)
                continue
            call.answered = True
            if not isinstance(result, LLMResult) or not isinstance(result.text, str):
                raise BackendError(f"generate answered {type(result).__name__}")
            if call.backend.capabilities.deterministic:
                await asyncio.sleep(max(0.0, result.latency_ms) / 1000)
                return result
            elapsed_ms = (self._clock.monotonic() - started) * 1000
            return result if result.latency_ms else replace(result, latency_ms=elapsed_ms)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _cost(self, call: _Call, result: LLMResult) -> Usage:
        prompt_tokens = call.estimate.prompt_tokens + (call.message_tokens if self._free_messages else 0)
        cost = usage(call.backend, result, prompt_tokens, call.request.max_tokens)
        if self._free_messages:
            return Usage(max(0, cost.tokens_in - call.message_tokens), cost.tokens_out)
        return cost

    def _settle(self, call: _Call, cost: Usage, status: LLMStatus, started: float) -> None:
        elapsed_ms = math.ceil((self._clock.monotonic() - started) * 1000)
        self._guard.settle(call.grant.id, cost.tokens_in + cost.tokens_out, max(0, elapsed_ms))
        tags, heard = call.tags, 0 if self._free_messages else min(call.message_tokens, cost.tokens_in)
        self._on_event(
            CallSettled(
                tags.episode_id,
                tags.agent_id,
                tags.role,
                call.purpose,
                str(status),
                call.grant.tokens,
                cost.tokens_in,
                cost.tokens_out,
                heard,
                call.estimate.prompt_tokens,
                call.tokenize_ms,
            )
        )


class _Heartbeat:
    """Renews a grant at thirds of its life until stopped; a timer on the loop, no task."""

    def __init__(self, guard: Guard, grant_id: str) -> None:
        self._guard, self._id = guard, grant_id
        self._loop = asyncio.get_running_loop()
        self._every_s = max(guard.ledger.ttl_ms / 3000, 0.001)
        self._timer = self._loop.call_later(self._every_s, self._beat)

    def _beat(self) -> None:
        if self._guard.renew(self._id):
            self._timer = self._loop.call_later(self._every_s, self._beat)

    def stop(self) -> None:
        """No more renewals."""
        self._timer.cancel()


def _failed(error: Exception) -> LLMResult:
    known = isinstance(error, ApexError)
    _log.warning("model call failed: %s", error, exc_info=None if known else error)
    return LLMResult("", 0, 0, LLMStatus.ERROR, str(error) if known else f"{type(error).__name__}: {error}")
