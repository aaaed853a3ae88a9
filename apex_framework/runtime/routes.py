"""The route table: who gets a message next, compiled once per epoch and answered from a dict."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from ..interfaces.message import AgentID
from ..interfaces.topology import Roster, Routes, Topology


@dataclass(frozen=True, slots=True)
class Hop:
    """One step of a delivery: its receiver and what that receiver owes to others."""

    receiver: AgentID
    rest: tuple[AgentID, ...]
    """Members of the audience that are to be served behind this receiver, in roster order."""
    relay: bool
    """True when the receiver itself is not meant."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The first hops towards an audience; ``cut`` bounds how many of them one message may take."""

    hops: tuple[Hop, ...]
    cut: int | None
    unreachable: int
    """Members of the audience to which no path leads."""
    meant: int
    """Members of the audience, the origin not counted."""

    special: bool = False
    """True when somebody is left out: no hops, a fan-out bound, or an unreachable member."""


class RouteTable:
    """Compiled routes of one topology over one roster.

    A message from ``origin`` to an audience travels along the union of the shortest paths from
    ``origin`` to every member meant, ties broken by the order of the edges: a tree, so nobody gets
    it twice. Answers are computed when first asked and kept; plugin code is not involved any more.

    Raises ValueError for edges to strangers, self-loops, duplicate edges, or a fan-out below one.
    """

    __slots__ = ("_edges", "_onward", "_parents", "fanout", "name", "plans", "roster")

    def __init__(self, roster: Roster, routes: Routes, name: str = "") -> None:
        members = set(roster.ids)
        for holder, receivers in routes.edges.items():
            if holder not in members or not members.issuperset(receivers):
                raise ValueError(f"topology {name!r} has an edge at a stranger: {holder} -> {', '.join(receivers)}")
            if holder in receivers or len(set(receivers)) != len(receivers):
                raise ValueError(f"topology {name!r} has a self-loop or a double edge at {holder}")
        if routes.fanout is not None and routes.fanout < 1:
            raise ValueError(f"topology {name!r} has fan-out {routes.fanout}")
        self.roster = roster
        self.name = name
        self.fanout = routes.fanout
        self._edges = {member: tuple(routes.edges.get(member, ())) for member in roster.ids}
        self._parents: dict[AgentID, dict[AgentID, AgentID]] = {}
        self._onward: dict[tuple[AgentID, tuple[AgentID, ...]], Plan] = {}
        self.plans: dict[tuple[AgentID, str], Plan] = {}
        """Answers of ``plan`` so far: the router looks here first."""

    @classmethod
    def compile(cls, topology: Topology, roster: Roster) -> RouteTable:
        """The table of a topology over a roster. Raises what the topology raises, and ValueError."""
        return cls(roster, topology.routes(roster), topology.name)

    def allows(self, holder: AgentID, receiver: AgentID) -> bool:
        """Whether ``holder`` may hand a message to ``receiver``."""
        return receiver in self._edges.get(holder, ())

    def plan(self, origin: AgentID, audience: str) -> Plan:
        """First hops of a message from its origin; empty when nobody else is meant or no path exists."""
        plan = self.plans.get((origin, audience))
        if plan is None:
            targets = tuple(t for t in self.roster.resolve(audience) if t != origin)
            plan = self.onward(origin, targets)
            if self.fanout is not None and len(plan.hops) > self.fanout:
                plan = Plan(plan.hops, self.fanout, plan.unreachable, plan.meant, True)
            self.plans[origin, audience] = plan
        return plan

    def onward(self, holder: AgentID, targets: tuple[AgentID, ...]) -> Plan:
        """Next hops from a holder towards members not yet served; no fan-out bound applies to a relay."""
        plan = self._onward.get((holder, targets))
        if plan is None:
            behind: dict[AgentID, list[AgentID]] = {}
            parents = self._tree(holder)
            for target in targets:
                if target in parents:
                    path = self._path(parents, holder, target)
                    behind.setdefault(path[-1] if path else target, []).append(target)
            hops = tuple(
                Hop(hop, tuple(t for t in behind[hop] if t != hop), hop not in behind[hop])
                for hop in self._edges.get(holder, ())
                if hop in behind
            )
            unreachable = sum(1 for t in targets if t not in parents)
            plan = self._onward[holder, targets] = Plan(
                hops, None, unreachable, len(targets), unreachable > 0 or not hops
            )
        return plan

    def next_hops(self, origin: AgentID, holder: AgentID, audience: str) -> tuple[AgentID, ...]:
        """Receivers to which ``holder`` hands a message of ``origin``; empty where the tree ends or does not lead.

        All of them: the rotation over a fan-out bound is applied by the router, at the origin only.
        """
        plan = self.plan(origin, audience)
        if holder != origin:
            parents = self._tree(origin)
            served = (t for t in self.roster.resolve(audience) if t in parents)
            plan = self.onward(holder, tuple(t for t in served if holder in self._path(parents, origin, t)))
        return tuple(h.receiver for h in plan.hops)

    def _tree(self, root: AgentID) -> dict[AgentID, AgentID]:
        """Breadth-first parents from a root, edges in their order: the first shortest path to each member."""
        parents = self._parents.get(root)
        if parents is None:
            parents = {}
            frontier = deque([root])
            while frontier:
                at = frontier.popleft()
                for receiver in self._edges.get(at, ()):
                    if receiver != root and receiver not in parents:
                        parents[receiver] = at
                        frontier.append(receiver)
            self._parents[root] = parents
        return parents

    @staticmethod
    def _path(parents: dict[AgentID, AgentID], root: AgentID, target: AgentID) -> list[AgentID]:
        """Relays between a root and a target, nearest to the target first."""
        path = []
        at = parents[target]
        while at != root:
            path.append(at)
            at = parents[at]
        return path
