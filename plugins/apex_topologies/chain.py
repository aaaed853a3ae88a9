"""Chain: a cycle in roster order; a member speaks to the next one only."""

from __future__ import annotations

from apex_framework.interfaces import Roster, Routes


class Chain:
    """One edge from each member to the next, and from the last to the first."""

    name = "chain"

    def routes(self, roster: Roster) -> Routes:
        """Raises ValueError below two members."""
        if len(roster.members) < 2:
            raise ValueError("a chain needs at least two members")
        ids = roster.ids
        return Routes({a: (b,) for a, b in zip(ids, ids[1:] + ids[:1], strict=True)})
