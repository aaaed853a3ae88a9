"""A plugin for APEX: the executor ``ray``, which runs episodes on a Ray cluster."""

from __future__ import annotations

from typing import Any

from apex_framework import ApexSpec, Executor, hookimpl
from apex_framework.hookspecs import Add


class Plugin(ApexSpec):
    """Registers ``ray``."""

    @hookimpl
    def apex_executors(self, add: Add[Executor]) -> None:
        add("ray", _ray, summary="actors on a Ray cluster; one writer, here", requires="ray")


def _ray(**options: Any) -> Executor:
    from .executor import RayExecutor  # only when somebody asks for it: Ray takes a second to import

    return RayExecutor(**options)


plugin = Plugin()
