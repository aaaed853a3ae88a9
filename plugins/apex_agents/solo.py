"""The team ``single``: one agent that knows everything and pays for its own growing history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from apex_framework.interfaces import Agent, AgentContext, AgentID, Brief, Member, Message, Roster
from apex_framework.interfaces.prompting import (
    Ask,
    Candidate,
    Kind,
    Section,
    parse_candidates,
    parse_lines,
    render_candidates,
    tried_line,
)

from . import speech
from .asking import ask
from .coder import ROUNDS_PER_FUNCTION, TOKENS_PER_CANDIDATE, edits_of
from .facts import Function, enclosing, failing_sections, map_section, named, ochiai, places, project_map, source_slice

HISTORY = 4
"""Own answers that are sent again with every prompt, as chat agents do."""


@dataclass
class Solo:
    """Locate, repair, test, in a loop, until something passes or the budget ends."""

    id: AgentID
    issue: str
    candidates: int
    role: str = "single"
    _history: list[Section] = field(default_factory=list)
    _tried: list[str] = field(default_factory=list)

    def overhear(self, message: Message) -> None:
        """Nobody else speaks."""

    async def handle(self, message: Message, context: AgentContext) -> None:
        if speech.kind_of(message) != speech.TASK:
            return
        functions = await project_map(context)
        first = await context.use("test.run", coverage=True)
        baseline = first.value if first.ok else {}
        tests = baseline.get("tests", ())
        facts = [Section(Kind.ISSUE, self.issue), *failing_sections(tests)]
        suspicious = ochiai(tests, baseline.get("coverage") or {})
        if suspicious:
            facts.append(suspicious)
        looked_at: set[str] = set()
        while True:
            left = [f for f in functions if f.name not in looked_at]
            if not left:
                return context.finish("nothing left to look at")
            focus = await self._locate(context, facts, left)
            for function in focus or left[:1]:
                looked_at.add(function.name)
                for _ in range(ROUNDS_PER_FUNCTION):
                    outcome = await self._round(context, facts, functions, function, suspicious, baseline)
                    if outcome == "done":
                        return context.finish("visible tests pass")
                    if outcome == "broke":
                        return context.finish("no budget for another repair")
                    if outcome == "nothing new":
                        break

    async def _locate(self, context: AgentContext, facts: list[Section], left: list[Function]) -> list[Function]:
        sections = [*facts, map_section(left, self.issue), *self._past()]
        answer = await ask(context, Ask.LOCATE, sections, lambda text: parse_lines(text, "FOCUS"), max_tokens=120)
        if answer:
            body = "\n".join(f"FOCUS {name} | {why}" for name, why in answer)
            self._history = [*self._history, Section(Kind.NOTE, body, "my answer")][-HISTORY:]
        return [f for f in (named(left, name) for name, _ in answer or ()) if f]

    async def _round(
        self,
        context: AgentContext,
        facts: list[Section],
        functions: Sequence[Function],
        function: Function,
        suspicious: Section | None,
        baseline: Any,
    ) -> str:
        shown = await self._shown(context, functions, function, suspicious)
        answer: tuple[Candidate, ...] | None = None
        for most in (self.candidates, 1):
            sections = [*shown[: 2 if most > 1 else 1], *facts, *self._past()]
            answer = await ask(
                context,
                Ask.REPAIR,
                sections,
                partial(parse_candidates, most=most),
                max_tokens=TOKENS_PER_CANDIDATE * most + 40,
                candidates=most,
            )
            if answer:
                break
        if answer is None:
            return "broke"
        self._history = [*self._history, Section(Kind.NOTE, render_candidates(answer), "my answer")][-HISTORY:]
        done = {line.rpartition(" | ")[0] for line in self._tried}
        fresh = [c for c in answer if tried_line(c, "").rpartition(" | ")[0] not in done]
        for candidate in fresh:
            if await self._passes(context, candidate, baseline):
                await context.use("fs.patch", edits=edits_of(candidate))
                return "done"
        return "go on" if fresh else "nothing new"

    async def _passes(self, context: AgentContext, candidate: Candidate, baseline: Any) -> bool:
        result = await context.use("test.run", edits=edits_of(candidate))
        if not result.ok:
            self._tried.append(tried_line(candidate, f"not run: {result.error}"))
            return False
        before, passed, total = int(baseline.get("passed", 0)), int(result.value["passed"]), int(result.value["total"])
        arrow = f"{before}/{total} -> {passed}/{total}" if passed != before else f"{passed}/{total}"
        self._tried.append(tried_line(candidate, f"pass {arrow}"))
        return bool(total) and passed == total

    async def _shown(
        self, context: AgentContext, functions: Sequence[Function], function: Function, suspicious: Section | None
    ) -> list[Section]:
        suspects = places([suspicious] if suspicious else [])
        inside = next((n for p, n in suspects if p == function.path and function.first <= n <= function.last), None)
        wanted: dict[Function, int | None] = {function: inside}
        for path, line in suspects:
            other = enclosing(functions, path, line)
            if other and len(wanted) < 2:
                wanted.setdefault(other, line)
        slices = [await source_slice(context, f, about) for f, about in wanted.items()]
        return [s for s in slices if s]

    def _past(self) -> list[Section]:
        tried = [Section(Kind.TRIED, "\n".join(self._tried))] if self._tried else []
        return [*self._history, *tried]


class SingleTeam:
    """One agent; the topology does not matter to it."""

    name = "single"

    def roster(self, size: int | None = None) -> Roster:
        if size not in (None, 1):
            raise ValueError(f"team single has 1 member, not {size}")
        return Roster((Member(AgentID("solo"), "single"),), AgentID("solo"))

    def agents(self, roster: Roster, brief: Brief) -> Sequence[Agent]:
        return [Solo(AgentID("solo"), brief.issue, brief.candidates)]

    def tools(self, role: str) -> frozenset[str]:
        return frozenset({"fs.outline", "fs.read", "fs.patch", "fs.write", "test.discover", "test.run"})
