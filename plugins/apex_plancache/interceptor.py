"""The interceptor: before a model call of planner or critic it looks for a plan, and keeps what the call answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

from apex_framework.events import PlanCacheUsed
from apex_framework.interfaces import Intercepted, LLMRequest, LLMResult, LLMStatus, Point
from apex_framework.ports import Clock, LoopClock

from .cache import PLAN_VERSION, AgentPlan, LRUPlanCache
from .fitted import read_fitted
from .question import Asked, Question, asked, steps_of
from .settings import CacheSettings

PHASES: Final = ("planning", "implementation", "debug")
"""In the order in which an episode goes through them."""


class PlanCacheInterceptor:
    """One cache; an episode makes one of its own.

    A plan is kept for the phase that it was made in and for later ones, which carry it out, until a later one is made
    there. ``clock`` is that of the running event loop where none is given.
    """

    def __init__(self, settings: CacheSettings | None = None, *, clock: Clock | None = None) -> None:
        self.settings = settings or CacheSettings()
        self._clock = clock
        self.cache: LRUPlanCache[Question] = LRUPlanCache(
            self._now, capacity=self.settings.capacity, ttl_s=self.settings.ttl_s
        )
        path = self.settings.fitted
        self._fitted = read_fitted(path, self.settings.suite, self.settings.match) if path is not None else ()

    @property
    def name(self) -> str:
        return "plan_cache"

    @property
    def points(self) -> frozenset[Point]:
        return frozenset({Point.MODEL_CALL})

    async def around(self, passing: Intercepted, proceed: Callable[[Intercepted], Awaitable[Any]]) -> Any:
        """The answer of a plan where there is one for the same question; else the model's, which is kept if it is whole."""
        request: LLMRequest = passing.subject
        what = asked(request, passing.role, passing.plan, self.settings.match) if passing.plan is not None else None
        if what is None:
            return await proceed(passing)
        self._load()
        plan = self.cache.get(what.question, lambda plan: bool(what.usable(plan.steps)))
        if plan is not None:
            steps = what.usable(plan.steps)
            self._tell(passing, "hit", what.question, steps)
            return LLMResult("\n".join(steps), 0, 0)
        self._tell(passing, "miss", what.question)
        answer = await proceed(passing)
        steps = self._whole(answer, what)
        if steps:
            self._keep(what.question, AgentPlan(steps, created_ts=self._now()))
            self._tell(passing, "put", what.question, steps)
        return answer

    def _whole(self, answer: object, what: Asked) -> tuple[str, ...]:
        """The steps of an answer that came whole; none of one that was denied, failed, was cut, or is malformed."""
        if not isinstance(answer, LLMResult) or answer.status is not LLMStatus.OK or answer.error or answer.failure:
            return ()
        return steps_of(answer.text, what.question.role, what.offered)

    def _keep(self, question: Question, plan: AgentPlan) -> None:
        phase = question.plan.phase
        later = PHASES[PHASES.index(phase) :] if phase in PHASES else (phase,)
        for name in reversed(later):  # its own phase is the one that is looked for first: it goes last
            self.cache.put(replace(question, plan=replace(question.plan, phase=name)), plan)

    def _load(self) -> None:
        """Take in fitted plans, once there is a clock for their age."""
        fitted, self._fitted = self._fitted, ()
        for question, plan in fitted:
            self._keep(question, replace(plan, created_ts=self._now()))

    def _now(self) -> float:
        if self._clock is None:
            self._clock = LoopClock(asyncio.get_running_loop())
        return self._clock.monotonic()

    def _tell(self, passing: Intercepted, what: str, question: Question, steps: tuple[str, ...] = ()) -> None:
        if passing.tell is None:
            return
        key = question.plan
        passing.tell(
            PlanCacheUsed(
                passing.episode_id,
                passing.agent_id,
                passing.role,
                passing.purpose,
                what,
                key.repo_id,
                key.issue_cluster,
                key.phase,
                question.digest,
                steps,
                PLAN_VERSION if steps else "",
            )
        )
