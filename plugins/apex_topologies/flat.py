"""Flat: direct messages between any two members, with a bounded fan-out."""

from __future__ import annotations

from apex_framework.interfaces import Roster, Routes


class Flat:
    """The complete graph. One message leaves its sender for at most ``fanout`` receivers."""

    name = "flat"

    def __init__(self, fanout: int = 2) -> None:
        if fanout < 1:
            raise ValueError(f"fan-out of {fanout}: a message needs a receiver")
        self._fanout = fanout

    def routes(self, roster: Roster) -> Routes:
        """A member prefers those after it in roster order, round to those before. Raises ValueError below two."""
        if len(roster.members) < 2:
            raise ValueError("a flat team needs at least two members")
        ids = roster.ids
        return Routes({a: ids[i + 1 :] + ids[:i] for i, a in enumerate(ids)}, fanout=self._fanout)
