"""The ring: members sit in a circle, in the order of the roster."""

from __future__ import annotations

from apex_framework import Roster, Routes


class Ring:
    """Each agent may hand a message to its right neighbour, then to its left one; the others are reached through them."""

    name = "ring"

    def routes(self, roster: Roster) -> Routes:
        """Edges to both neighbours. Raises ValueError for fewer than two members."""
        ids = roster.ids
        if len(ids) < 2:
            raise ValueError("a ring needs two members or more")
        edges = {}
        for place, agent in enumerate(ids):
            right, left = ids[(place + 1) % len(ids)], ids[place - 1]
            edges[agent] = (right,) if left == right else (right, left)
        return Routes(edges)
