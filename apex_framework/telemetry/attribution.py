"""Where the time of messages, decisions and switches went: parts that add up to the whole.

Stamps are those of the router's monotonic clock (messages, switches) and of the machine's (decisions).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

PARTS = ("gate", "lane", "backoff", "hands")
"""Of a hop: held at the epoch gate; waiting in its receiver's lane; from a refusal by its receiver (nack) to the next
delivery; in its receiver's hands."""

_STATE = {"held": "gate", "routed": "lane", "delivered": "hands", "nacked": "backoff"}
_ENDS = ("acked", "dead")


@dataclass(slots=True)
class _Hop:
    """A hop on its way: since when it is what it is."""

    begun: float
    state: str
    since: float
    receiver: str
    parts: dict[str, float] = field(default_factory=dict)

    def enter(self, state: str, now: float) -> None:
        self.parts[self.state] = self.parts.get(self.state, 0.0) + now - self.since
        self.state, self.since = state, now


class Attribution:
    """Reads a router's events, live or from a trace, and says for every ``every``-th message where its hops' time went.

    Which messages are read depends on their ids alone, so it is the same ones on every machine. Pass it as
    ``on_event``, or feed it rows of a trace afterwards; what is still open has no line.
    """

    def __init__(self, every: int = 1) -> None:
        if every < 1:
            raise ValueError(f"every {every}th message is none")
        self._every = every
        self._hops: dict[int, _Hop] = {}
        self._released: tuple[str, _Hop] | None = None
        self.rows: list[dict[str, Any]] = []
        """One per hop that ended: ids, how it ended, ``total_ms``, ``parts_ms``."""

    def __call__(self, event: Any) -> None:
        """Take a MessageMoved."""
        if self._every == 1 or crc32(event.msg_id.encode()) % self._every == 0:
            self._take(event.msg_id, event.what, event.hop, event.receiver, event.ts, event.reason)

    def read(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Take rows of a trace; those of another form are passed over."""
        for row in rows:
            if "what" not in row or (self._every > 1 and crc32(str(row["msg_id"]).encode()) % self._every):
                continue
            self._take(row["msg_id"], row["what"], row["hop"], row["receiver"], row["ts"], row.get("reason", ""))

    def _take(self, msg_id: str, what: str, hop: int, receiver: str, ts: float, reason: str) -> None:
        if what == "released":
            held = self._hops.pop(hop, None)
            if held is not None:
                held.enter("lane", ts)
                self._released = (msg_id, held)
            return
        # What leaves the gate is routed in the same step: its hops begin where it did.
        before = self._released[1] if self._released and self._released[0] == msg_id and what == "routed" else None
        if before is None or before.since != ts:
            self._released = before = None
        state = _STATE.get(what)
        if what in ("held", "routed"):
            begun = before.begun if before is not None else ts
            self._hops[hop] = _Hop(begun, state or "", ts, receiver, dict(before.parts) if before is not None else {})
        elif (found := self._hops.get(hop)) is None:
            return
        elif state is not None:
            found.enter(state, ts)
        elif what in _ENDS or (what == "migrated" and not receiver):
            del self._hops[hop]
            found.enter("", ts)
            self._end(
                msg_id, hop, found, ts, what if what != "migrated" else "rerouted", reason if what == "dead" else ""
            )

    def _end(self, msg_id: str, number: int, hop: _Hop, now: float, end: str, reason: str) -> None:
        self.rows.append(
            {
                "kind": "message",
                "msg_id": msg_id,
                "hop": number,
                "receiver": hop.receiver,
                "end": f"{end}: {reason}" if reason else end,
                "total_ms": (now - hop.begun) * 1000,
                "parts_ms": {part: hop.parts[part] * 1000 for part in PARTS if part in hop.parts},
            }
        )


def decision_rows(decisions: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Lines of decisions, from rows of decisions.jsonl: seeing, learning from the last one, deciding; wall time."""
    columns = {"observe": "observe_ms", "learn": "learn_ms", "decide": "latency_ms"}
    for row in decisions:
        parts = {part: float(row.get(column) or 0.0) for part, column in columns.items()}
        yield {"kind": "decision", "step": row.get("step"), "total_ms": sum(parts.values()), "parts_ms": parts}


def switch_rows(switches: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Lines of switches, from rows of switches.jsonl: the phases, and what was measured around them as ``other``."""
    for row in switches:
        parts = {str(phase): float(took) for phase, took in (row.get("phase_ms") or {}).items()}
        whole = float(row.get("whole_ms") or sum(parts.values()))
        rest = whole - sum(parts.values())
        if abs(rest) > 1e-9:
            parts["other"] = rest
        yield {"kind": "switch", "step": row.get("step"), "ok": row.get("ok"), "total_ms": whole, "parts_ms": parts}
