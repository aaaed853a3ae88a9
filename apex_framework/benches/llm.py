"""What the LLM service adds to a backend: time per call and until the first piece, calls a second, and how it takes misbehaviour.

The backend answers at once and counts tokens at once, so that what is measured is the service alone: estimate, admission,
deadlines, settlement, events. ``bare`` is the same backend, awaited. Ours and theirs take turns call by call (round by
round for calls a second), and the overhead is the median of the paired differences; intervals are of the median, 95 %,
by order statistics. ``scopes on`` bounds every call by four nested scopes at once, ``scopes off`` by none.

``misbehaviours`` makes one call each to backends that misbehave in every way there is, in virtual time, whole and
streamed, with deadlines for its stages and without: how many were typed, ended within the deadline and 250 ms, settled
once, and left nothing behind.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any

from ..budget import Guard, Ledger
from ..interfaces import BudgetScope, CallTags, Chunk, Limits, LLMCapabilities, LLMRequest, LLMResult
from ..ports import SystemClock
from ..services import Breakers, LLMService
from .paired import at, median_interval

CALLS = 400
PAIRS = 31
CONCURRENT = 16
SCOPES = ("day", "run", "episode", "role")
PROMPT = "Find the fault. " * 64
TAGS = CallTags("run", "ep1", "coder1", "coder", 10**9)
MAX_TOKENS = 64
STAGES = {"first_token_s": 30.0, "idle_s": 30.0}

Row = dict[str, object]


def run(args: Any = None) -> Iterator[Row]:
    """Rows of bench ``llm``. ``args.n`` is the number of calls, of a pairing and of a round."""
    calls = int(getattr(args, "n", None) or CALLS)
    for case, options in (("one call, 1 KB prompt", {}), ("one call, stages, breaker", {**STAGES, "breakers": True})):
        yield from _compared(case, *asyncio.run(_whole(calls, options)))
    yield from _compared("first piece, 1 KB prompt", *asyncio.run(_first(calls)))
    for case, together in (("calls one by one", 1), (f"{CONCURRENT} calls at a time", CONCURRENT)):
        yield from _throughput(case, calls, together)
    yield from _misbehaviours()


class Null:
    """A backend that takes no time, with and without pieces."""

    capabilities = LLMCapabilities("null", 1_000_000, deterministic=False, is_llm=False)
    _answer = LLMResult("ready", len(PROMPT) // 4, 2)

    def count_tokens(self, text: str) -> int:
        """At once."""
        return len(text) // 4 + 1

    async def generate(self, request: LLMRequest) -> LLMResult:
        """At once."""
        return self._answer

    async def stream(self, request: LLMRequest) -> AsyncIterator[Chunk]:
        """At once, in two pieces."""
        yield Chunk("rea")
        yield Chunk("dy", self._answer)

    async def close(self) -> None:
        """Nothing to close."""


class _Scope:
    """A ceiling that is never reached, nested in the one before."""

    def __init__(self, number: int) -> None:
        self.name = SCOPES[number]
        self.parent = SCOPES[number - 1] if number else None

    def key(self, tags: CallTags) -> str:
        return tags.episode_id

    def limits(self, tags: CallTags) -> Limits:
        return Limits(tags.token_budget)


def four_scopes(most: int = len(SCOPES)) -> list[BudgetScope]:
    """Day, run, episode and role, or the first of them, none of which is ever full."""
    return [_Scope(number) for number in range(most)]


def _service(scopes: int = len(SCOPES), **options: Any) -> LLMService:
    clock = SystemClock()
    guard = Guard(Ledger(), four_scopes(scopes), clock=clock)
    if options.get("breakers"):
        options["breakers"] = Breakers()
    return LLMService({"*": Null()}, guard, clock=clock, **options)


def _request() -> LLMRequest:
    return LLMRequest(PROMPT, MAX_TOKENS)


async def _whole(calls: int, options: dict[str, Any]) -> tuple[list[float], list[float]]:
    backend, service = Null(), _service(**options)
    return await _paired(calls, lambda: backend.generate(_request()), lambda: service.generate(TAGS, _request()))


async def _first(calls: int) -> tuple[list[float], list[float]]:
    backend, service = Null(), _service()

    async def bare() -> None:
        await anext(backend.stream(_request()))

    open_streams = []

    async def ours() -> None:
        stream = service.stream(TAGS, _request())
        await anext(stream)
        open_streams.append(stream)

    found = await _paired(calls, bare, ours)
    for stream in open_streams:
        await stream.answer()
    return found


async def _paired(
    calls: int, bare: Callable[[], Awaitable[object]], ours: Callable[[], Awaitable[object]]
) -> tuple[list[float], list[float]]:
    """Microseconds of each, taking turns."""
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(calls + 50):
        for one, kept in zip((bare, ours), times, strict=True):
            started = time.perf_counter_ns()
            await one()
            took = (time.perf_counter_ns() - started) / 1_000
            if number >= 50:
                kept.append(took)
        await asyncio.sleep(0)
    return times


def _compared(case: str, bare: Sequence[float], ours: Sequence[float]) -> Iterator[Row]:
    for contender, times in (("bare", bare), ("apex", ours)):
        yield _row(case, contender, "p50", statistics.median(times), "us")
    added = [o - b for o, b in zip(ours, bare, strict=True)]
    low, high = median_interval(added)
    yield _row(case, "apex", "added, median", statistics.median(added), "us")
    yield _row(case, "apex", "added, median, from", low, "us")
    yield _row(case, "apex", "added, median, to", high, "us")
    yield _row(case, "apex", "added, p95", at(added, 95), "us")


def _throughput(case: str, calls: int, together: int) -> Iterator[Row]:
    rates: dict[int, list[float]] = {0: [], len(SCOPES): []}
    for pair in range(PAIRS + 1):
        for scopes in sorted(rates, reverse=bool(pair % 2)):
            rate = asyncio.run(_rate(scopes, calls, together))
            if pair:
                rates[scopes].append(rate)
    off, on = rates[0], rates[len(SCOPES)]
    yield _row(case, "scopes off", "calls a second", statistics.median(off), "1/s")
    yield _row(case, "scopes on", "calls a second", statistics.median(on), "1/s")
    ratios = [a / b for a, b in zip(on, off, strict=True)]
    low, high = median_interval(ratios)
    yield _row(case, "scopes on", "ratio to off", statistics.median(ratios), "x")
    yield _row(case, "scopes on", "ratio to off, from", low, "x")
    yield _row(case, "scopes on", "ratio to off, to", high, "x")


async def _rate(scopes: int, calls: int, together: int) -> float:
    """Calls a second of CPU time."""
    service = _service(scopes)

    async def ask(count: int) -> None:
        for _ in range(count):
            await service.generate(TAGS, _request())

    gc.collect()
    started = time.process_time()
    async with asyncio.TaskGroup() as group:
        for _ in range(together):
            group.create_task(ask(calls // together))
    return calls // together * together / (time.process_time() - started)


def _misbehaviours() -> Iterator[Row]:
    from ..testing.misbehaviour import DEADLINE_S, complaints, misbehave
    from ..testing.unruly import MISBEHAVIOURS

    case, modes = "misbehaviours", [(streamed, staged) for streamed in (False, True) for staged in (False, True)]
    logger, level = logging.getLogger("apex_framework.services"), logging.getLogger("apex_framework.services").level
    logger.setLevel(logging.CRITICAL + 1)  # every one of them is told in the log, too
    try:
        found = {
            (how, *mode): misbehave(how, streamed=mode[0], staged=mode[1]) for how in MISBEHAVIOURS for mode in modes
        }
    finally:
        logger.setLevel(level)
    sound = sum(all(not complaints(found[how, *mode]) for mode in modes) for how in MISBEHAVIOURS)
    yield _row(case, "all", "kinds", len(MISBEHAVIOURS), "kinds")
    yield _row(case, "apex", "kinds as promised", sound, "kinds")
    yield _row(case, "apex", "latest after its deadline", max(o.seconds for o in found.values()) - DEADLINE_S, "s")
    left = sum(o.open + o.tasks + o.timers + o.running for o in found.values())
    yield _row(case, "apex", "reservations, tasks, timers and calls left", left, "things")


def _row(case: str, contender: str, metric: str, value: float, unit: str) -> Row:
    return {
        "bench": "llm",
        "case": case,
        "contender": contender,
        "metric": metric,
        "value": round(value, 3),
        "unit": unit,
    }
