"""One broken topology per check of the kit: each fails exactly that one."""

from __future__ import annotations

from collections.abc import Callable

from ...interfaces import AgentID, Roster, Routes, Topology


class Sound:
    """A topology with nothing wrong: a ring."""

    name = "sound"

    def routes(self, roster: Roster) -> Routes:
        """Each speaks to the next."""
        if len(roster.members) < 2:
            raise ValueError("a ring needs two")
        ids = roster.ids
        return Routes({a: (ids[(i + 1) % len(ids)],) for i, a in enumerate(ids)})


class Nameless(Sound):
    """Has an empty name."""

    name = ""


class RefusesAll(Sound):
    """Serves nobody."""

    def routes(self, roster: Roster) -> Routes:
        """Refuses."""
        raise ValueError("no")


class IndexErrors(Sound):
    """Trips over a small team."""

    def routes(self, roster: Roster) -> Routes:
        """Wants a second member."""
        roster.members[1]
        return super().routes(roster)


class InvitesStrangers(Sound):
    """Speaks to somebody who is not there."""

    def routes(self, roster: Roster) -> Routes:
        """One edge too many."""
        edges = dict(super().routes(roster).edges)
        edges[roster.lead] = (*edges[roster.lead], AgentID("nobody"))
        return Routes(edges)


class SpeaksToItself(Sound):
    """Has self-loops."""

    def routes(self, roster: Roster) -> Routes:
        """Each is its own last choice."""
        return Routes({a: (*receivers, a) for a, receivers in super().routes(roster).edges.items()})


class RepeatsItself(Sound):
    """Names receivers twice."""

    def routes(self, roster: Roster) -> Routes:
        """Each edge twice."""
        return Routes({a: receivers * 2 for a, receivers in super().routes(roster).edges.items()})


class Mutes(Sound):
    """Lets no message out."""

    def routes(self, roster: Roster) -> Routes:
        """A bound of zero."""
        return Routes(super().routes(roster).edges, fanout=0)


class Turns(Sound):
    """Turns round every time it is asked."""

    def __init__(self) -> None:
        self._forward = True

    def routes(self, roster: Roster) -> Routes:
        """A ring in alternating direction."""
        self._forward = not self._forward
        if self._forward:
            return super().routes(roster)
        return super().routes(Roster(roster.members[::-1], roster.lead))


class DeadEnds(Sound):
    """Forgets the way back."""

    def routes(self, roster: Roster) -> Routes:
        """The last speaks to nobody."""
        edges = dict(super().routes(roster).edges)
        del edges[roster.ids[-1]]
        return Routes(edges)


BROKEN: dict[str, Callable[[], Topology]] = {
    "has_a_name": Nameless,
    "serves_some_team": RefusesAll,
    "refuses_with_value_error": IndexErrors,
    "knows_members_only": InvitesStrangers,
    "no_self_loops": SpeaksToItself,
    "no_double_edges": RepeatsItself,
    "fanout_allows_a_receiver": Mutes,
    "same_roster_same_routes": Turns,
    "reaches_everyone": DeadEnds,
}
