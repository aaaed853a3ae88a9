"""What our service adds until the first piece of an answer, over a bare client of the same server in the same run.

The servers are ours, on loopback, in a process of their own; they speak vLLM's and Ollama's protocols and answer at once,
so that what is measured is not a model. ``bare client`` asks the same with aiohttp and reads the first line of the answer,
or with Ollama's own client; ``backend`` is our backend without the service; ``apex`` is the service, with deadlines for
its stages and four nested scopes. They take turns call by call; the overhead is the median of the paired differences,
with its 95 % interval by order statistics. ``added cpu`` is the same in this process's CPU time, which other load on the
machine moves less. Counting tokens by asking the server is apart. With ``--backend`` the same for that backend, per role
too, ours against itself alone: there is no bare client that knows its protocol.
"""

from __future__ import annotations

import asyncio
import importlib.util
import statistics
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from time import perf_counter_ns, process_time_ns
from typing import TYPE_CHECKING, Any, Final

from ..errors import BackendError, ConfigError
from .llm import MAX_TOKENS, PROMPT, TAGS, four_scopes
from .models import chosen, opened
from .paired import at, median_interval
from .pooling import server

if TYPE_CHECKING:
    from ..interfaces import LLMBackend, LLMRequest
    from ..services import LLMService

CALLS, WARM_UP = 200, 20
PROTOCOLS: Final = {
    "vLLM": ("vllm", "openai"),
    "Ollama": ("ollama", "ollama"),
}
"""Protocol -> kind of test server, backend."""
_NEEDS: Final = {"openai": "aiohttp", "ollama": "ollama"}

_MESSAGES: Final = [{"role": "user", "content": PROMPT}]

Row = dict[str, object]
Take = Callable[[Callable[[], None]], Awaitable[None]]
"""Make one call, and call what is given when its first piece comes."""
Times = dict[str, list[float]]
"""Contender -> microseconds; also ``cpu of CONTENDER``."""


def run(args: Any = None) -> Iterator[Row]:
    """Rows of bench ``first_byte``. ``args.n`` is the number of calls of each contender, ``args.backend`` a backend of yours."""
    calls = int(getattr(args, "n", None) or CALLS)
    named = getattr(args, "backend", None)
    if named is not None:
        for case, times in asyncio.run(_named(chosen(named), calls)).items():
            yield from _compared(case, times)
        return
    for protocol, (kind, backend) in PROTOCOLS.items():
        if importlib.util.find_spec(_NEEDS[backend]) is None:
            yield _row(f"{protocol} protocol, loopback", _NEEDS[backend], "not installed", 1.0, "")
            continue
        with server(kind) as url:
            times = asyncio.run(_loopback(url, backend, calls))
            yield from _compared(f"{protocol} protocol, loopback", times)
            if kind == "vllm":
                yield from _counting(asyncio.run(_counted(url, calls)))


async def _loopback(url: str, name: str, calls: int) -> Times:
    from ..plugins import load_plugins

    backend = load_plugins(safe_mode=True).catalog.make("llm_backend", f"{name}:tiny", base_url=url)
    service = _service(backend)
    bare = _aiohttp(url) if name == "openai" else _ollama(url)
    try:
        async with bare as take:
            return await _in_turns({"bare client": take, "backend": _alone(backend), "apex": _served(service)}, calls)
    finally:
        await service.close()


@asynccontextmanager
async def _aiohttp(url: str) -> AsyncIterator[Take]:
    import aiohttp

    body = {"model": "tiny", "messages": _MESSAGES, "stream": True, "max_tokens": MAX_TOKENS}
    async with aiohttp.ClientSession() as session:

        async def take(first: Callable[[], None]) -> None:
            async with session.post(f"{url}/chat/completions", json=body) as reply:
                await reply.content.readline()
                first()
                await reply.read()

        yield take


@asynccontextmanager
async def _ollama(url: str) -> AsyncIterator[Take]:
    import ollama

    client = ollama.AsyncClient(host=url)

    async def take(first: Callable[[], None]) -> None:
        options = {"num_predict": MAX_TOKENS}
        async for _ in await client.chat(model="tiny", messages=_MESSAGES, stream=True, options=options):
            first()

    try:
        yield take
    finally:
        await client._client.aclose()


