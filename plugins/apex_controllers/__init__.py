"""Built-in controllers: baselines (static, schedule, phase_heuristic, random_switch) and bandits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apex_framework.hookspecs import ApexSpec, hookimpl

if TYPE_CHECKING:
    from apex_framework.hookspecs import Add
    from apex_framework.interfaces import Controller

__all__ = ["Plugin", "plugin"]


def _static(**options: Any) -> Controller:
    from .static import Static

    return Static(**options)


def _schedule(**options: Any) -> Controller:
    from .schedule import Schedule

    return Schedule(**options)


def _phase_heuristic(**options: Any) -> Controller:
    from .schedule import PhaseHeuristic

    return PhaseHeuristic(**options)


def _random_switch(**options: Any) -> Controller:
    from .random_switch import RandomSwitch

    return RandomSwitch(**options)


def _per_episode(**options: Any) -> Controller:
    from .per_episode import PerEpisode

    return PerEpisode(**options)


def _bandit_v1(**options: Any) -> Controller:
    from .bandit_v1 import BanditV1

    return BanditV1(**options)


def _linucb(**options: Any) -> Controller:
    from .linucb import LinUCB

    return LinUCB(**options)


def _thompson(**options: Any) -> Controller:
    from .thompson import Thompson

    return Thompson(**options)


class Plugin(ApexSpec):
    """Registers the controllers."""

    @hookimpl
    def apex_controllers(self, add: Add[Controller]) -> None:
        """Baselines first, then what learns."""
        add("static", _static, summary="one topology for the whole episode; static:star, static:chain, ...")
        add("schedule", _schedule, summary="a topology per heuristic phase: schedule:planning,implementation,debug")
        add("phase_heuristic", _phase_heuristic, summary="declared phase mapping: star, flat, chain")
        add("random_switch", _random_switch, summary="switches at random at a fixed rate: random_switch:0.1")
        add("per_episode", _per_episode, summary="bandit that chooses once per episode and never switches")
        add("bandit_v1", _bandit_v1, summary="epsilon-greedy ridge over 5 + |topologies| features")
        add("linucb", _linucb, summary="the same ridge, explored by upper confidence bounds")
        add("thompson", _thompson, summary="the same ridge, explored by draws from its posterior")


plugin = Plugin()
