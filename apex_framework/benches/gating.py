"""What the epoch gate costs in throughput: the router as it is, against the same router with the gate's check cut out."""

from __future__ import annotations

import inspect
import random
import statistics
import textwrap
import time
from collections.abc import Callable, Iterator
from typing import Any

from ..interfaces import AgentID, Epoch, Member, Message, Roster
from ..ports import SystemClock

MESSAGES = 5_000
REPEATS = 15
EVERY = 1_000
"""Messages between two switches of the contender that switches."""
RECEIVERS = tuple(AgentID(f"w{i}") for i in range(5))
SENDER = AgentID("planner")


def rows(rounds: int) -> Iterator[tuple[str, str, float, str]]:
    """(contender, metric, value, unit): throughput of one sender and five receivers, and the loss that gating is.

    Contenders take turns; ratios are medians over the rounds of two neighbours.
    """
    works: dict[str, Callable[[], float]] = {
        "gating off": lambda: _throughput(ungated(), 0),
        "gating on": lambda: _throughput(_router(), 0),
        f"gating on, a switch every {EVERY:,} messages": lambda: _throughput(_router(), EVERY),
    }
    rates: dict[str, list[float]] = {name: [] for name in works}
    for number in range(rounds + 1):
        for name, work in works.items():
            seen = work()
            if number:  # the first round warms up
                rates[name].append(seen)
    for name, seen_rates in rates.items():
        yield name, "throughput", round(statistics.median(seen_rates)), "messages/s"
        if name != "gating off":
            pairs = zip(rates["gating off"], seen_rates, strict=True)
            yield name, "throughput delta to gating off", round(statistics.median(b / a - 1 for a, b in pairs), 4), ""


def _router() -> type[Any]:
    from ..runtime import Router

    return Router


def ungated() -> type[Any]:
    """The router with the check of the epoch gate cut out of ``send``. Raises LookupError when it is not found there."""
    from ..runtime import Router, dispatch

    source = textwrap.dedent(inspect.getsource(dispatch.Dispatch.send))
    lines = source.splitlines()
    checks = [number for number, line in enumerate(lines) if line.strip() == "if self._admit != epoch:"]
    if len(checks) != 1 or "self._hold(" not in lines[checks[0] + 1]:
        raise LookupError("the gate's check is not where this bench looks for it: Dispatch.send")
    del lines[checks[0] : checks[0] + 2]
    names: dict[str, Any] = dict(vars(dispatch))
    exec("\n".join(lines), names)
    return type("UngatedRouter", (Router,), {"send": names["send"], "__slots__": ()})


def _throughput(kind: type[Any], every: int) -> float:
    """Messages per second through ``send``, ``try_lease`` and ``ack``, one after the other."""
    from ..plugins import load_plugins
    from ..runtime import RouteTable
    from ..runtime.gate import EpochGate

    catalog = load_plugins(environ={"APEX_PLUGINS": ""}).catalog
    roster = Roster(tuple(Member(agent, agent) for agent in (SENDER, *RECEIVERS)), SENDER)
    table = RouteTable.compile(catalog.make("topology", "flat"), roster)
    lanes, transport = catalog.make("lane", "fifo"), catalog.make("transport", "inproc")
    router = kind(table, lanes=lanes, transport=transport, clock=SystemClock(), rng=random.Random(1))
    gate = EpochGate(router)
    messages = [Message("bench", str(i), SENDER, RECEIVERS[i % 5], Epoch(0), {"text": "x"}) for i in range(MESSAGES)]
    begun = time.perf_counter()
    for number, message in enumerate(messages):
        router.send(message)
        router.ack(router.try_lease(message.recipient))
        if every and number % every == every - 1:
            gate.shut()
            gate.commit(table)
    return MESSAGES / (time.perf_counter() - begun)
