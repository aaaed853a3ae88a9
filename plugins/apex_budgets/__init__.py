"""Budget scopes: the episode's ceiling, and ceilings per role within it."""

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


class Plugin(ApexSpec):
    """What this package brings."""

    @hookimpl
    def apex_budget_scopes(self, add: Add[BudgetScope]) -> None:
        add("episode", _episode, summary="the token budget of one episode")
        add("role", _role, summary="a ceiling per role within an episode")


plugin = Plugin()
