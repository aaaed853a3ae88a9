"""Teams of agents: ``swe`` (five roles), ``single`` (one agent with all facts) and ``manager`` (a sixth agent delegates)."""

from __future__ import annotations

from typing import Any

from apex_framework.hookspecs import Add, ApexSpec, hookimpl
from apex_framework.interfaces import Team


def _swe(**options: Any) -> Team:
    from .swe import SweTeam

    return SweTeam(**options)


def _single(**options: Any) -> Team:
    from .solo import SingleTeam

    return SingleTeam(**options)


def _manager(**options: Any) -> Team:
    from .manager import ManagerTeam

    return ManagerTeam(**options)


class Agents(ApexSpec):
    """The built-in teams."""

    @hookimpl
    def apex_teams(self, add: Add[Team]) -> None:
        add("swe", _swe, summary="planner, coder, runner, critic and summarizer, each with private facts")
        add("single", _single, summary="one agent with all facts and the same budget")
        add("manager", _manager, summary="the five roles, delegated to by a separate manager")


plugin = Agents()
