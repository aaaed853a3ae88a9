"""Model calls of an agent: strict answers, one attempt to repair a malformed one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from apex_framework.interfaces import AgentContext, Denied, LLMStatus
from apex_framework.interfaces.prompting import Ask, GrammarError, Section, render_prompt

from .prompts import INSTRUCTIONS

T = TypeVar("T")


async def ask(
    context: AgentContext,
    what: Ask,
    sections: Iterable[Section],
    parse: Callable[[str], T],
    *,
    max_tokens: int,
    candidates: int = 1,
    heard: str = "",
) -> T | None:
    """The parsed answer, or None when the call was denied, failed, or was malformed twice.

    None is the sign for the caller to take its next scripted action or a cheaper step.
    """
    sections = tuple(sections)
    instruction = INSTRUCTIONS[what].format(candidates=candidates)
    for _ in range(2):
        prompt = render_prompt(what, sections, instruction=instruction, candidates=candidates)
        answer = await context.ask(prompt, max_tokens=max_tokens, purpose=what.value, heard=heard)
        if isinstance(answer, Denied) or answer.status not in (LLMStatus.OK, LLMStatus.LENGTH):
            return None
        try:
            return parse(answer.text)
        except GrammarError as error:
            instruction = (
                f"{INSTRUCTIONS[what].format(candidates=candidates)}\nYour last answer was malformed: {error}."
            )
    return None
