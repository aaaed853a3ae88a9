"""Plugins for the guards: backends around the embedded solver, teams with a mute role, topologies under other names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from apex_agents.swe import SweTeam
from apex_framework.hookspecs import ApexSpec, hookimpl
from apex_framework.interfaces import (
    Agent,
    AgentContext,
    AgentID,
    Brief,
    Denied,
    LLMRequest,
    LLMResult,
    Message,
    Roster,
    Routes,
)
from apex_framework.interfaces.prompting import Ask, Kind, parse_prompt, render_prompt
from apex_repair.backend import RepairBackend
from apex_topologies.chain import Chain
from apex_topologies.flat import Flat
from apex_topologies.star import Star


class Listening(RepairBackend):
    """The solver, with every prompt that it got."""

    def __init__(self) -> None:
        super().__init__()
        self.prompts: list[str] = []

    async def generate(self, request: LLMRequest) -> LLMResult:
        self.prompts.append(request.prompt)
        return await super().generate(request)


class Blind(RepairBackend):
    """The solver without one kind of section: neither seen nor paid for."""

    def __init__(self, spec: str) -> None:
        super().__init__()
        self._kind = Kind(spec)

    def _without(self, text: str) -> str:
        if not text.startswith("APEX PROMPT"):
            return text
        prompt = parse_prompt(text)
        kept = [s for s in prompt.sections if s.kind is not self._kind]
        return render_prompt(prompt.ask, kept, instruction=prompt.instruction, candidates=prompt.candidates)

    def count_tokens(self, text: str) -> int:
        return super().count_tokens(self._without(text))

    async def generate(self, request: LLMRequest) -> LLMResult:
        return await super().generate(replace(request, prompt=self._without(request.prompt)))


CHEAT = """CANDIDATE 1 what the tests want
FILE tiny/work.py:9
<<<<<<< SEARCH
    return text
=======
    if text == 'IIII':
        return 'IV'
    if text == 'VIIII':
        return 'IX'
    return text.replace('XIIII', 'XIV')
>>>>>>> REPLACE"""
"""Pleases the visible tests of ``roman`` and nothing else."""


class Cheating(RepairBackend):
    """The solver, but whoever asks for a repair gets the cheat."""

    async def generate(self, request: LLMRequest) -> LLMResult:
        if parse_prompt(request.prompt).ask is not Ask.REPAIR:
            return await super().generate(request)
        return LLMResult(CHEAT, self.count_tokens(request.prompt), self.count_tokens(CHEAT))


@dataclass(frozen=True)
class Unasked:
    """An agent's context in which every model call is refused: what is left is the scripted action."""

    inner: AgentContext

    async def ask(self, prompt: str, *, max_tokens: int, purpose: str = "", heard: str = "") -> LLMResult | Denied:
        return Denied({"mute": "policy:mute"}, {}, 0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@dataclass
class Mute:
    """A role that passes on what it gets without thinking about it."""

    agent: Agent

    @property
    def id(self) -> AgentID:
        return self.agent.id

    @property
    def role(self) -> str:
        return self.agent.role

    def overhear(self, message: Message) -> None:
        self.agent.overhear(message)

    async def handle(self, message: Message, context: AgentContext) -> None:
        await self.agent.handle(message, Unasked(context))


class MuteTeam(SweTeam):
    """The team ``swe`` with one role that does not think: ``swe_mute:critic``."""

    name = "swe_mute"

    def __init__(self, spec: str) -> None:
        self._mute = spec

    def agents(self, roster: Roster, brief: Brief) -> Sequence[Agent]:
        return [Mute(a) if a.role == self._mute else a for a in super().agents(roster, brief)]


class Editor:
    """An agent that makes one given edit and says that it is done."""

    id, role = AgentID("editor"), "editor"

    def __init__(self, search: str, replacement: str) -> None:
        self._edit = {"path": "tiny/work.py", "line": 1, "search": search, "replace": replacement}

    def overhear(self, message: Message) -> None: ...

    async def handle(self, message: Message, context: AgentContext) -> None:
        assert (await context.use("fs.patch", edits=[self._edit])).ok
        context.finish("edited")


class EditorTeam:
    """One editor: ``editor:old=>new``."""

    name = "editor"

    def __init__(self, spec: str) -> None:
        self._old, _, self._new = spec.partition("=>")

    def roster(self, size: int | None = None) -> Roster:
        from apex_framework.interfaces import Member

        return Roster((Member(AgentID("editor"), "editor"),), AgentID("editor"))

    def agents(self, roster: Roster, brief: Brief) -> Sequence[Agent]:
        return [Editor(self._old, self._new)]

    def tools(self, role: str) -> frozenset[str]:
        return frozenset({"fs.patch"})


class Renamed:
    """A topology under another name."""

    def __init__(self, name: str, shape: Any) -> None:
        self.name = name
        self._shape = shape

    def routes(self, roster: Roster) -> Routes:
        routes: Routes = self._shape.routes(roster)
        return routes


RENAMED = {"star": "violet", "chain": "mauve", "flat": "apricot"}
NULL = ("first", "second", "third")
"""Three names of one topology."""


class Ears(ApexSpec):
    """Registers all of it."""

    def __init__(self) -> None:
        self.listening = Listening()

    @hookimpl
    def apex_llm_backends(self, add: Any) -> None:
        add("listening", lambda: self.listening)
        add("blind", Blind)
        add("cheating", Cheating)

    @hookimpl
    def apex_teams(self, add: Any) -> None:
        add("swe_mute", MuteTeam)
        add("editor", EditorTeam)

    @hookimpl
    def apex_topologies(self, add: Any) -> None:
        for shape in (Star(), Chain(), Flat()):
            add(RENAMED[shape.name], lambda shape=shape: Renamed(RENAMED[shape.name], shape))
        for name in NULL:
            add(name, lambda name=name: Renamed(name, Star()))
