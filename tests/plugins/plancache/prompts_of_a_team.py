"""Prompts as a planner and a critic write them, and a door to a model that counts who passes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from apex_framework.events import Event, PlanCacheUsed
from apex_framework.interfaces import Denied, Intercepted, Interceptor, LLMRequest, LLMResult, PlanKey, Point
from apex_framework.interfaces.prompting import Ask, Kind, Section, render_prompt

KEY = PlanKey("shop", "error:typeerror", "planning")
ISSUE = "Problem with `pay` (shop): raises TypeError."
SPANS = {"a.py::pay": (1, 9), "a.py::cart": (10, 19), "b.py::Till.open": (1, 9), "b.py::Till.close": (10, 19)}
ANSWER = "FOCUS a.py::pay | named in the report\nFOCUS a.py::cart | near\nFOCUS b.py::Till.open | near"


def locate(
    *more: Section,
    issue: str = ISSUE,
    offered: Iterable[str] = tuple(SPANS),
    instruction: str = "Where?",
    **request: Any,
) -> LLMRequest:
    """A planner's call: these functions are on the map, and ``more`` was heard."""
    rows = "\n".join(f"{name} {SPANS[name][0]}-{SPANS[name][1]}" for name in offered)
    sections = [Section(Kind.ISSUE, issue), Section(Kind.MAP, rows), *more]
    return LLMRequest(render_prompt(Ask.LOCATE, sections, instruction=instruction), **{"max_tokens": 120, **request})


def review(draft: str, *more: Section, **request: Any) -> LLMRequest:
    """A critic's call about a draft."""
    sections = [Section(Kind.DIFF, draft), Section(Kind.PASSING, "test_pay"), *more]
    return LLMRequest(render_prompt(Ask.REVIEW, sections, instruction="Good?"), **{"max_tokens": 100, **request})


class Door:
    """Lets calls through to a model that answers by role, or always the same thing, and keeps what was told."""

    def __init__(self, interceptor: Interceptor, answer: LLMResult | Denied | Mapping[str, str] | None = None) -> None:
        self.interceptor = interceptor
        self.answer = answer or {"planner": ANSWER, "critic": "VERDICT accept | it mends the cause"}
        self.calls: list[LLMRequest] = []
        self.events: list[Event] = []

    def ask(self, request: LLMRequest, role: str = "planner", key: PlanKey | None = KEY) -> Any:
        """What an agent of this role gets."""

        async def proceed(passing: Intercepted) -> Any:
            self.calls.append(passing.subject)
            if isinstance(self.answer, Mapping):
                return LLMResult(self.answer[passing.role], 500, 50)
            return self.answer

        passing = Intercepted(Point.MODEL_CALL, request, role, role, "e1", "", key, self.events.append)
        return asyncio.run(self.interceptor.around(passing, proceed))

    @property
    def told(self) -> list[str]:
        """What the cache said of itself, in order."""
        return [event.what for event in self.events if isinstance(event, PlanCacheUsed)]
