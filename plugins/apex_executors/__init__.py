"""Executors of APEX: where episodes run."""

from __future__ import annotations

from typing import Any

from apex_framework.hookspecs import Add, ApexSpec, hookimpl
from apex_framework.interfaces import Executor


class Plugin(ApexSpec):
    """Registers ``local``."""

    @hookimpl
    def apex_executors(self, add: Add[Executor]) -> None:
        add("local", _local, summary="processes on this machine; one that dies loses one episode")


def _local(**options: Any) -> Executor:
    from .local import LocalExecutor

    return LocalExecutor(**options)


plugin = Plugin()
