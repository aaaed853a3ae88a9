"""Follows every hop of a trace and says which of them its epoch's topology does not have.

It shares no code with the runtime or the topologies: who may speak to whom is written down here once more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from apex_framework.interfaces import EpisodeResult, Roster

Row = Mapping[str, Any]


def edge(topology: str, roster: Roster, holder: str, receiver: str) -> bool:
    """Whether ``holder`` may hand a message to ``receiver``."""
    ids = [str(i) for i in roster.ids]
    if holder == receiver or holder not in ids or receiver not in ids:
        return False
    if topology == "star":
        return str(roster.lead) in (holder, receiver)
    if topology == "chain":
        return ids[(ids.index(holder) + 1) % len(ids)] == receiver
    if topology == "flat":
        return True
    raise AssertionError(f"no rule for {topology}")


def epochs(result: EpisodeResult) -> dict[int, str]:
    """Epoch -> topology in force, from decision 0 and the committed switches."""
    found = {0: str(result.decisions[0]["action"])}
    for row in result.switches:
        if row["ok"]:
            assert row["epoch"] == max(found) + 1 and row["origin"] == found[max(found)]
            found[row["epoch"]] = str(row["target"])
    return found


def strayed(result: EpisodeResult, roster: Roster) -> list[str]:
    """Every hop that its topology does not allow, and every message of a flat epoch with too many first receivers.

    A message that a receiver gives back is not a new hop; it only takes the number of the epoch in which it is tried
    again. A message that waits at a switch keeps its receivers if the new topology has the edges to all of them, and is
    routed anew otherwise, in both cases past the bound on receivers.
    """
    in_force = epochs(result)
    wrong: list[str] = []
    delivered: set[int] = set()
    moved: set[str] = set()
    first_receivers: dict[tuple[str, int], set[str]] = {}
    for row in result.trace:
        topology = in_force[row["epoch"]]
        hop = f"{row['what']} {row['msg_id']} {row['holder']} -> {row['receiver']} in {topology}, epoch {row['epoch']}"
        if row["what"] == "delivered":
            delivered.add(row["hop"])
        elif row["what"] == "migrated":
            moved.add(row["msg_id"])
            if row["receiver"] and row["hop"] not in delivered and not _allowed(topology, roster, row):
                wrong.append(hop)
        elif row["what"] == "routed":
            if not _allowed(topology, roster, row):
                wrong.append(hop)
            if topology == "flat" and row["holder"] == row["origin"]:
                first_receivers.setdefault((row["msg_id"], row["epoch"]), set()).add(row["receiver"])
    wrong += [
        f"{message} has {len(receivers)} receivers in a flat epoch"
        for (message, _), receivers in first_receivers.items()
        if len(receivers) > 2 and message not in moved
    ]
    return wrong


def hops(result: EpisodeResult) -> Sequence[tuple[str, str]]:
    """(holder, receiver) of every hop inside the team."""
    return [(r["holder"], r["receiver"]) for r in result.trace if r["what"] == "routed" and r["holder"] != "user"]


def _allowed(topology: str, roster: Roster, row: Row) -> bool:
    if row["holder"] == "user":  # the task comes from outside, to the lead
        return bool(row["receiver"] == roster.lead)
    return edge(topology, roster, row["holder"], row["receiver"])
