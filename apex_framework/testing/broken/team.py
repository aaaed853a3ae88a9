"""One broken team per check of the kit: each fails exactly that one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...interfaces import Agent, AgentContext, AgentID, Brief, Member, Message, Roster, Team


class Echo:
    """An agent that passes every message on once."""

    def __init__(self, id: AgentID, role: str) -> None:
        self.id, self.role = id, role

    async def handle(self, message: Message, context: AgentContext) -> None:
        """Pass it on."""
        await context.send("worker", message.payload)

    def overhear(self, message: Message) -> None:
        """Nothing."""


class Sound:
    """A team with nothing wrong: a boss and a worker."""

    name = "sound"
    agent: Callable[[AgentID, str], Agent] = Echo

    def roster(self, size: int | None = None) -> Roster:
        """Two members."""
        if size not in (None, 2):
            raise ValueError(f"two members, not {size}")
        return Roster((Member(AgentID("boss"), "boss"), Member(AgentID("worker"), "worker")), AgentID("boss"))

    def agents(self, roster: Roster, brief: Brief) -> Sequence[Agent]:
        """One each."""
        return [type(self).agent(m.id, m.role) for m in roster.members]

    def tools(self, role: str) -> frozenset[str]:
        """None."""
        return frozenset()


class Nameless(Sound):
    """Has an empty name."""

    name = ""


class Twins(Sound):
    """Two members share an id."""

    def roster(self, size: int | None = None) -> Roster:
        """Boss and boss."""
        roster = super().roster(size)
        return Roster((roster.members[0], roster.members[0]), roster.lead)


class Headless(Sound):
    """Its lead is not there; the boss is asked instead."""

    def roster(self, size: int | None = None) -> Roster:
        """A lead from elsewhere."""
        return _LostLead(super().roster(size).members, AgentID("boss"))


class _LostLead(Roster):
    """A roster whose ids leave out the lead."""

    @property
    def ids(self) -> tuple[AgentID, ...]:
        """All but the lead."""
        return tuple(m.id for m in self.members if m.id != self.lead)


class AnySize(Sound):
    """Makes a roster of every size."""

    def roster(self, size: int | None = None) -> Roster:
        """Always the same."""
        return super().roster()


class Growing(Sound):
    """Another roster each time it is asked."""

    made = 0

    def roster(self, size: int | None = None) -> Roster:
        """The worker's role is numbered."""
        if size is not None and size < 0:
            raise ValueError(size)
        type(self).made += 1
        boss, worker = super().roster().members
        return Roster((boss, Member(worker.id, f"worker{type(self).made}")), boss.id)


class Shuffled(Sound):
    """Agents come in another order than members."""

    def agents(self, roster: Roster, brief: Brief) -> Sequence[Agent]:
        """Backwards."""
        return list(reversed(super().agents(roster, brief)))


class Reused(Sound):
    """The same agents for every episode."""

    def __init__(self) -> None:
        self._kept: list[Agent] = []

    def agents(self, roster: Roster, brief: Brief) -> Sequence[Agent]:
        """Made once."""
        self._kept = self._kept or list(super().agents(roster, brief))
        return self._kept


class ListOfTools(Sound):
    """Tools come as a list."""

    def tools(self, role: str) -> Any:
        """Not a frozenset."""
        return ["fs.read"]


class Idle(Echo):
    """Does nothing with a message."""

    async def handle(self, message: Message, context: AgentContext) -> None:
        """Nothing."""


class IdleTeam(Sound):
    """Nobody does anything."""

    agent = Idle


class Proud(Echo):
    """Cannot bear to be denied."""

    async def handle(self, message: Message, context: AgentContext) -> None:
        """Raises when it meets a message that it does not know and there is no budget."""
        await super().handle(message, context)
        if message.payload.get("kind") != "task" and context.headroom == 0.0:
            raise RuntimeError("denied")


class ProudTeam(Sound):
    """Raises without a budget."""

    agent = Proud


class Stubborn(Echo):
    """Asks until it understands the answer."""

    async def handle(self, message: Message, context: AgentContext) -> None:
        """Only a denial stops it."""
        await super().handle(message, context)
        while not hasattr(await context.ask("Well?", max_tokens=10), "reasons"):
            pass


class StubbornTeam(Sound):
    """Never stops asking."""

    agent = Stubborn


class Chatty(Echo):
    """Answers what it should only hear."""

    def overhear(self, message: Message) -> Any:
        """An answer."""
        return "indeed"


class ChattyTeam(Sound):
    """Answers what it overhears."""

    agent = Chatty


BROKEN: dict[str, Callable[[], Team]] = {
    "has_a_name": Nameless,
    "members_are_distinct": Twins,
    "lead_is_a_member": Headless,
    "refuses_an_impossible_size": AnySize,
    "same_size_same_roster": Growing,
    "one_agent_per_member": Shuffled,
    "agents_are_fresh": Reused,
    "every_role_has_tools": ListOfTools,
    "lead_acts_on_the_task": IdleTeam,
    "survives_denials": ProudTeam,
    "ends_on_nonsense": StubbornTeam,
    "overhears_in_silence": ChattyTeam,
}
"""Check -> a team that fails it and no other."""
