"""A plugin for APEX: the topology ``ring``."""

from __future__ import annotations

from apex_framework import ApexSpec, Topology, hookimpl
from apex_framework.hookspecs import Add


class Plugin(ApexSpec):
    """Registers ``ring``."""

    @hookimpl
    def apex_topologies(self, add: Add[Topology]) -> None:
        add("ring", _ring, summary="each agent speaks with its two neighbours")


def _ring() -> Topology:
    from .ring import Ring  # only when somebody asks for a ring

    return Ring()


plugin = Plugin()
