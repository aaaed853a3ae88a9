"""Runner: knows what the tests do; tries candidates without touching the workspace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from apex_framework.interfaces import AgentContext, AgentID, Message
from apex_framework.interfaces.prompting import (
    Ask,
    Candidate,
    GrammarError,
    Kind,
    Section,
    parse_candidates,
    parse_lines,
    render_candidates,
    tried_line,
)

from . import speech
from .asking import ask
from .coder import edits_of
from .facts import SUSPICIOUS_LINES, failing_sections, ochiai, places, suspicious_section
from .memory import Memory


def _sharpened(suspicious: Section, causes: list[tuple[str, int]]) -> Section:
    """The suspicious lines with the diagnosed causes first and certain."""
    scores = dict.fromkeys(causes, 1.0)
    for line in suspicious.body.splitlines():
        at, _, score = line.rpartition(" ")
        path, _, number = at.rpartition(":")
        scores.setdefault((path, int(number)), float(score))
    return suspicious_section([(path, line, score) for (path, line), score in scores.items()][:SUSPICIOUS_LINES])


@dataclass
class Runner:
    """Reports failures with their likely causes, then what became of every candidate."""

    id: AgentID
    critic: str = ""
    """Who reviews a change that passes; empty when nobody does."""
    summarizer: str = ""
    role: str = "runner"
    memory: Memory = field(default_factory=lambda: Memory(frozenset({Kind.TRIED})))
    _baseline: Mapping[str, Any] | None = None

    def overhear(self, message: Message) -> None:
        self.memory.hear(message)

    async def handle(self, message: Message, context: AgentContext) -> None:
        kind = speech.kind_of(message)
        self.memory.hear(message)
        if kind == speech.FOCUS and self._baseline is None:
            await self._report_failures(context)
        elif kind == speech.CANDIDATES:
            notes = [s.body for s in speech.sections_of(message) if s.kind is Kind.NOTE]
            try:
                candidates = parse_candidates("\n".join(notes))
            except GrammarError:
                candidates = ()
            await self._try(context, str(message.sender), candidates)

    async def _report_failures(self, context: AgentContext) -> None:
        result = await context.use("test.run", coverage=True)
        self._baseline = result.value if result.ok else {}
        tests = self._baseline.get("tests", ())
        facts = list(failing_sections(tests))
        suspicious = ochiai(tests, self._baseline.get("coverage") or {})
        if suspicious:
            facts.append(suspicious)
        causes = await self._diagnose(context, facts) if facts else ""
        if causes and suspicious:
            facts[-1] = _sharpened(suspicious, places([Section(Kind.CAUSE, causes)]))
        await context.send("coder", speech.payload(speech.FAILURES, facts))

    async def _diagnose(self, context: AgentContext, facts: list[Section]) -> str:
        sections, heard = self.memory.recall(facts)
        causes = await ask(
            context, Ask.DIAGNOSE, sections, lambda text: parse_lines(text, "CAUSE"), max_tokens=150, heard=heard
        )
        return "\n".join(f"{at} | {why}" for at, why in causes or ())

    async def _try(self, context: AgentContext, coder: str, candidates: tuple[Candidate, ...]) -> None:
        baseline = self._baseline or {}
        before, total = int(baseline.get("passed", 0)), int(baseline.get("total", 0))
        lines: list[str] = []
        best, best_run = before, None
        for candidate in candidates:
            result = await context.use("test.run", edits=edits_of(candidate))
            if not result.ok:
                lines.append(tried_line(candidate, f"not run: {result.error}"))
                continue
            passed = int(result.value["passed"])
            arrow = f"{before}/{total} -> {passed}/{total}" if passed != before else f"{passed}/{total}"
            lines.append(tried_line(candidate, f"pass {arrow}"))
            if total and passed == total:
                await self._pass(context, coder, candidate, lines, result.value)
                return
            if passed > best:
                best, best_run = passed, result.value
        sections = [Section(Kind.TRIED, "\n".join(lines))]
        if best_run is not None:
            sections += failing_sections(best_run["tests"], most=1)
        audience = "+".join(filter(None, (coder, self.summarizer)))
        await context.send(audience, speech.payload(speech.RESULTS, sections, improved=best > before))

    async def _pass(
        self, context: AgentContext, coder: str, candidate: Candidate, lines: list[str], run: Mapping[str, Any]
    ) -> None:
        text = render_candidates([candidate])
        sections = [
            Section(Kind.DIFF, text),
            Section(Kind.PASSING, "\n".join(str(t["id"]) for t in run["tests"])),
            Section(Kind.TRIED, "\n".join(lines)),
        ]
        audience = "+".join(filter(None, (coder, self.critic)))
        await context.send(
            audience, speech.payload(speech.PASSING, sections, candidate=text, coder=coder, reviewed=bool(self.critic))
        )
