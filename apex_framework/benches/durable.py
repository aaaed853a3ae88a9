"""What durability costs: messages a second of a durable session beside a volatile one, and beside one fsync a message.

``relay``: so many messages go round at a time, each handled, written down and passed on; a message can only go on when it
is on disk, so with one of them every message waits for one sync, with eight they share it. ``stream``: one agent
hands all messages to another at once. ``fsync per message`` writes the same number of records of the same size to
the same folder with one fsync each, and nothing else: what a journal without group commit could do at best.
"""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..interfaces import AgentContext, AgentID, CallTags, Capability, Member, Message, Roster, Workspace

MESSAGES = 2_000
REPEATS = 3
RECORD_BYTES = 400
"""About what a step of this bench takes in the journal."""


def run(args: Any = None) -> Iterator[dict[str, object]]:
    """Rows of bench ``durable``. ``args.n`` is the number of messages of a case."""
    n = int(getattr(args, "n", None) or MESSAGES)
    with tempfile.TemporaryDirectory(prefix="apex-durable-") as folder:
        syncs = [_syncs(Path(folder), n) for _ in range(REPEATS)]
        for case, at_once in (("relay, 1 at a time", 1), ("relay, 8 at a time", 8), ("stream to one agent", 0)):
            rates: dict[str, list[float]] = {"volatile": [], "durable": []}
            for turn in range(REPEATS):
                rates["volatile"].append(_rate(n, at_once, None))
                rates["durable"].append(_rate(n, at_once, Path(folder) / f"{at_once}-{turn}"))
            for contender, seen in (*rates.items(), ("fsync per message", syncs)):
                yield _row(case, contender, "throughput", round(statistics.median(seen)), "messages/s")
            for peer, seen in (("volatile", rates["volatile"]), ("fsync per message", syncs)):
                ratio = statistics.median(a / b for a, b in zip(rates["durable"], seen, strict=True))
                yield _row(case, "durable", f"ratio to {peer}", round(ratio, 3), "x")


def _row(case: str, contender: str, metric: str, value: float, unit: str) -> dict[str, object]:
    return {"bench": "durable", "case": case, "contender": contender, "metric": metric, "value": value, "unit": unit}


@dataclass
class _Member:
    """Passes on what has still to go round; the lead begins."""

    id: AgentID
    role: str
    next: str
    at_once: int
    rounds: int
    handled: int = 0

    async def handle(self, message: Message, context: AgentContext) -> None:
        self.handled += 1
        left = message.payload.get("left")
        if left is None:
            for _ in range(self.at_once or self.rounds):
                await context.send(self.next, {"left": self.rounds if self.at_once else 0, "text": "x" * 100})
        elif left > 1:
            await context.send(self.next, {"left": left - 1, "text": "x" * 100})

    def overhear(self, message: Message) -> None:
        """Nothing is relayed here."""

    def snapshot(self) -> dict[str, Any]:
        """How many it has handled."""
        return {"handled": self.handled}

    def restore(self, state: dict[str, Any]) -> None:
        """Back to that."""
        self.handled = state["handled"]


def _rate(n: int, at_once: int, path: Path | None) -> float:
    """Messages a second of one session; durable with a path."""
    from ..budget import Guard, Ledger
    from ..plugins import load_plugins
    from ..ports import LoopClock
    from ..runtime import Router, RouteTable
    from ..services import LLMService, ToolService
    from ..session import DurableLog, Services, Session
    from ..testing.scripted import ScriptedBackend

    make = load_plugins().catalog.make
    size = max(2, at_once)
    names = [f"w{i}" for i in range(size)]
    rounds = max(1, n // at_once) if at_once else n
    agents = {
        AgentID(name): _Member(AgentID(name), name, names[(i + 1) % size], at_once, rounds)
        for i, name in enumerate(names)
    }
    roster = Roster(tuple(Member(agent.id, agent.role) for agent in agents.values()), AgentID(names[0]))
    workspace: Any = None

    async def main() -> float:
        clock = LoopClock(asyncio.get_running_loop())
        router = Router(
            RouteTable.compile(make("topology", "flat"), roster),
            lanes=make("lane", "fifo"),
            transport=make("transport", "inproc"),
            clock=clock,
            rng=random.Random(1),
        )
        guard = Guard(Ledger(), [make("budget_scope", "episode")], clock=clock)
        llm = LLMService({"*": ScriptedBackend()}, guard, clock=clock)
        services = Services(llm, ToolService({}, clock=clock), guard.headroom)
        log = DurableLog.open(path) if path is not None else None
        session = Session(
            "bench",
            roster,
            agents,
            router,
            services,
            lambda agent: CallTags("", "bench", str(agent.id), agent.role, 0),
            lambda agent: Capability(_none(workspace), frozenset()),
            clock,
            max_steps=10 * n,
            durable=log,
        )
        started = time.perf_counter()
        end = await session.run({})
        elapsed = time.perf_counter() - started
        if log is not None:
            log.close()
        handled = sum(agent.handled for agent in agents.values())
        expected = rounds * (at_once or 1)
        if handled != end.steps or handled < expected:
            raise AssertionError(f"{handled} messages were handled in {end.steps} steps, not {expected}")
        return handled / elapsed

    return asyncio.run(main())


def _none(workspace: Any) -> Workspace:
    """No agent here has a tool, so none has a workspace."""
    found: Workspace = workspace
    return found


def _syncs(folder: Path, n: int) -> float:
    """Records a second when each is synced on its own."""
    fd = os.open(folder / "plain", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        started = time.perf_counter()
        for _ in range(n):
            os.write(fd, b"x" * RECORD_BYTES)
            os.fsync(fd)
        return n / (time.perf_counter() - started)
    finally:
        os.close(fd)
