"""Coder: knows the source; proposes changes and applies the one that is accepted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from apex_framework.interfaces import AgentContext, AgentID, Message
from apex_framework.interfaces.prompting import (
    Ask,
    Candidate,
    Kind,
    Section,
    parse_candidates,
    render_candidates,
    tried_line,
)

from . import speech
from .asking import ask
from .facts import Function, enclosing, named, places, project_map, source_slice
from .memory import Memory

ROUNDS_PER_FUNCTION = 2
TOKENS_PER_CANDIDATE = 75
MOST_FUNCTIONS = 2


def edits_of(candidate: Candidate) -> list[dict[str, Any]]:
    """A candidate's edits as tool arguments."""
    return [asdict(e) for e in candidate.edits]


def _about(shown: list[Section]) -> tuple[str, int, int]:
    """Path and line range of the source that is shown."""
    at = shown[0].label.split()[0]
    path, _, first = at.rpartition(":")
    return path, int(first), int(first) + len(shown[0].body.splitlines()) - 1


@dataclass
class Coder:
    """Works through the functions in focus, a few rounds each, and says so when it is stuck."""

    id: AgentID
    runner: str
    candidates: int
    start: int = 0
    """Which function of a focus to begin with, so that several coders do not all do the same."""
    role: str = "coder"
    memory: Memory = field(default_factory=lambda: Memory(frozenset({Kind.SUSPICIOUS, Kind.FAILING, Kind.TRIED})))
    _functions: tuple[Function, ...] = ()
    _focus: list[Function] = field(default_factory=list)
    _looked_at: dict[str, None] = field(default_factory=dict)
    _rounds: int = 0
    _told: bool = False
    _fallback: Candidate | None = None
    _before: dict[str, str] = field(default_factory=dict)

    def overhear(self, message: Message) -> None:
        self.memory.hear(message)

    async def handle(self, message: Message, context: AgentContext) -> None:
        kind = speech.kind_of(message)
        self.memory.hear(message)
        if not self._functions:
            self._functions = await project_map(context)
        if kind == speech.FOCUS:
            self._take_focus(message)
            if self._told:
                await self._repair(context)
        elif kind == speech.FAILURES:
            self._told = True
            self._order_by_evidence()
            await self._repair(context)
        elif kind == speech.RESULTS:
            self._rounds = 0 if message.payload.get("improved") else self._rounds + 1
            await self._repair(context)
        elif kind == speech.PASSING:
            candidate = parse_candidates(str(message.payload["candidate"]))[0]
            await self._apply(context, candidate)
            if not message.payload.get("reviewed"):
                context.finish("visible tests pass")
        elif kind == speech.ACCEPT:
            if not self._before:  # the verdict overtook the change on its way
                await self._apply(context, parse_candidates(str(message.payload["candidate"]))[0])
            context.finish("change accepted")
        elif kind == speech.REJECT:
            await self._undo(context)
            self._rounds += 1
            await self._repair(context)

    def _take_focus(self, message: Message) -> None:
        names = [
            line.split(" | ")[0]
            for s in speech.sections_of(message)
            if s.kind is Kind.FOCUS
            for line in s.body.splitlines()
        ]
        self._focus = [f for f in (named(self._functions, n) for n in names) if f and f.name not in self._looked_at]
        self._rounds = 0

    def _order_by_evidence(self) -> None:
        """Functions in focus that hold suspicious lines come first, then other suspects, then the rest of the focus."""
        suspects = [enclosing(self._functions, path, line) for path, line in self._suspects()]
        suspected = list(dict.fromkeys(f for f in suspects if f))
        both = [f for f in self._focus if f in suspected]
        self._focus = list(dict.fromkeys([*both, *suspected, *self._focus]))[:MOST_FUNCTIONS]
        turn = self.start % max(1, len(self._focus))
        self._focus = self._focus[turn:] + self._focus[:turn]

    async def _repair(self, context: AgentContext) -> None:
        if self._rounds >= ROUNDS_PER_FUNCTION:
            self._leave_function()
        if self._focus or not self._looked_at:
            for most in (self.candidates, 1):
                shown = await self._shown(context)
                if not shown:
                    break
                sections, heard = self.memory.recall(shown, about=_about(shown))
                answer = await ask(
                    context,
                    Ask.REPAIR,
                    sections,
                    partial(parse_candidates, most=most),
                    max_tokens=TOKENS_PER_CANDIDATE * most + 40,
                    candidates=most,
                    heard=heard,
                )
                fresh = self._untried(answer or ())
                if fresh:
                    note = Section(Kind.NOTE, render_candidates(fresh), "candidates")
                    await context.send(self.runner, speech.payload(speech.CANDIDATES, [note]))
                    return
                if answer is not None:
                    self._leave_function()
                    await self._repair(context)
                    return
            if shown:
                await self._give_up(context)
                return
        await self._ask_for_help(context)

    def _leave_function(self) -> None:
        self._rounds = 0
        if self._focus:
            self._looked_at[self._focus.pop(0).name] = None
        else:
            for path, line in self._suspects()[:1]:
                function = enclosing(self._functions, path, line)
                if function:
                    self._looked_at[function.name] = None

    def _suspects(self) -> list[tuple[str, int]]:
        return places(self.memory.of(Kind.SUSPICIOUS))

    async def _shown(self, context: AgentContext) -> list[Section]:
        """The source of the function in focus; without a focus, of the most suspicious one."""
        suspects = self._suspects()
        if self._focus:
            here = self._focus[0]
            about = next((n for p, n in suspects if p == here.path and here.first <= n <= here.last), None)
            shown = await source_slice(context, here, about)
            return [shown] if shown else []
        for path, line in suspects:
            function = enclosing(self._functions, path, line)
            if function and function.name not in self._looked_at:
                shown = await source_slice(context, function, line)
                return [shown] if shown else []
        return []

    def _untried(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        done = {line.rpartition(" | ")[0] for line in self.memory.tried}
        return [c for c in candidates if tried_line(c, "").rpartition(" | ")[0] not in done]

    async def _ask_for_help(self, context: AgentContext) -> None:
        note = Section(Kind.NOTE, "No progress in: " + ", ".join(self._looked_at), "stuck")
        await context.send("planner", speech.payload(speech.STUCK, [note], looked_at=list(self._looked_at)))

    async def _give_up(self, context: AgentContext) -> None:
        """The budget pays for no more repair: keep the best change there is."""
        if self._fallback:
            await self._apply(context, self._fallback)
        context.finish("no budget for another repair")

    async def _apply(self, context: AgentContext, candidate: Candidate) -> None:
        for path in {e.path for e in candidate.edits}:
            result = await context.use("fs.read", path=path)
            if result.ok:
                self._before[path] = str(result.value["text"])
        if (await context.use("fs.patch", edits=edits_of(candidate))).ok:
            self._fallback = candidate

    async def _undo(self, context: AgentContext) -> None:
        for path, text in self._before.items():
            await context.use("fs.write", path=path, text=text)
        self._before = {}
