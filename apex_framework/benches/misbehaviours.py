"""Servers that misbehave, for real: every call ends in time, as what it is, settled, and leaves nothing behind.

Each kind is a server on loopback that answers every request wrongly in that one way (``testing.servers``); one call is
made to it through the model service, whole and streamed, by each backend that speaks its protocol. A kind is as
promised when all its calls are typed, or put right where that can be; end within their deadline and 250 ms; settle their
reservation; and leave no task, connection, file descriptor or child process. Time in which this machine ran nothing of
ours does not count. Virtual time and many more kinds of backend are in bench llm.
"""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import logging
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

CONNECT_S, FIRST_S, IDLE_S, DEADLINE_S = 0.15, 0.2, 0.15, 0.3
GRACE_S: Final = 0.25
PROMPT: Final = "Name the seven days of the week. " * 3
MAX_TOKENS: Final = 48
NEEDS: Final = {"openai": "aiohttp", "ollama": "ollama"}
PUT_RIGHT: Final = frozenset({"too_much", "done_twice", "endless", "text_after_end"})
"""Beside false counts (``usage_...``): kinds after which there may be an answer, cut or counted by us."""

Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class Found:
    """How one call went: what it was told, seconds after its deadline, and complaints, none when all is well."""

    name: str
    told: str
    late_s: float
    complaints: tuple[str, ...]


def run(args: Any = None) -> Iterator[Row]:
    """Rows of bench ``misbehaviours``. ``args.n`` kinds instead of all."""
    from ..testing.servers import MISBEHAVIOURS

    names = list(MISBEHAVIOURS)[: getattr(args, "n", None)]
    speaking = [dialect for dialect, package in NEEDS.items() if importlib.util.find_spec(package) is not None]
    for dialect in NEEDS.keys() - speaking:
        yield _row(dialect, NEEDS[dialect], "not installed", 1.0, "")
    if not speaking:
        return
    with _quiet(), _counted() as leaked:
        found = [one for name in names for one in _kind(name, MISBEHAVIOURS[name], speaking)]
    bad = {one.name: one.complaints for one in found if one.complaints}
    kinds = {one.name for one in found}
    for name, complaints in bad.items():
        yield _row(f"{name}: {'; '.join(complaints)}", "apex", "not as promised", 1, "kinds")
    case = f"{' and '.join(speaking)}, whole and streamed"
    yield _row(case, "all", "kinds", len(kinds), "kinds")
    yield _row(case, "all", "calls", len(found), "calls")
    yield _row(case, "apex", "kinds as promised", len(kinds - bad.keys()), "kinds")
    yield _row(case, "apex", "latest after its deadline", max(one.late_s for one in found), "s")
    yield _row(case, "apex", "file descriptors and children left", leaked[0], "things")


def _kind(name: str, what: Any, speaking: list[str]) -> Iterator[Found]:
    from ..testing.servers import FaultServer

    for dialect in what.dialects:
        for streamed in (False, True)[what.streams :] if dialect in speaking else ():
            with FaultServer(name, dialect=dialect) as server:
                yield asyncio.run(_call(name, dialect, server, streamed))


async def _call(name: str, dialect: str, server: Any, streamed: bool) -> Found:
    from ..budget import Guard, Ledger
    from ..interfaces import CallTags, LLMRequest, LLMResult
    from ..plugins import load_plugins
    from ..ports import LoopClock
    from ..services import LLMService
    from ..testing.misbehaviour import Ceiling

    options = {"connect_s": CONNECT_S, "first_token_s": FIRST_S, "idle_s": IDLE_S, "total_s": DEADLINE_S}
    catalog = load_plugins(safe_mode=True).catalog
    backend = catalog.make("llm_backend", f"{dialect}:tiny", base_url=server.url, **options)
    clock, ledger = LoopClock(asyncio.get_running_loop()), Ledger()
    stages = (FIRST_S, IDLE_S) if streamed else (None, None)
    service = LLMService(
        {"*": backend},
        Guard(ledger, [Ceiling()], clock=clock),
        clock=clock,
        retries=1,
        deadline_s=DEADLINE_S,
        first_token_s=stages[0],
        idle_s=stages[1],
    )
    async with _meter() as taken:
        answer = await service.generate(
            CallTags("run", "ep1", "a1", "coder", 10_000), LLMRequest(PROMPT, MAX_TOKENS, seed=7)
        )
    used, held = ledger.used("episode:ep1"), len(ledger.open)
    await service.close()
    for _ in range(200):  # the server hears of it in its own thread
        if not server.open and len(asyncio.all_tasks()) == 1:
            break
        await asyncio.sleep(0.005)
    told = answer.failure or str(answer.status) if isinstance(answer, LLMResult) else "denied"
    late_s = taken[0] - DEADLINE_S
    left = server.open + len(asyncio.all_tasks()) - 1
    return Found(name, told, late_s, tuple(_complaints(name, answer, late_s, used, held, left)))


def _complaints(name: str, answer: Any, late_s: float, used: int, held: int, left: int) -> Iterator[str]:
    from ..errors import Failure
    from ..interfaces import LLMResult, LLMStatus

    if not isinstance(answer, LLMResult):
        yield "denied"
        return
    sound = answer.status in (LLMStatus.OK, LLMStatus.LENGTH)
    if sound and not (name.startswith("usage_") or name in PUT_RIGHT):
        yield "taken for an answer"
    if not sound and (answer.failure not in set(Failure) or answer.failure == Failure.UNKNOWN or not answer.error):
        yield f"not typed: {answer.failure or answer.status}"
    if late_s > GRACE_S:
        yield f"{1000 * late_s:.0f} ms after its deadline"
    if held:
        yield f"{held} reservations open"
    if used != answer.tokens_in + answer.tokens_out:
        yield f"charged {used}, told {answer.tokens_in} + {answer.tokens_out}"
    if left:
        yield f"{left} tasks and connections left"


@asynccontextmanager
async def _meter() -> AsyncIterator[list[float]]:
    """The seconds that what is inside took, less those in which this process neither ran nor waited for anything.

    What holds up the event loop by computing counts.
    """
    stolen, taken = 0.0, [0.0]

    async def measure() -> None:
        nonlocal stolen
        while True:
            before = time.perf_counter(), time.process_time()
            await asyncio.sleep(0.01)
            wall, busy = time.perf_counter() - before[0], time.process_time() - before[1]
            stolen += max(0.0, wall - 0.02 - busy)

    meter = asyncio.create_task(measure())
    began = time.perf_counter()
    try:
        yield taken
    finally:
        taken[0] = time.perf_counter() - began - stolen
        meter.cancel()
        await asyncio.gather(meter, return_exceptions=True)


@contextmanager
def _counted() -> Iterator[list[int]]:
    """File descriptors and child processes that are there afterwards and were not before; 0 where none can be counted."""
    before, left = _things(), [0]
    yield left
    gc.collect()
    left[0] = max(0, _things() - before)


def _things() -> int:
    descriptors, threads = Path("/proc/self/fd"), Path("/proc/self/task")
    if not descriptors.is_dir():
        return 0
    children = sum(len(path.read_text().split()) for path in threads.glob("*/children"))
    return len(os.listdir(descriptors)) + children


@contextmanager
def _quiet() -> Iterator[None]:
    """Each of these failures is told in the log, too."""
    logger = logging.getLogger("apex_framework.services")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


def _row(case: str, contender: str, metric: str, value: float, unit: str) -> Row:
    return {
        "bench": "misbehaviours",
        "case": case,
        "contender": contender,
        "metric": metric,
        "value": round(value, 3),
        "unit": unit,
    }
