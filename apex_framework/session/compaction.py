"""Compaction: a journal's content that begins with a copy of the state, instead of all that led to it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..ports import unique
from ..runtime.journal import COMMIT, SwitchState
from ..runtime.recovery import HEADER_BYTES, SLOT_AT, chained, encode, new_file, to_payload
from ..runtime.switchlog import SwitchRecord
from .records import Kind
from .state import State


def compacted(state: State, switch: SwitchState | SwitchRecord | None) -> bytes:
    """A whole journal: the switch in force, and the state piece by piece, nothing bigger than it has to be."""
    epoch = switch.epoch if switch is not None else 0
    records: list[tuple[int, dict[str, Any]]] = [(Kind.KEPT, piece) for piece in state.pieces()]
    if switch is not None:
        target = switch.topology if isinstance(switch, SwitchState) else switch.target
        # After the roster, which it may change.
        records.insert(1, (COMMIT, {"origin": target, "target": target, "roster": asdict(switch.roster)}))
    head = new_file(unique(16))
    assert len(head) == HEADER_BYTES
    parts, tip = [head], chained(head[:SLOT_AT])
    for number, (kind, payload) in enumerate(records, 1):
        # The file is put in place whole, so each record finds those before it on disk.
        record = encode(kind, epoch, number, number - 1, tip, to_payload(payload))
        parts.append(record)
        tip = chained(record)
    return b"".join(parts)
