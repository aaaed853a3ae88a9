"""CPU that the framework itself takes per episode, without solver and tests, as messages grow in number.

The team is two agents that pass one message to and fro; every handled message makes one model call to a scripted
backend. Workspace and judge do nothing. Everything else is what a real episode goes through: router, lanes, epoch
gate, budget, session, controller after every step, records. ``asyncio.Queue`` is the limit: the same messages between
two coroutines and nothing else.

Case ``epoch gate`` is the router alone, against the same router with the gate's check cut out of its source.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Any

from ..interfaces import (
    Agent,
    AgentContext,
    AgentID,
    Brief,
    EpisodeJob,
    EpisodeResult,
    Member,
    Message,
    Roster,
    Task,
    Verdict,
    Workspace,
)
from . import gating

SIZES = (25, 50, 100, 200, 400)
ROUNDS = 5


def run(args: Any = None) -> Iterator[dict[str, object]]:
    """Rows of bench ``overhead``: CPU per episode and message, and the straight line through it.

    ``args.n`` is the number of episodes per size; the median counts. CPU is this process's, so other load on the
    machine matters little.
    """
    rounds = max(1, int(getattr(args, "n", None) or ROUNDS))
    contenders: dict[str, Callable[[int], None]] = {"apex": null_episodes(), "asyncio.Queue": _queues}
    for contender, work in contenders.items():
        cpu = []
        for size in SIZES:
            cpu.append(_cpu_ms(work, size, rounds))
            yield _row(f"{size} messages", contender, "cpu per message", round(cpu[-1] / size, 5), "ms")
        slope, intercept, fit = _line(SIZES, cpu)
        yield _row("straight line", contender, "cpu per further message", round(slope, 5), "ms")
        yield _row("straight line", contender, "cpu per episode at no message", round(intercept, 3), "ms")
        yield _row("straight line", contender, "R squared", round(fit, 5), "")
    for contender, metric, value, unit in gating.rows(3 * rounds):
        yield _row("epoch gate", contender, metric, value, unit)


def _row(case: str, contender: str, metric: str, value: float, unit: str) -> dict[str, object]:
    return {"bench": "overhead", "case": case, "contender": contender, "metric": metric, "value": value, "unit": unit}


def _cpu_ms(work: Callable[[int], None], size: int, rounds: int) -> float:
    """Median CPU milliseconds of one episode, after one that is not counted."""
    work(size)
    taken = []
    for _ in range(rounds):
        gc.collect()
        begun = process_time()
        work(size)
        taken.append((process_time() - begun) * 1000)
    return statistics.median(taken)


def _line(xs: Sequence[int], ys: Sequence[float]) -> tuple[float, float, float]:
    """Least squares: slope, intercept, R squared."""
    slope, intercept = statistics.linear_regression(xs, ys)
    mean = statistics.fmean(ys)
    total = sum((y - mean) ** 2 for y in ys)
    rest = sum((y - intercept - slope * x) ** 2 for x, y in zip(xs, ys, strict=True))
    return slope, intercept, 1 - rest / total if total else 1.0


def _queues(messages: int) -> None:
    async def pong(inbox: asyncio.Queue[int], outbox: asyncio.Queue[int]) -> None:
        while (left := await inbox.get()) > 0:
            outbox.put_nowait(left - 1)
        outbox.put_nowait(0)

    async def work() -> None:
        here: asyncio.Queue[int] = asyncio.Queue()
        there: asyncio.Queue[int] = asyncio.Queue()
        here.put_nowait(messages)
        async with asyncio.TaskGroup() as group:
            group.create_task(pong(here, there))
            group.create_task(pong(there, here))

    asyncio.run(work())


def null_episodes(scopes: Sequence[str] = ("episode",), run: Mapping[str, Any] | None = None) -> Callable[[int], None]:
    """A function that runs one null episode with so many messages. Raises AssertionError when it had another number.

    ``scopes`` bound every call; ``run`` is what all jobs of a run share.
    """
    from ..episode.arm import Arm

    do = null_jobs(scopes)

    def work(messages: int) -> None:
        result = do(EpisodeJob(0, Arm("bench").to_json(), str(messages), 0, run or {}))
        assert (result.record["steps"], result.record["calls"]) == (messages, messages), result.record

    return work


def null_jobs(scopes: Sequence[str] = ("episode",)) -> Callable[[EpisodeJob], EpisodeResult]:
    """A function that does null jobs: a task is the number of its messages, an arm no more than its name."""
    from ..episode.arm import Arm
    from ..episode.episode import Episode
    from ..episode.workshop import Workshop
    from ..hookspecs import ApexSpec, hookimpl
    from ..plugins import load_plugins

    class Null(ApexSpec):
        @hookimpl
        def apex_teams(self, add: Any) -> None:
            add("bench_ping_pong", PingPong)

        @hookimpl
        def apex_suites(self, add: Any) -> None:
            add("bench_null", NullSuite)

    plugins = load_plugins(environ={"APEX_PLUGINS": ""}, plugins=[Null()])  # nobody else's plugin is measured
    shop = Workshop(plugins, "bench_null", "dev")

    def work(job: EpisodeJob) -> EpisodeResult:
        messages = int(job.task_id)
        arm = Arm(
            str(job.arm["name"]),
            team="bench_ping_pong",
            controller="phase_heuristic",
            backends={"*": "scripted"},
            backend_options={"remember": False},
            budget=1_000 * messages,
            dwell=messages,
            max_steps=messages + 10,
            scopes=tuple(scopes),
        )
        return Episode(shop, arm, shop.task(job.task_id), replace(job, arm=arm.to_json())).run()

    return work


class PingPong:
    """Two agents that pass one message to and fro and make a model call each time."""

    name = "bench_ping_pong"

    def roster(self, size: int | None = None) -> Roster:
        return Roster((Member(AgentID("ping"), "ping"), Member(AgentID("pong"), "pong")), AgentID("ping"))

    def agents(self, roster: Roster, brief: Brief) -> Sequence[Agent]:
        return [_Player(member.id, member.role, int(brief.task_id)) for member in roster.members]

    def tools(self, role: str) -> frozenset[str]:
        return frozenset()


class _Player:
    def __init__(self, agent: AgentID, role: str, messages: int) -> None:
        self.id, self.role = agent, role
        self._messages = messages

    async def handle(self, message: Message, context: AgentContext) -> None:
        handled = int(message.payload.get("handled", 0)) + 1
        await context.ask(f"message {handled}", max_tokens=8)
        if handled < self._messages:
            await context.send("pong" if self.role == "ping" else "ping", {"handled": handled})
        else:
            context.finish("all messages are handled")

    def overhear(self, message: Message) -> None:
        """Two agents have nobody between them."""


class NullSuite:
    """Tasks named by their number of messages; whatever was done is judged a success."""

    name = "bench_null"
    digest = "0" * 64

    def __init__(self, workspaces: Any = None) -> None:
        self._tasks = [Task(str(n), self.name, "dev", "", cluster=str(n)) for n in range(1, 2_001)]

    def tasks(self, split: str) -> Sequence[Task]:
        return self._tasks

    def workspaces(self) -> _NullWorkspaces:
        return _NullWorkspaces()

    def grade(self, task: Task, workspace: Workspace) -> Verdict:
        return Verdict(True, "null", visible_passed=True)


class _NullWorkspaces:
    def create(self, task: Task) -> Workspace:
        return _NullWorkspace()

    def close(self) -> None:
        """Nothing is held."""


class _NullWorkspace:
    @property
    def root(self) -> Path:
        return Path(tempfile.gettempdir())

    def fork(self) -> Workspace:
        return self

    def commit(self) -> str:
        return "null"

    def rollback(self) -> None:
        """Nothing changes here."""

    def dispose(self) -> None:
        """Nothing is on disk."""

    def diff(self) -> str:
        return ""
