"""One admitted model call: made, tried again, ended in time, charged and settled, once each, whatever happens to it."""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final

from ..budget import Grant, Guard
from ..errors import BackendError, Failure
from ..events import CallSettled
from ..interfaces.budget import CallTags
from ..interfaces.llm import LLMBackend, LLMRequest, LLMResult, LLMStatus, Streams
from ..ports import rng
from .advice import is_interrupt
from .bounded import bounded
from .breaker import NOT_ILL, Breaker
from .desk import Desk, Handle
from .outcomes import failed, late, stopped
from .retrying import may_retry, pause_s, retry_after_s
from .streaming import Reader, Sink
from .tokenizers import GUESS, Counted
from .usage import Usage, usage

_log = logging.getLogger(__name__)

WHOLE: Final = frozenset(
    {
        Failure.MALFORMED,
        Failure.FIRST_TOKEN_TIMEOUT,
        Failure.IDLE_TIMEOUT,
        Failure.TOTAL_TIMEOUT,
        Failure.CANCELLED,
    }
)
"""Failures after which nobody knows what was generated: all that was reserved is charged."""


@dataclass(slots=True)
class Call:
    """One admitted call. ``in_flight``: the backend has the request and may have charged for it."""

    desk: Desk
    handle: Handle
    tags: CallTags
    purpose: str
    backend: LLMBackend
    request: LLMRequest
    counted: Counted
    prompt_tokens: int
    """What the prompt counts as; less than what was counted where messages are free."""
    grant: Grant
    ends: float
    """Its deadline, on the loop's clock."""
    breaker: Breaker | None = None
    sink: Sink | None = None
    in_flight: bool = False
    answered: bool = False
    reader: Reader | None = None

    async def run(self, before: Callable[[], Awaitable[None]] | None) -> LLMResult:
        """Make the call and settle it, whatever happens to it; ``before`` is awaited before every attempt."""
        desk, started = self.desk, self.desk.clock.monotonic()
        heartbeat = _Heartbeat(desk.guard, self.grant.id)
        desk.stats.calls += 1
        try:
            result, cost = await self._outcome(before, started)
        except BaseException:  # cancelled, interrupted, or its task closed: it is over for the budget, too
            self._settle(self._everything() if self.in_flight else Usage(0, 0), stopped(), started)
            raise
        finally:
            heartbeat.stop()
            self.handle.limit = None
        self._settle(cost, result, started)
        return replace(result, tokens_in=cost.tokens_in, tokens_out=cost.tokens_out)

    async def _outcome(self, before: Callable[[], Awaitable[None]] | None, started: float) -> tuple[LLMResult, Usage]:
        try:
            async with asyncio.timeout_at(self.ends) as limit:
                self.handle.limit = limit
                if self.handle.stopped:
                    raise TimeoutError
                result = self._timed(await self._attempts(before, limit), started)
                if self.backend.capabilities.deterministic:
                    if limit.when() is None:
                        limit.reschedule(self.ends)
                    await asyncio.sleep(max(0.0, result.latency_ms) / 1000)
            return self._delivered(result, self._cost(result))
        except TimeoutError:
            cost = self._everything() if self.in_flight else Usage(0, 0)
            ours = self.handle.limit is None or self.handle.limit.expired()
            return (stopped() if self.handle.stopped else late(self.desk.deadline_s if ours else None)), cost
        except Exception as error:  # noqa: BLE001 - a plugin's edge: a broken backend is a failed call
            return failed(error), self._cost_of(error)
        except (SystemExit, KeyboardInterrupt) as error:  # the same, unless the process was told to end
            if is_interrupt(error):
                raise
            return failed(error), self._cost_of(error)

    async def _attempts(self, before: Callable[[], Awaitable[None]] | None, limit: asyncio.Timeout) -> LLMResult:
        """Ask until there is an answer, a failure that may have cost something, or no retry or no time left."""
        jitter = rng("backoff", self.request.seed, self.request.request_id)
        attempt = 0
        while True:
            if before is not None:
                await before()
            try:
                return await self._attempt(limit)
            except BackendError as error:
                self.in_flight = not error.free
                if not may_retry(error, attempt, self.desk.retries):
                    raise
                attempt += 1
                pause = pause_s(attempt, jitter)
                asked = retry_after_s(error.retry_after, wall_s=self.desk.clock.wall())
                if asked is not None:
                    pause = max(pause, asked)
                    if pause >= (limit.when() or math.inf) - asyncio.get_running_loop().time():
                        raise
                _log.info("call %s: %s; again", self.request.request_id, error)
            await asyncio.sleep(pause)
            self.desk.stats.retries += 1

    async def _attempt(self, limit: asyncio.Timeout) -> LLMResult:
        """Ask once, if the breaker lets it; and tell the breaker how it went."""
        if self.breaker is None:
            return await self._asked(limit)
        loop = asyncio.get_running_loop()
        ticket = self.breaker.enter(loop.time())
        if ticket is None:
            model = self.backend.capabilities.model_id
            raise BackendError(f"{model} is left alone: its last calls failed", kind=Failure.CIRCUIT_OPEN)
        ok: bool | None = None
        try:
            answer = await self._asked(limit)
            ok = True
            return answer
        except BackendError as error:
            ok = None if error.kind in NOT_ILL else False
            raise
        except asyncio.CancelledError:
            ok = False if limit.expired() and not self.handle.stopped else None
            raise
        except Exception:
            ok = False
            raise
        finally:
            self.breaker.leave(ticket, ok, loop.time())

    async def _asked(self, limit: asyncio.Timeout) -> LLMResult:
        backend, capabilities = self.backend, self.backend.capabilities
        if self.counted.tokens > capabilities.context_tokens and not capabilities.deterministic:
            raise BackendError(
                f"a prompt of {self.counted.tokens:,} tokens; the context holds {capabilities.context_tokens:,}",
                kind=Failure.CONTEXT_EXCEEDED,
            )
        self.in_flight = True
        staged = bool(self.desk.stages) and not capabilities.deterministic
        if (staged or self.sink is not None) and isinstance(backend, Streams):
            counter, kept = self.desk.pool.counter(backend), capabilities.keeps_max_tokens
            self.reader = Reader(self.request, self.desk.stages, *counter, self.sink, kept)
            result = await self.reader.read(backend, limit)
            self.answered = True
            return result
        coming: object = backend.generate(self.request)
        if not inspect.isawaitable(coming):
            self.answered = True
            raise BackendError(f"generate answered {type(coming).__name__}", kind=Failure.MALFORMED)
        answer: object = await bounded(coming)
        self.answered = True
        if not isinstance(answer, LLMResult) or not isinstance(answer.text, str):
            raise BackendError(f"generate answered {type(answer).__name__}", kind=Failure.MALFORMED)
        return answer

    def _timed(self, result: LLMResult, started: float) -> LLMResult:
        if result.latency_ms or self.backend.capabilities.deterministic:
            return result
        return replace(result, latency_ms=(self.desk.clock.monotonic() - started) * 1000)

    def _delivered(self, result: LLMResult, cost: Usage) -> tuple[LLMResult, Usage]:
        """The answer, unless the call was cancelled before it came."""
        if self.handle.stopped:
            self.desk.stats.dropped += 1
            return stopped(), cost
        if self.sink is not None and self.reader is None and result.text:
            self.sink(result.text)
        return result, cost

    # --- what it costs --------------------------------------------------------------------------

    def _everything(self) -> Usage:
        return Usage(self.prompt_tokens, self.grant.tokens - self.prompt_tokens)

    def _cost(self, result: LLMResult) -> Usage:
        """The cost of an answer. Raises BackendError when it cannot be counted."""
        count, exact = self.desk.pool.counter(self.backend)
        counted = self.counted
        sure = exact and counted.source != GUESS
        cost = usage(count, result, counted.tokens, self.request.max_tokens, exact=sure)
        if self.reader is not None and len(self.reader.text) > len(result.text):
            cost = Usage(cost.tokens_in, max(cost.tokens_out, count(self.reader.text)))
            self.desk.stats.cut += self.reader.cut
        elif cost != Usage(result.tokens_in, result.tokens_out):
            self.desk.stats.disbelieved += 1
        if result.status in (LLMStatus.OK, LLMStatus.LENGTH) and cost.tokens_in == result.tokens_in:
            self.desk.pool.learn(self.backend, counted, result.tokens_in)
        return Usage(max(0, cost.tokens_in - (counted.tokens - self.prompt_tokens)), cost.tokens_out)

    def _cost_of(self, error: BaseException) -> Usage:
        """The cost of a failure: nothing, the prompt and what is known to have come, or everything."""
        if not self.in_flight:
            return Usage(0, 0)
        if not isinstance(error, BackendError):
            return self._everything() if self.answered else self._least("")
        partial = error.partial or (self.reader.text if self.reader is not None else "")
        unknown = error.kind is Failure.TRUNCATED and not partial
        if self.answered or unknown or error.kind in WHOLE:
            return self._everything()
        return self._least(partial)

    def _least(self, partial: str) -> Usage:
        if not partial:
            return Usage(self.prompt_tokens, 0)
        try:
            return Usage(self.prompt_tokens, self.desk.pool.counter(self.backend)[0](partial))
        except Exception:  # noqa: BLE001 - a plugin's edge: what cannot be counted counts as all
            return self._everything()

    def _settle(self, cost: Usage, result: LLMResult, started: float) -> None:
        elapsed_ms = max(0, math.ceil((self.desk.clock.monotonic() - started) * 1000))
        self.desk.guard.settle(self.grant.id, cost.tokens_in + cost.tokens_out, elapsed_ms)
        capabilities = self.backend.capabilities
        if self.desk.durations is not None and result.status in (LLMStatus.OK, LLMStatus.LENGTH):
            self.desk.durations.observe(type(self.backend).__name__, capabilities.model_id, elapsed_ms)
        if result.failure:
            self.desk.stats.failures[result.failure] += 1
        tags, heard = self.tags, 0 if self.desk.free_messages else min(self.counted.heard, cost.tokens_in)
        self.desk.on_event(
            CallSettled(
                tags.episode_id,
                tags.agent_id,
                tags.role,
                self.purpose,
                str(result.status),
                self.grant.tokens,
                cost.tokens_in,
                cost.tokens_out,
                heard,
                self.prompt_tokens,
                self.counted.took_ms,
                str(result.failure),
                "" if capabilities.deterministic else capabilities.determinism,
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
