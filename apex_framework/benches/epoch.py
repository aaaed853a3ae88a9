"""What the epoch gate costs a message: the integer compare in ``send``, as it stands there, and a whole ``send``.

The compare is timed on a router's own attributes, less the empty loop. A switch under way adds the
hold at the gate, which is shown too.
"""

from __future__ import annotations

import random
import statistics
import timeit
from collections.abc import Iterator
from typing import Any

from ..interfaces import AgentID, Epoch, Member, Message, Roster
from ..ports import SystemClock

ROUNDS = 200_000
REPEATS = 7


def run(args: Any = None) -> Iterator[dict[str, object]]:
    """Rows of bench ``epoch`` in nanoseconds. ``args.n`` is the number of compares per repeat."""
    n = int(getattr(args, "n", None) or ROUNDS)
    router, _, _ = _parts()
    empty = _per_call("for _ in range(n): pass", {"n": n}, n)
    compare = "for _ in range(n):\n    epoch = router._epoch\n    if router._admit != epoch: raise AssertionError"
    yield _row("check in send", "apex", max(_per_call(compare, {"n": n, "router": router}, n) - empty, 0.0))
    yield _row(
        "limit: compare two integers",
        "python",
        _per_call("for _ in range(n):\n    if n is None: pass", {"n": n}, n) - empty,
    )

    few = max(n // 100, 100)
    yield _row("send", "apex", _fresh(lambda r, m: r.send(m), few, shut=False))
    yield _row("send while a switch is under way", "apex", _fresh(lambda r, m: r.send(m), few, shut=True))


def _row(case: str, contender: str, value: float) -> dict[str, object]:
    return {
        "bench": "epoch",
        "case": case,
        "contender": contender,
        "metric": "time",
        "value": round(value, 1),
        "unit": "ns",
    }


def _per_call(statement: str, names: dict[str, Any], n: int) -> float:
    return statistics.median(timeit.repeat(statement, globals=names, number=1, repeat=REPEATS)) / n * 1e9


def _fresh(call: Any, n: int, *, shut: bool) -> float:
    """Median of a call on routers that start empty, so that nothing but the call is measured."""
    taken = []
    for _ in range(REPEATS):
        router, gate, message = _parts()
        if shut:
            gate.shut()
        taken.append(
            timeit.timeit(
                "call(router, message)", globals={"call": call, "router": router, "message": message}, number=n
            )
            / n
            * 1e9
        )
    return statistics.median(taken)


def _parts() -> tuple[Any, Any, Message]:
    from ..plugins import load_plugins
    from ..runtime import Router, RouteTable
    from ..runtime.gate import EpochGate

    catalog = load_plugins().catalog
    members = tuple(Member(AgentID(i), i) for i in ("planner", "coder", "critic"))
    table = RouteTable.compile(catalog.make("topology", "star"), Roster(members, members[0].id))
    lanes, transport = catalog.make("lane", "fifo"), catalog.make("transport", "inproc")
    router = Router(table, lanes=lanes, transport=transport, clock=SystemClock(), rng=random.Random(1))
    message = Message("bench", "m1", AgentID("planner"), AgentID("coder"), Epoch(0), {"text": "x"})
    return router, EpochGate(router), message
