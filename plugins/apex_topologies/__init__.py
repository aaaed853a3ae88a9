"""Shapes of communication: star, chain and flat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apex_framework.hookspecs import Add, ApexSpec, hookimpl

if TYPE_CHECKING:
    from apex_framework.interfaces import Topology


def _star(**options: Any) -> Topology:
    from .star import Star

    return Star(**options)


def _chain(**options: Any) -> Topology:
    from .chain import Chain

    return Chain(**options)


def _flat(**options: Any) -> Topology:
    from .flat import Flat

    return Flat(**options)


class Topologies(ApexSpec):
    """The built-in topologies."""

    @hookimpl
    def apex_topologies(self, add: Add[Topology]) -> None:
        add("star", _star, summary="everything passes through the lead")
        add("chain", _chain, summary="a cycle in roster order, next hop only")
        add("flat", _flat, summary="everyone to everyone, at most two receivers per message")


plugin = Topologies()
