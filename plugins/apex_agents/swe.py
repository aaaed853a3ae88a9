"""The team ``swe``: five roles, each with facts that the others do not have."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, zip_longest
from typing import Final

from apex_framework.interfaces import Agent, AgentID, Brief, Member, Roster

from .coder import Coder
from .critic import Critic
from .planner import Planner
from .runner import Runner
from .summarizer import Summarizer

ROLES: Final = ("planner", "coder", "runner", "critic", "summarizer")

TOOLS: Final[dict[str, frozenset[str]]] = {
    "planner": frozenset({"fs.outline"}),
    "coder": frozenset({"fs.outline", "fs.read", "fs.patch", "fs.write"}),
    "runner": frozenset({"test.discover", "test.run"}),
    "critic": frozenset({"test.discover", "test.run"}),
    "summarizer": frozenset(),
}
"""What each role may use."""

_GROWTH: Final = ("planner", "coder", "runner", "critic", "summarizer", "coder", "runner", "critic", "coder", "runner")


def members(size: int) -> tuple[Member, ...]:
    """Members of a team of 3 to 10, grouped by role. Their ids are ``role``, or ``role1``, ``role2``, … where several
    share it: an id must not be a role's name as well, for that means all of them."""
    if not 3 <= size <= len(_GROWTH):
        raise ValueError(f"team swe has 3 to {len(_GROWTH)} members, not {size}")
    roles = _GROWTH[:size]
    return tuple(
        Member(AgentID(role if roles.count(role) == 1 else f"{role}{n + 1}"), role)
        for role in ROLES
        for n in range(roles.count(role))
    )


def workers(roster: Roster, brief: Brief) -> list[Agent]:
    """One agent per member that has one of the five roles, in roster order."""
    ids = {role: [str(m.id) for m in roster.members if m.role == role] for role in ROLES}
    runners, critics = cycle(ids["runner"]), cycle(ids["critic"] or [""])
    summarizer = next(iter(ids["summarizer"]), "")
    # Not "coder+runner" for all of them: a shape may let a message have two receivers only.
    pairs = tuple("+".join(filter(None, pair)) for pair in zip_longest(ids["coder"], ids["runner"]))
    agents: list[Agent] = []
    for m in roster.members:
        if m.role == "planner":
            agents.append(Planner(m.id, brief.issue, pairs))
        elif m.role == "coder":
            start = sum(isinstance(a, Coder) for a in agents)
            agents.append(Coder(m.id, next(runners), brief.candidates, start))
        elif m.role == "runner":
            agents.append(Runner(m.id, next(critics), summarizer))
        elif m.role == "critic":
            agents.append(Critic(m.id))
        elif m.role == "summarizer":
            agents.append(Summarizer(m.id))
    return agents


class SweTeam:
    """Planner, coder, runner, critic, summarizer; sizes 3 to 10."""

    name = "swe"

    def roster(self, size: int | None = None) -> Roster:
        return Roster(members(size or 5), AgentID("planner"))

    def agents(self, roster: Roster, brief: Brief) -> Sequence[Agent]:
        return workers(roster, brief)

    def tools(self, role: str) -> frozenset[str]:
        return TOOLS[role]
