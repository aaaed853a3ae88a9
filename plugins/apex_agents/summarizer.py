"""Summarizer: keeps the history and tells the planner what it amounts to."""

from __future__ import annotations

from dataclasses import dataclass, field

from apex_framework.interfaces import AgentContext, AgentID, Message
from apex_framework.interfaces.prompting import Ask, Kind, Section, parse_lines

from . import speech
from .asking import ask
from .memory import Memory

RESULTS_PER_SUMMARY = 4


@dataclass
class Summarizer:
    """After every few fruitless results it sends the planner a summary."""

    id: AgentID
    role: str = "summarizer"
    memory: Memory = field(default_factory=lambda: Memory(frozenset({Kind.TRIED})))
    _fruitless: int = 0

    def overhear(self, message: Message) -> None:
        self.memory.hear(message)

    async def handle(self, message: Message, context: AgentContext) -> None:
        self.memory.hear(message)
        if speech.kind_of(message) != speech.RESULTS or message.payload.get("improved"):
            return
        self._fruitless += 1
        if self._fruitless % RESULTS_PER_SUMMARY:
            return
        sections, heard = self.memory.recall()
        lines = await ask(
            context, Ask.SUMMARIZE, sections, lambda text: parse_lines(text, "SUMMARY"), max_tokens=150, heard=heard
        )
        if lines:
            body = "\n".join(" | ".join(filter(None, line)) for line in lines)
            await context.send("planner", speech.payload(speech.SUMMARY, [Section(Kind.SUMMARY, body)]))
