"""Star: the lead is the hub; no member speaks to another directly."""

from __future__ import annotations

from apex_framework.interfaces import Roster, Routes


class Star:
    """Edges between the hub and every other member, both ways."""

    name = "star"

    def routes(self, roster: Roster) -> Routes:
        """The hub prefers members in roster order. Raises ValueError below two members."""
        if len(roster.members) < 2:
            raise ValueError("a star needs a hub and at least one more member")
        hub = roster.lead
        spokes = tuple(i for i in roster.ids if i != hub)
        return Routes({hub: spokes, **dict.fromkeys(spokes, (hub,))})
