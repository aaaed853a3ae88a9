"""Tokens a second of any backend: of all calls together, of one call, how long calls take, and until the first piece.

As many callers at once as ``--concurrent`` says, each as another role, take calls from one list until it is empty; every call
goes through the model service, streamed where the backend streams. Two aggregates stand beside each other: the sum of
the callers' own rates (tokens of a caller by the time it spent in calls) and all tokens by the clock on the wall. The first
five calls of every backend are excluded. A backend whose latency is declared, and not its own, says so in its row.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

from .models import Opened, chosen, identity, opened
from .paired import at

if TYPE_CHECKING:
    from ..interfaces import LLMResult
    from ..services import LLMService

CALLS, CONCURRENT, WARM_UP, MAX_TOKENS = 40, 5, 5, 64
DEADLINE_S = 600.0
THINGS = ("queue", "heap", "parser", "cache", "lock", "sorted list", "graph", "hash table", "ring buffer", "trie")

Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class Call:
    """One measured call: seconds to its end and to its first piece, pieces, tokens out; ``failure`` is empty for none."""

    backend: str
    seconds: float
    first_s: float
    pieces: int
    tokens: int
    failure: str = ""


def run(args: Any = None) -> Iterator[Row]:
    """Rows of bench ``tokens``. ``args.n`` calls (40) by ``args.concurrent`` callers (5), prompts and seeds from ``args.seed`` on."""
    calls = int(getattr(args, "n", None) or CALLS)
    together = min(calls, int(getattr(args, "concurrent", None) or CONCURRENT))
    seed = int(getattr(args, "seed", None) or 0)
    yield from asyncio.run(_measured(chosen(getattr(args, "backend", None)), calls, together, seed))


def prompt(seed: int, number: int) -> str:
    """A question of its own for every call, so that no cache of prefixes answers for it."""
    import random

    one, two = random.Random(f"{seed}/{number}").sample(THINGS, 2)
    return f"Question {seed}.{number}: explain what a {one} is, then write a function that tests a {two}."


async def _measured(roles: Mapping[str, str], calls: int, together: int, seed: int) -> list[Row]:
    from ..budget import Guard, Ledger
    from ..ports import SystemClock
    from ..services import LLMService

    async with opened(roles) as models:
        clock = SystemClock()
        service = LLMService(models.by_role(), Guard(Ledger(), [], clock=clock), clock=clock, deadline_s=DEADLINE_S)
        try:
            await service.warm(0)
            rows = [await _identified(name, models, seed) for name in models.backends]
            await _warm_up(service, models, seed)
            lanes, wall_s = await _lanes(service, models, calls, together, seed)
        finally:
            await service.close()
    case = f"{calls:,} calls, {together} at a time"
    for name in models.backends:
        rows += _of_calls(case, name, [call for lane in lanes for call in lane if call.backend == name])
    return rows + _together(case, ", ".join(models.backends), lanes, wall_s)


async def _identified(name: str, models: Opened, seed: int) -> Row:
    """Which model it is; the first row of every backend."""
    backend, found = models.backends[name], await identity(models.backends[name])
    can = backend.capabilities
    timed = "declared" if can.deterministic else "measured"
    said = "" if can.is_llm else f"(no language model, latency {timed})"
    case = " ".join(part for part in (found.model_id, found.quantisation, found.model_digest[:19], said) if part)
    return {
        **_row(case, name, "is a language model", int(can.is_llm), ""),
        "is_llm": can.is_llm,
        "model_id": found.model_id,
        "model_digest": found.model_digest,
        "tokenizer_digest": found.tokenizer_digest,
        "context_tokens": found.context_tokens,
        "quantisation": found.quantisation,
        "server": found.server,
        "determinism": can.determinism,
        "latency": timed,
        "seed": seed,
    }


async def _warm_up(service: LLMService, models: Opened, seed: int) -> None:
    """The first calls of every backend, one after the other. Raises BackendError when all of one's fail."""
    from ..errors import BackendError, Failure

    for name in models.backends:
        role = next(role for role in models.askers() if models.of(role) == name)
        first = [await _call(service, models, role, seed, -number) for number in range(1, WARM_UP + 1)]
        if all(call.failure for call, _ in first):
            _, result = first[-1]
            kind = Failure(result.failure) if result.failure in set(Failure) else Failure.UNKNOWN
            raise BackendError(f"{name}: all of its first {WARM_UP} calls failed: {result.error}", kind=kind)


async def _lanes(
    service: LLMService, models: Opened, calls: int, together: int, seed: int
) -> tuple[list[list[Call]], float]:
    """Calls of each caller, and the seconds that all took."""
    askers, numbers = models.askers(), iter(range(calls))

    async def lane(role: str) -> list[Call]:
        return [(await _call(service, models, role, seed, number))[0] for number in numbers]

    began = perf_counter()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(lane(askers[place % len(askers)])) for place in range(together)]
    return [task.result() for task in tasks], perf_counter() - began


async def _call(service: LLMService, models: Opened, role: str, seed: int, number: int) -> tuple[Call, LLMResult]:
    from ..interfaces import CallTags, LLMRequest, LLMResult

    request = LLMRequest(prompt(seed, number), MAX_TOKENS, seed=seed + max(0, number), role=role)
    began, first, pieces = perf_counter(), 0.0, 0
    async with service.stream(CallTags("bench", "tokens", role, role, 0), request) as stream:
        async for chunk in stream:
            first = first or perf_counter() - began
            pieces += bool(chunk.text)
        answer = await stream.answer()
    seconds = perf_counter() - began
    assert isinstance(answer, LLMResult)  # nothing is bounded here, so nothing is denied
    call = Call(models.of(role), seconds, first or seconds, pieces, answer.tokens_out, answer.failure)
    return call, answer


def _of_calls(case: str, name: str, calls: Sequence[Call]) -> list[Row]:
    good = [call for call in calls if not call.failure]
    rows = [_row(case, name, "calls that failed", len(calls) - len(good), "calls")]
    if not good:
        return rows
    times, firsts = [call.seconds * 1000 for call in good], [call.first_s * 1000 for call in good]
    for metric, values in (("latency", times), ("first token", firsts)):
        rows += [_row(case, name, f"{metric} p{share}", at(values, share), "ms") for share in (50, 99)]
    rates = [call.tokens / call.seconds for call in good if call.seconds]
    rows.append(_row(case, name, "one call p50", statistics.median(rates), "tokens/s"))
    after = [(c.tokens - 1) / (c.seconds - c.first_s) for c in good if c.pieces > 1 and c.seconds > c.first_s]
    if after:
        rows.append(_row(case, name, "after the first token p50", statistics.median(after), "tokens/s"))
    return rows


def _together(case: str, name: str, lanes: Sequence[Sequence[Call]], wall_s: float) -> list[Row]:
    rates = [sum(call.tokens for call in lane) / sum(call.seconds for call in lane) for lane in lanes if lane]
    tokens = sum(call.tokens for lane in lanes for call in lane)
    return [
        _row(case, name, "aggregate, sum of concurrent rates", sum(rates), "tokens/s"),
        _row(case, name, "aggregate, wall clock", tokens / wall_s, "tokens/s"),
        _row(case, name, "tokens generated", tokens, "tokens"),
    ]


def _row(case: str, contender: str, metric: str, value: float, unit: str) -> Row:
    return {
        "bench": "tokens",
        "case": case,
        "contender": contender,
        "metric": metric,
        "value": round(value, 3),
        "unit": unit,
    }
