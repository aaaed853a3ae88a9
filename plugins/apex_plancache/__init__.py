"""Plans that were made once: answers of planner and critic that are served again where the same is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apex_framework.hookspecs import Add, ApexSpec, hookimpl

if TYPE_CHECKING:
    from apex_framework.interfaces import Interceptor


def _plan_cache(spec: str = "") -> Interceptor:
    from .interceptor import PlanCacheInterceptor
    from .settings import settings_of

    return PlanCacheInterceptor(settings_of(spec))


class PlanCache(ApexSpec):
    """The plan cache; off unless an arm names it."""

    @hookimpl
    def apex_interceptors(self, add: Add[Interceptor]) -> None:
        add(
            "plan_cache",
            _plan_cache,
            summary="answers planner and critic from plans made before, where nothing changed",
        )


plugin = PlanCache()
