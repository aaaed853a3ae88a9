"""Planner: knows the issue and the map; says where to look."""

from __future__ import annotations

from dataclasses import dataclass, field

from apex_framework.interfaces import AgentContext, AgentID, Message
from apex_framework.interfaces.prompting import Ask, Kind, Section, parse_lines

from . import speech
from .asking import ask
from .facts import Function, map_section, named, project_map, words
from .memory import Memory

MOST_FOCUS = 2


@dataclass
class Planner:
    """Turns the issue into a focus, and a dead end into another one."""

    id: AgentID
    issue: str
    workers: tuple[str, ...] = ("coder+runner",)
    """Audiences of a first focus: each coder with a runner of its own, where there is one."""
    role: str = "planner"
    memory: Memory = field(
        default_factory=lambda: Memory(frozenset({Kind.SUSPICIOUS, Kind.CAUSE, Kind.SUMMARY, Kind.TRIED}))
    )
    _functions: tuple[Function, ...] = ()
    _looked_at: set[str] = field(default_factory=set)

    def overhear(self, message: Message) -> None:
        self.memory.hear(message)

    async def handle(self, message: Message, context: AgentContext) -> None:
        kind = speech.kind_of(message)
        if kind == speech.TASK:
            self._functions = await project_map(context)
            await self._point(context, *self.workers)
        elif kind == speech.STUCK:
            self.memory.hear(message)
            self._looked_at.update(message.payload.get("looked_at", ()))
            await self._point(context, str(message.sender))
        else:
            self.memory.hear(message)

    async def _point(self, context: AgentContext, *audiences: str) -> None:
        focus = await self._locate(context)
        if not focus:
            context.finish("nothing left to look at")
            return
        self._looked_at.update(name for name, _ in focus)
        body = "\n".join(f"{name} | {why}" if why else name for name, why in focus)
        for audience in audiences:
            await context.send(audience, speech.payload(speech.FOCUS, [Section(Kind.FOCUS, body)]))

    async def _locate(self, context: AgentContext) -> list[tuple[str, str]]:
        left = [f for f in self._functions if f.name not in self._looked_at]
        if not left:
            return []
        own = [Section(Kind.ISSUE, self.issue), map_section(left, self.issue)]
        sections, heard = self.memory.recall(own)
        answer = await ask(
            context, Ask.LOCATE, sections, lambda text: parse_lines(text, "FOCUS"), max_tokens=120, heard=heard
        )
        found: dict[str, str] = {}
        for name, why in answer or ():
            function = named(left, name)
            if function:
                found.setdefault(function.name, why)
        return list(found.items())[:MOST_FOCUS] or self._by_words(left)

    def _by_words(self, left: list[Function]) -> list[tuple[str, str]]:
        """Without a usable answer: the functions that share most words with the issue."""
        wanted = words(self.issue)
        ranked = sorted(left, key=lambda f: (-len(words(f.qualname) & wanted), f.path, f.first))
        return [(f.name, "") for f in ranked[:MOST_FOCUS]]
