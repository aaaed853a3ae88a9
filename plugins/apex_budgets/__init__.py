"""Budget scopes: ceilings of an episode, of its roles, of a whole run, and of a day."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apex_framework.hookspecs import Add, ApexSpec, hookimpl

if TYPE_CHECKING:
    from apex_framework.interfaces import BudgetScope


def _episode(**options: Any) -> BudgetScope:
    from .episode import EpisodeScope

    return EpisodeScope(**options)


def _role(**options: Any) -> BudgetScope:
    from .role import RoleScope

    return RoleScope(**options)


def _run(**options: Any) -> BudgetScope:
    from .run import RunScope

    return RunScope(**options)


def _day(**options: Any) -> BudgetScope:
    from .day import DayScope

    return DayScope(**options)


class Plugin(ApexSpec):
    """What this package brings."""

    @hookimpl
    def apex_budget_scopes(self, add: Add[BudgetScope]) -> None:
        add("episode", _episode, summary="the token budget of one episode")
        add("role", _role, summary="a ceiling per role within an episode")
        add("run", _run, summary="the token budget of a run, over all its workers")
        add("day", _day, summary="the token budget of a day (UTC), over all processes that share its file")


plugin = Plugin()