async def _named(roles: Mapping[str, str], calls: int) -> dict[str, Times]:
    async with opened(roles) as models:
        found = {}
        for name, backend in models.backends.items():
            if backend.capabilities.deterministic:
                raise ConfigError(f"backend {name} declares how long its calls take: nothing can be measured")
            found[name] = await _in_turns({"backend": _alone(backend), "apex": _served(_service(backend))}, calls)
        return found


async def _counted(url: str, calls: int) -> list[float]:
    """Microseconds that counting a prompt takes where the server counts."""
    from ..plugins import load_plugins
    from ..services import TokenizerPool

    backend = load_plugins(safe_mode=True).catalog.make("llm_backend", "vllm:tiny", base_url=url)
    pool, taken = TokenizerPool(), []
    for _ in range(WARM_UP + calls):
        began = perf_counter_ns()
        await pool.count(backend, _request())
        taken.append((perf_counter_ns() - began) / 1000)
    await pool.close()
    await backend.close()
    return taken[WARM_UP:]


def _service(backend: LLMBackend) -> LLMService:
    from ..budget import Guard, Ledger
    from ..ports import SystemClock
    from ..services import LLMService

    clock = SystemClock()
    guard = Guard(Ledger(), four_scopes(), clock=clock)
    return LLMService({"*": backend}, guard, clock=clock, first_token_s=30.0, idle_s=30.0)


def _request() -> LLMRequest:
    from ..interfaces import LLMRequest

    return LLMRequest(PROMPT, MAX_TOKENS)


def _alone(backend: LLMBackend) -> Take:
    from ..interfaces import Streams

    async def take(first: Callable[[], None]) -> None:
        if isinstance(backend, Streams):
            async for _ in backend.stream(_request()):
                first()
        else:
            await backend.generate(_request())
            first()

    return take


def _served(service: LLMService) -> Take:
    from ..interfaces import Denied

    async def take(first: Callable[[], None]) -> None:
        async with service.stream(TAGS, _request()) as stream:
            async for _ in stream:
                first()
            answer = await stream.answer()
        if isinstance(answer, Denied) or answer.failure:
            raise BackendError(f"a call failed: {answer if isinstance(answer, Denied) else answer.error}")

    return take


async def _in_turns(contenders: Mapping[str, Take], calls: int) -> Times:
    times: Times = {}
    order = list(contenders.items())
    for number in range(WARM_UP + calls):
        for name, take in order:
            found: list[tuple[int, int]] = []
            began = perf_counter_ns(), process_time_ns()
            await take(lambda found=found: found.append((perf_counter_ns(), process_time_ns())))  # type: ignore[misc]  # bound now
            if not found:
                raise BackendError(f"{name}: an answer without a first piece")
            if number >= WARM_UP:
                wall, cpu = (end - begin for end, begin in zip(found[0], began, strict=True))
                times.setdefault(name, []).append(wall / 1000)
                times.setdefault(f"cpu of {name}", []).append(cpu / 1000)
        order.append(order.pop(0))  # so that nobody is always the first
    return times


def _compared(case: str, times: Times) -> Iterator[Row]:
    below = "bare client" if "bare client" in times else "backend"
    for name in [name for name in ("bare client", "backend", "apex") if name in times]:
        yield _row(case, name, "first piece p50", statistics.median(times[name]), "us")
        yield _row(case, name, "first piece p95", at(times[name], 95), "us")
    for what, of in (("added", ""), ("added cpu", "cpu of ")):
        added = [ours - bare for ours, bare in zip(times[f"{of}apex"], times[of + below], strict=True)]
        low, high = median_interval(added)
        yield _row(case, "apex", f"{what}, median", statistics.median(added), "us")
        yield _row(case, "apex", f"{what}, median, from", low, "us")
        yield _row(case, "apex", f"{what}, median, to", high, "us")
        yield _row(case, "apex", f"{what}, p95", at(added, 95), "us")


def _counting(taken: list[float]) -> Iterator[Row]:
    for share in (50, 95):
        yield _row("counting tokens on the server, apart", "apex", f"p{share}", at(taken, share), "us")


def _row(case: str, contender: str, metric: str, value: float, unit: str) -> Row:
    return {
        "bench": "first_byte",
        "case": case,
        "contender": contender,
        "metric": metric,
        "value": round(value, 3),
        "unit": unit,
    }
