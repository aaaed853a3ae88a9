"""Messages of one episode, from its trace: hops between agents, put into columns in the order in which things happened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from apex_framework.interfaces import BROADCAST

from .lines import Line, lines

MOST = 300
"""Columns of a timeline; what comes after is left to the file of the figure."""


@dataclass(slots=True)
class Hop:
    """One way of a message from a holder to a receiver. Columns count what happened before; -1 is never."""

    msg_id: str
    hop: int
    origin: str
    holder: str
    receiver: str
    audience: str
    epoch: int
    size: int
    sent: int
    sent_s: float
    taken: int = -1
    ended: int = -1
    ended_s: float = 0.0
    end: str = ""
    """acked, or dead with the reason; empty when the trace stops before."""
    relay: bool = False
    """Whether the receiver only passes it on."""


@dataclass(slots=True)
class Trace:
    """Hops in the order of being sent."""

    hops: list[Hop] = field(default_factory=list)
    columns: int = 0
    times: list[float] = field(default_factory=list)
    """Episode time at every column, in seconds."""
    handled: list[int] = field(default_factory=list)
    """Column in which the n-th step ended, counted from one: a message was handled by somebody it was for."""
    epochs: dict[int, int] = field(default_factory=dict)
    """Epoch -> the first column in which a message was sent in it."""


def read_trace(path: Path, roles: Mapping[str, str]) -> Trace:
    """The trace; without hops when there is no file. ``roles`` by agent, where they differ. Raises ArtifactError."""
    trace = Trace()
    by_hop: dict[tuple[str, int], Hop] = {}
    group: tuple[object, ...] = ()
    for line in lines(path):
        if line.text("event") not in ("", "MessageMoved"):
            continue
        what, ts = line.text("what"), line.number("ts")
        key = (line.text("msg_id"), line.whole("hop"))
        if what in ("held", "released"):
            continue
        same = (what, line.text("msg_id"), ts, line.text("holder"))
        if what != "delivered" and (what != "routed" or same != group):
            trace.columns += 1  # copies of one message leave side by side
            trace.times.append(ts)
        group = same
        at = max(0, trace.columns - 1)
        if what == "routed":
            by_hop[key] = _hop(line, key, at, ts, roles)
            trace.hops.append(by_hop[key])
            trace.epochs.setdefault(by_hop[key].epoch, at)
        elif key in by_hop:
            _moved(trace, by_hop[key], what, at, ts, line)
    return trace


def _moved(trace: Trace, hop: Hop, what: str, at: int, ts: float, line: Line) -> None:
    if what == "delivered":
        hop.taken = at if hop.taken < 0 else hop.taken
    elif what == "migrated":
        hop.epoch = line.whole("epoch")
        trace.epochs.setdefault(hop.epoch, at)
    elif what in ("acked", "dead"):
        hop.ended, hop.ended_s = at, ts
        hop.end = what if what == "acked" else f"dead: {line.text('reason') or 'no reason given'}"
        if what == "acked" and not hop.relay:
            trace.handled.append(at)


def _hop(line: Line, key: tuple[str, int], at: int, ts: float, roles: Mapping[str, str]) -> Hop:
    receiver, audience = line.text("receiver"), line.text("audience").split("+")
    meant = not {receiver, roles.get(receiver, receiver), BROADCAST}.isdisjoint(audience)
    return Hop(
        *key,
        line.text("origin"),
        line.text("holder"),
        receiver,
        "+".join(audience),
        line.whole("epoch"),
        line.whole("size"),
        at,
        ts,
        relay=not meant,
    )
