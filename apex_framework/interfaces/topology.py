"""Topology: who may speak to whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from .message import AgentID


@dataclass(frozen=True, slots=True)
class Member:
    """One agent of a team: its unique id and the role it plays."""

    id: AgentID
    role: str


@dataclass(frozen=True, slots=True)
class Roster:
    """The members of a team in their declared order, and the one that leads it.

    ``lead`` is where a task enters the team; hub-like topologies use it as their hub.
    """

    members: tuple[Member, ...]
    lead: AgentID

    @property
    def ids(self) -> tuple[AgentID, ...]:
        """Ids of all members, in roster order."""
        return tuple(m.id for m in self.members)

    def role_of(self, agent: AgentID) -> str:
        """Role of one member. Raises KeyError for a stranger."""
        for m in self.members:
            if m.id == agent:
                return m.role
        raise KeyError(agent)

    def resolve(self, audience: str) -> tuple[AgentID, ...]:
        """Members meant by an audience, in roster order; empty when nobody is.

        A part of an audience (parts are joined by ``+``) is an agent id, a role (all its holders)
        or BROADCAST (everyone).
        """
        parts = set(audience.split("+"))
        everyone = "BROADCAST" in parts
        return tuple(m.id for m in self.members if everyone or m.id in parts or m.role in parts)


@dataclass(frozen=True, slots=True)
class Routes:
    """A directed graph over a roster: who may hand a message to whom.

    ``edges[a]`` lists the members that ``a`` may send to, in order of preference: the kernel walks
    shortest paths and breaks ties by this order. ``fanout`` bounds the receivers that one message
    may have when it leaves its sender (None: no bound); the kernel rotates over a larger audience.
    """

    edges: Mapping[AgentID, tuple[AgentID, ...]]
    fanout: int | None = None


@runtime_checkable
class Topology(Protocol):
    """A shape of communication. Pure: the same roster gives the same routes."""

    @property
    def name(self) -> str:
        """Name under which it is registered."""
        ...

    def routes(self, roster: Roster) -> Routes:
        """Edges for this roster. Called once per switch, in PREPARE; never on the message path.

        Raises ValueError when the roster cannot be served (say, too few members).
        """
        ...
