"""Memory that a switch adds under a backlog, by tracemalloc: at its peak, and what is left of it afterwards."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import Iterator

from ..interfaces import AgentID, Epoch, Member, Message, Roster
from ..ports import SystemClock, rng
from ..runtime import Router, RouteTable, SwitchEngine
from .trial import Parts

WAITING, ARRIVING, BYTES = 10_000, 1_000, 1_024
SENDER, DOOR = AgentID("planner"), AgentID("door")
RECEIVERS = tuple(AgentID(f"w{i}") for i in range(5))
MB = 1e6


def rows(parts: Parts, waiting: int, arriving: int) -> Iterator[tuple[str, str, float, str]]:
    """(contender, metric, value, unit) for a switch that keeps the edges, one that does not, and none."""
    backlog = f"{len(RECEIVERS) * waiting:,} waiting payloads"
    for contender, target in (("no switch", ""), ("flat to star", "star"), ("flat to chain", "chain")):
        peak, left, copied = asyncio.run(_switched(parts, target, waiting, arriving))
        yield contender, "added at the peak", round(peak / MB, 3), "MB"
        yield contender, "added afterwards", round(left / MB, 3), "MB"
        if target:
            yield contender, f"copied of {backlog}", copied, "payloads"


async def _switched(parts: Parts, target: str, waiting: int, arriving: int) -> tuple[int, int, int]:
    """Bytes added at the peak and afterwards, and payloads that wait as other objects than before."""
    members = tuple(Member(agent, agent) for agent in (SENDER, DOOR, *RECEIVERS))
    table = RouteTable.compile(parts.topologies["flat"], Roster(members, SENDER))
    router = Router(
        table,
        lanes=parts.lanes,
        transport=parts.transport,
        clock=SystemClock(),
        rng=rng("switch memory"),
        capacity=waiting + arriving + 1,
    )
    engine = SwitchEngine(
        router, parts.topologies, clock=SystemClock(), on_busy="migrate", deadline_ms=60_000, prepare_deadline_ms=60_000
    )
    tracemalloc.start()
    try:
        for receiver in RECEIVERS:
            for n in range(waiting + 1):
                router.send(_message(n, receiver))
            router.try_lease(receiver)  # everybody is busy: what waits behind them is taken along
        router.send(_message(0, DOOR))  # nobody takes it yet: it holds the switch up while the others arrive
        before = {id(message.payload) for receiver in RECEIVERS for message in router._boxes[receiver].lane}
        new = [_message(waiting + 1 + n, receiver) for receiver in RECEIVERS for n in range(arriving)]
        gc.collect()
        tracemalloc.reset_peak()
        base, _ = tracemalloc.get_traced_memory()
        switching = asyncio.ensure_future(engine.switch_to(target)) if target else None
        await asyncio.sleep(0)
        for message in new:
            router.send(message)
        lease = router.try_lease(DOOR)
        assert lease is not None
        router.ack(lease)
        if switching is not None and not (result := await switching).ok:
            raise AssertionError(f"the switch was aborted: {result.reason} {result.detail}")
        _, peak = tracemalloc.get_traced_memory()
        gc.collect()
        left, _ = tracemalloc.get_traced_memory()
        router.audit()
        kept = sum(id(message.payload) in before for box in router._boxes.values() for message in box.lane)
        return peak - base, left - base, len(RECEIVERS) * waiting - kept
    finally:
        tracemalloc.stop()


def _message(n: int, receiver: AgentID) -> Message:
    text = f"{n:08}{receiver}".ljust(BYTES, "x")
    return Message("bench", f"{receiver}-{n}", SENDER, receiver, Epoch(0), {"text": text}, audience=receiver)
