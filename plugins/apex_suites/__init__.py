"""Sets of tasks. ``mini`` is made on the spot from the user's own standard library."""

from __future__ import annotations

from typing import Any

from apex_framework.hookspecs import Add, ApexSpec, hookimpl
from apex_framework.interfaces import TaskSuite


def _mini(**options: Any) -> TaskSuite:
    from .mini.suite import MiniSuite

    return MiniSuite(**options)


class Suites(ApexSpec):
    """The bundled suites."""

    @hookimpl
    def apex_suites(self, add: Add[TaskSuite]) -> None:
        add("mini", _mini, summary="faults in modules of this Python's own standard library; train, dev and test")


plugin = Suites()
