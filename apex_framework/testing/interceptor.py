"""Conformance kit of interceptors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from ..interfaces import (
    AgentID,
    Denied,
    Epoch,
    Intercepted,
    Interceptor,
    LLMRequest,
    LLMResult,
    Message,
    Point,
    RouteResult,
    ToolResult,
)
from .conformance import run_checks
from .policy import subjects

KIND: Final = "interceptor"

Make = Callable[[], Interceptor]

ANSWERS: Final[dict[Point, tuple[type, ...]]] = {
    Point.SEND: (RouteResult,),
    Point.HANDLE: (type(None),),
    Point.MODEL_CALL: (LLMResult, Denied),
    Point.TOOL_CALL: (ToolResult,),
}
"""What each point returns."""


def check_interceptor(make: Make) -> None:
    """Run every check on fresh interceptors. Raises ConformanceError."""
    run_checks(
        KIND,
        {
            "has_a_name": lambda: check_has_a_name(make),
            "stands_at_points": lambda: check_stands_at_points(make),
            "answers_in_kind": lambda: check_answers_in_kind(make),
            "proceeds_at_most_once": lambda: check_proceeds_at_most_once(make),
            "keeps_the_identity": lambda: check_keeps_the_identity(make),
            "denials_pass": lambda: check_denials_pass(make),
            "cancellation_passes": lambda: check_cancellation_passes(make),
        },
    )


def check_has_a_name(make: Make) -> None:
    """It says what it is: arms switch it off by name."""
    name = make().name
    assert isinstance(name, str) and name, f"name is {name!r}"


def check_stands_at_points(make: Make) -> None:
    """It names at least one point, as Point."""
    points = make().points
    assert isinstance(points, frozenset) and points, f"points are {points!r}"
    assert all(isinstance(p, Point) for p in points), f"points are {points!r}"


def check_answers_in_kind(make: Make) -> None:
    """It returns what the point returns, whether it proceeds or not."""
    for point in _points(make()):
        answer, _ = _pass(make(), point)
        assert isinstance(answer, ANSWERS[point]), f"{point}: {answer!r}"


def check_proceeds_at_most_once(make: Make) -> None:
    """One call stays one call."""
    for point in _points(make()):
        _, passed = _pass(make(), point)
        assert len(passed) <= 1, f"{point}: proceeded {len(passed)} times"


def check_keeps_the_identity(make: Make) -> None:
    """What goes on is at the same point, from the same agent, in the same episode."""
    for point in _points(make()):
        before = passing(point)
        for after in _pass(make(), point)[1]:
            same = (after.point, after.agent_id, after.role, after.episode_id)
            assert same == (before.point, before.agent_id, before.role, before.episode_id), f"{point}: {same}"


def check_denials_pass(make: Make) -> None:
    """The budget's refusal of a model call reaches the agent."""
    if Point.MODEL_CALL in _points(make()):
        denied = Denied({"episode": "tok_headroom"}, {"episode": 1}, 100)
        answer, passed = _pass(make(), Point.MODEL_CALL, denied)
        assert not passed or answer == denied, f"a denial became {answer!r}"


def check_cancellation_passes(make: Make) -> None:
    """A cancelled call is cancelled."""
    for point in _points(make()):
        assert asyncio.run(_cancelled(make(), point)), f"{point}: cancellation was swallowed"


def passing(point: Point) -> Intercepted:
    """Something ordinary at a point."""
    calls = {type(s).__name__: s for s in subjects()}
    message = Message("e1", "m1", AgentID("planner-1"), AgentID("coder-1"), Epoch(0), {"text": "a"}, created_ts=0.0)
    subject: Any = {
        Point.SEND: message,
        Point.HANDLE: message,
        Point.MODEL_CALL: LLMRequest("prompt", max_tokens=100),
        Point.TOOL_CALL: calls["ToolCall"],
    }[point]
    return Intercepted(point, subject, "coder-1", "coder", "e1")


def _points(interceptor: Interceptor) -> list[Point]:
    return sorted(p for p in interceptor.points if isinstance(p, Point))


def _pass(interceptor: Interceptor, point: Point, answer: Any = ...) -> tuple[Any, list[Intercepted]]:
    """The answer at a point, and what went on."""
    passed: list[Intercepted] = []
    usual: dict[Point, Any] = {
        Point.SEND: RouteResult.ENQUEUED,
        Point.HANDLE: None,
        Point.MODEL_CALL: LLMResult("text", 1, 1),
        Point.TOOL_CALL: ToolResult(True),
    }

    async def proceed(what: Intercepted) -> Any:
        passed.append(what)
        await asyncio.sleep(0)
        return usual[point] if answer is ... else answer

    return asyncio.run(interceptor.around(passing(point), proceed)), passed


async def _cancelled(interceptor: Interceptor, point: Point) -> bool:
    """Whether a cancellation in the middle of the call ends it, or the call was answered without proceeding."""
    started = asyncio.Event()

    async def proceed(_what: Intercepted) -> Any:
        started.set()
        await asyncio.Event().wait()

    async with asyncio.timeout(5):
        task = asyncio.ensure_future(interceptor.around(passing(point), proceed))
        waiting = asyncio.ensure_future(started.wait())
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if not started.is_set():
            await task
            return True
        task.cancel()
        await asyncio.wait({task})
        return task.cancelled()
