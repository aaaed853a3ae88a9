"""The team ``obedient``: its agents do what the model says, exactly and at once. For tests of everything around them.

An answer that is a JSON object is an order: ``{"tool": name, "arguments": {...}}`` (with ``repeat`` so many times),
``{"send": audience, "payload": {...}}``, ``{"finish": reason}`` or ``{"done": true}``. Any other answer is text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..errors import ApexError
from ..interfaces import Agent, AgentContext, AgentID, Brief, Denied, LLMResult, LLMStatus, Member, Message, Roster

TOOLS: Final[Mapping[str, frozenset[str]]] = {
    "planner": frozenset(("fs.list", "fs.read")),
    "coder": frozenset(
        f"{server}.{name}"
        for server, names in {
            "fs": "read write patch search list outline delete move transaction",
            "git": "status diff log show branch commit merge checkout clone",
        }.items()
        for name in names.split()
    ),
    "runner": frozenset(("fs.read", "test.discover", "test.run")),
}
"""What each role may use."""
MOST_REPEATS: Final = 64
MOST_TEXTS: Final = 100
"""Answers in a row that are no orders, before an agent gives up."""
ANSWER_TOKENS: Final = 2_000_000
LEAST_TOKENS: Final = 64
_TURN: Final = re.compile(r"\Aobedient (\w+), turn (\d+)\n")


@dataclass(slots=True)
class Turn:
    """What one answer led to: codes of its tool calls, what became of its message, or nothing."""

    agent: str
    role: str
    number: int
    codes: list[str] = field(default_factory=list)
    sent: str = ""


@dataclass
class Obedient:
    """One member. It asks what to do until it is told that it is done, and writes a diary."""

    id: AgentID
    role: str
    diary: list[Turn]
    lead: bool = False
    _turns: int = 0
    _at_work: bool = False

    async def handle(self, message: Message, context: AgentContext) -> None:
        """The task, or another agent's word: begin. While it is at work already it only listens."""
        if self._at_work:
            return
        self._at_work = True
        if self.lead:
            await context.send("BROADCAST", {"kind": "go"})
        texts = 0
        while texts < MOST_TEXTS:
            turn = Turn(str(self.id), self.role, self._turns)
            prompt = f"{prompt_of(self.role, self._turns)}Message: {str(message.payload)[:200]}\nWhat next?"
            self._turns += 1
            answer = await _asked(context, prompt)
            if answer is None:
                return
            self.diary.append(turn)
            order = read_order(answer.text)
            texts = 0 if order else texts + 1
            if order.get("done"):
                return
            await _obey(order, turn, context)

    def overhear(self, message: Message) -> None:
        """What it relays is nothing to it."""


async def _asked(context: AgentContext, prompt: str) -> LLMResult | None:
    """The answer, of as many tokens as the budget lets pass; None when there is none to be had."""
    tokens = ANSWER_TOKENS
    while tokens >= LEAST_TOKENS:
        answer = await context.ask(prompt, max_tokens=tokens, purpose="obey")
        if not isinstance(answer, Denied):
            return answer if answer.status in (LLMStatus.OK, LLMStatus.LENGTH) else None
        tokens //= 8
    return None


async def _obey(order: Mapping[str, Any], turn: Turn, context: AgentContext) -> None:
    if isinstance(tool := order.get("tool"), str):
        arguments, repeat = order.get("arguments", {}), order.get("repeat", 1)
        if not isinstance(arguments, dict) or "tool" in arguments:
            return
        for _ in range(min(repeat, MOST_REPEATS) if type(repeat) is int else 1):
            result = await context.use(tool, **arguments)
            turn.codes.append("ok" if result.ok else result.error)
    elif isinstance(audience := order.get("send"), str) and isinstance(payload := order.get("payload"), dict):
        try:
            turn.sent = str(await context.send(audience, payload))
        except ApexError as error:
            turn.sent = error.code
    elif "finish" in order:
        context.finish(str(order["finish"]))


def read_order(text: str) -> dict[str, Any]:
    """The order that an answer is; empty when it is none. Never raises."""
    try:
        order = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return order if isinstance(order, dict) else {}


def prompt_of(role: str, turn: int) -> str:
    """How a prompt of this team begins."""
    return f"obedient {role}, turn {turn}\n"


def turn_of(prompt: str) -> tuple[str, int] | None:
    """Role and turn of a prompt of this team; None for other prompts."""
    found = _TURN.match(prompt)
    return (found[1], int(found[2])) if found else None


class ObedientTeam:
    """Planner (reads), coder (files and git) and runner (tests); sizes 3 to 9. ``diary`` gets every turn."""

    name = "obedient"

    def __init__(self, *, diary: list[Turn] | None = None) -> None:
        self._diary = diary

    def roster(self, size: int | None = None) -> Roster:
        """So many members, at least one of each role. Raises ValueError."""
        size = 3 if size is None else size
        if not 3 <= size <= 9:
            raise ValueError(f"team obedient has 3 to 9 members, not {size}")
        roles = [role for n in range(3) for role in TOOLS if 3 * n + list(TOOLS).index(role) < size]
        counted = {role: roles.count(role) for role in TOOLS}
        members = tuple(
            Member(AgentID(role if n == 1 else f"{role}{k + 1}"), role) for role, n in counted.items() for k in range(n)
        )
        return Roster(members, members[0].id)

    def agents(self, roster: Roster, brief: Brief) -> Sequence[Agent]:
        """Fresh members."""
        diary: list[Turn] = self._diary if self._diary is not None else []
        return [Obedient(m.id, m.role, diary, m.id == roster.lead) for m in roster.members]

    def tools(self, role: str) -> frozenset[str]:
        """What a role may use."""
        return TOOLS.get(role, frozenset())
