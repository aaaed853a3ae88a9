"""Critic: looks for regressions and for changes that only please the tests."""

from __future__ import annotations

from dataclasses import dataclass, field

from apex_framework.interfaces import AgentContext, AgentID, Message, MessagePriority
from apex_framework.interfaces.prompting import Ask, GrammarError, Kind, Section, parse_candidates, parse_lines

from . import speech
from .asking import ask
from .coder import edits_of
from .facts import failing_sections
from .memory import Memory

MOST_REJECTIONS = 2


@dataclass
class Critic:
    """Accepts or rejects a change; after a few rejections it accepts what passes."""

    id: AgentID
    role: str = "critic"
    memory: Memory = field(default_factory=lambda: Memory(frozenset({Kind.CAUSE, Kind.FAILING})))
    _rejections: int = 0

    def overhear(self, message: Message) -> None:
        self.memory.hear(message)

    async def handle(self, message: Message, context: AgentContext) -> None:
        self.memory.hear(message)
        if speech.kind_of(message) == speech.PASSING:
            await self._review(context, message)

    async def _review(self, context: AgentContext, message: Message) -> None:
        candidate = parse_candidates(str(message.payload["candidate"]))[0]
        again = await context.use("test.run", edits=edits_of(candidate))
        own: list[Section] = []
        if again.ok and again.value["passed"] != again.value["total"]:
            own = [
                *failing_sections(again.value["tests"]),
                Section(Kind.NOTE, "A second run does not pass.", "regression"),
            ]
        verdict: tuple[str, str] | None = None
        if self._rejections < MOST_REJECTIONS:
            sections, heard = self.memory.recall(own)
            verdict = await ask(context, Ask.REVIEW, sections, _parse_verdict, max_tokens=100, heard=heard)
        if own or (verdict and verdict[0] == "reject"):
            self._rejections += 1
            why = verdict[1] if verdict else "a second run does not pass"
            await context.send(
                str(message.payload["coder"]), speech.payload(speech.REJECT, [Section(Kind.NOTE, why, "review")])
            )
        else:
            await context.send(
                str(message.payload["coder"]),
                speech.payload(speech.ACCEPT, (), candidate=message.payload["candidate"]),
                priority=MessagePriority.FINAL,
            )


def _parse_verdict(text: str) -> tuple[str, str]:
    """(accept or reject, why). Raises GrammarError."""
    word, why = parse_lines(text, "VERDICT")[0]
    if word not in ("accept", "reject"):
        raise GrammarError("a verdict is accept or reject")
    return word, why
