"""Conformance kit of teams."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from ..interfaces import (
    Agent,
    Brief,
    Denied,
    Epoch,
    LLMResult,
    Member,
    Message,
    MessagePriority,
    Roster,
    RouteResult,
    Team,
    ToolResult,
)
from .conformance import run_checks

KIND: Final = "team"
MOST_CALLS: Final = 200
"""Calls that one handled message may make when nothing it gets is of any use."""

Make = Callable[[], Team]


class TooManyCalls(BaseException):
    """An agent goes on for ever. No Exception: agents may handle those."""


@dataclass
class DeskOfRefusal:
    """An AgentContext in which nothing works: every model call gets ``answer`` or a denial, every tool refuses."""

    answer: str | None = None
    sent: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    finished: str = ""
    calls: int = 0
    headroom: float = 0.0

    async def ask(self, prompt: str, *, max_tokens: int, purpose: str = "", heard: str = "") -> LLMResult | Denied:
        """Denied, or the same useless text each time."""
        self._count()
        if self.answer is None:
            return Denied({"episode": "tok_headroom"}, {"episode": 0}, max_tokens)
        return LLMResult(self.answer, 1, 1)

    async def use(self, tool: str, /, **arguments: Any) -> ToolResult:
        """Refused."""
        self._count()
        return ToolResult(False, error="E_POLICY", detail="nothing is allowed here")

    async def send(
        self, audience: str, payload: dict[str, Any], *, priority: MessagePriority = MessagePriority.DRAFT
    ) -> RouteResult:
        """Noted and accepted."""
        self._count()
        self.sent.append((audience, payload))
        return RouteResult.ENQUEUED

    def finish(self, reason: str) -> None:
        """Noted."""
        self.finished = reason or "finished"

    def _count(self) -> None:
        self.calls += 1
        if self.calls > MOST_CALLS:
            raise TooManyCalls


def check_team(make: Make) -> None:
    """Run every check on fresh teams of their usual size. Raises ConformanceError."""
    run_checks(
        KIND,
        {
            "has_a_name": lambda: check_has_a_name(make),
            "members_are_distinct": lambda: check_members_are_distinct(make),
            "lead_is_a_member": lambda: check_lead_is_a_member(make),
            "refuses_an_impossible_size": lambda: check_refuses_an_impossible_size(make),
            "same_size_same_roster": lambda: check_same_size_same_roster(make),
            "one_agent_per_member": lambda: check_one_agent_per_member(make),
            "agents_are_fresh": lambda: check_agents_are_fresh(make),
            "every_role_has_tools": lambda: check_every_role_has_tools(make),
            "lead_acts_on_the_task": lambda: check_lead_acts_on_the_task(make),
            "survives_denials": lambda: check_survives_denials(make),
            "ends_on_nonsense": lambda: check_ends_on_nonsense(make),
            "overhears_in_silence": lambda: check_overhears_in_silence(make),
        },
    )


def check_has_a_name(make: Make) -> None:
    """It says what it is."""
    name = make().name
    assert isinstance(name, str) and name, f"name is {name!r}"


def check_members_are_distinct(make: Make) -> None:
    """At least one member, each with an id of its own and a role."""
    members = make().roster().members
    assert members, "nobody is in it"
    assert len({m.id for m in members}) == len(members), "two members share an id"
    assert all(m.role for m in members), "a member has no role"


def check_lead_is_a_member(make: Make) -> None:
    """The task enters at somebody who is there."""
    roster = make().roster()
    assert roster.lead in roster.ids, f"lead {roster.lead!r} is no member"


def check_refuses_an_impossible_size(make: Make) -> None:
    """A team of -1 is a ValueError."""
    try:
        make().roster(-1)
    except ValueError:
        return
    raise AssertionError("makes a roster of -1 members")


def check_same_size_same_roster(make: Make) -> None:
    """The roster is a pure function of the size."""
    team = make()
    assert team.roster() == team.roster() == make().roster(), "two rosters of the same size differ"


def check_one_agent_per_member(make: Make) -> None:
    """Agents come in roster order, with the ids and roles of the roster."""
    roster, agents = _at_work(make)
    made = tuple(Member(a.id, a.role) for a in agents)
    assert made == roster.members, f"agents {made} for members {roster.members}"


def check_agents_are_fresh(make: Make) -> None:
    """No agent serves two episodes."""
    team = make()
    roster = team.roster()
    first, second = team.agents(roster, _brief()), team.agents(roster, _brief())
    assert not {id(a) for a in first} & {id(a) for a in second}, "an agent is used twice"


def check_every_role_has_tools(make: Make) -> None:
    """``tools`` answers for every role with a frozenset of names."""
    team = make()
    for member in team.roster().members:
        tools = team.tools(member.role)
        named = isinstance(tools, frozenset) and all(isinstance(t, str) for t in tools)
        assert named, f"tools({member.role!r}) is {tools!r}, not a frozenset of names"


def check_lead_acts_on_the_task(make: Make) -> None:
    """Even when nothing works the lead tells somebody or finishes."""
    roster, agents = _at_work(make)
    lead = next(a for a in agents if a.id == roster.lead)
    desk = DeskOfRefusal()
    _handle(lead, {"kind": "task", "sections": []}, desk)
    assert desk.sent or desk.finished, "does nothing with the task"


def check_survives_denials(make: Make) -> None:
    """A strange message under an exhausted budget makes no agent raise."""
    for agent in _at_work(make)[1]:
        try:
            _handle(agent, {"kind": "greeting"}, DeskOfRefusal())
        except TooManyCalls:
            continue  # another check's finding
        except Exception as error:
            raise AssertionError(f"{agent.id} raised {type(error).__name__}: {error}") from error


def check_ends_on_nonsense(make: Make) -> None:
    """Useless answers do not keep the lead busy for ever."""
    roster, agents = _at_work(make)
    lead = next(a for a in agents if a.id == roster.lead)
    try:
        _handle(lead, {"kind": "task", "sections": []}, DeskOfRefusal(answer="I do not know."))
    except TooManyCalls:
        raise AssertionError(f"{lead.id} made more than {MOST_CALLS} calls for one message") from None


def check_overhears_in_silence(make: Make) -> None:
    """What an agent only relays makes it neither raise nor answer."""
    for agent in _at_work(make)[1]:
        try:
            answer: object = agent.overhear(_message(agent, {"kind": "greeting"}))  # type: ignore[func-returns-value]  # the point is that a stranger's may
        except Exception as error:
            raise AssertionError(f"{agent.id} raised {type(error).__name__}: {error}") from error
        assert answer is None, f"{agent.id} answered {answer!r}"


def _brief() -> Brief:
    return Brief("Problem with `f`\n\nf(1) should give 2, but gives 3.", "task-1", 1)


def _at_work(make: Make) -> tuple[Roster, list[Agent]]:
    team = make()
    roster = team.roster()
    return roster, list(team.agents(roster, _brief()))


def _message(agent: Agent, payload: dict[str, Any]) -> Message:
    return Message("e1", "m1", agent.id, agent.id, Epoch(0), payload)


def _handle(agent: Agent, payload: dict[str, Any], desk: DeskOfRefusal) -> None:
    asyncio.run(agent.handle(_message(agent, payload), desk))
