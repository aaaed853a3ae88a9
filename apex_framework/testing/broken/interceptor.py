"""One broken interceptor per check of the kit: each fails exactly that one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from ...interfaces import Denied, Intercepted, Interceptor, LLMResult, Point, RouteResult, ToolResult

Proceed = Callable[[Intercepted], Awaitable[Any]]


class Sound:
    """An interceptor with nothing wrong: it stands everywhere and does nothing."""

    name = "sound"
    points = frozenset(Point)

    async def around(self, passing: Intercepted, proceed: Proceed) -> Any:
        """Goes on."""
        return await proceed(passing)


class Nameless(Sound):
    """Has an empty name."""

    name = ""


class StandsNowhere(Sound):
    """Has no point."""

    points = frozenset()


class AnswersText(Sound):
    """Answers tool calls with a text."""

    async def around(self, passing: Intercepted, proceed: Proceed) -> Any:
        """Unwraps the result."""
        answer = await proceed(passing)
        return "done" if isinstance(answer, ToolResult) else answer


class TriesTwice(Sound):
    """Sends everything twice."""

    async def around(self, passing: Intercepted, proceed: Proceed) -> Any:
        """Proceeds two times."""
        await proceed(passing)
        return await proceed(passing)


class Masquerades(Sound):
    """Makes every agent the planner."""

    async def around(self, passing: Intercepted, proceed: Proceed) -> Any:
        """Changes the role."""
        return await proceed(replace(passing, role="planner"))


class HidesDenials(Sound):
    """Answers nothing where the budget said no."""

    async def around(self, passing: Intercepted, proceed: Proceed) -> Any:
        """Makes an empty answer of a denial."""
        answer = await proceed(passing)
        return LLMResult("", 0, 0) if isinstance(answer, Denied) else answer


class SwallowsCancellation(Sound):
    """Takes a cancelled sending for a refused one."""

    points = frozenset({Point.SEND})

    async def around(self, passing: Intercepted, proceed: Proceed) -> Any:
        """Catches too much."""
        try:
            return await proceed(passing)
        except asyncio.CancelledError:
            return RouteResult.CLOSED


BROKEN: dict[str, Callable[[], Interceptor]] = {
    "has_a_name": Nameless,
    "stands_at_points": StandsNowhere,
    "answers_in_kind": AnswersText,
    "proceeds_at_most_once": TriesTwice,
    "keeps_the_identity": Masquerades,
    "denials_pass": HidesDenials,
    "cancellation_passes": SwallowsCancellation,
}
"""Check -> an interceptor that fails it."""
