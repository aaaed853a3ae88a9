"""Ways across an edge: within the process, and between two processes over a socket pair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apex_framework.hookspecs import Add, ApexSpec, hookimpl

if TYPE_CHECKING:
    from apex_framework.interfaces import Transport


def _inproc(**options: Any) -> Transport:
    from .inproc import InProcess

    return InProcess(**options)


def _pipe(**options: Any) -> Transport:
    from .pipe import Pipe

    return Pipe(**options)


class Transports(ApexSpec):
    """The built-in transports."""

    @hookimpl
    def apex_transports(self, add: Add[Transport]) -> None:
        add("inproc", _inproc, summary="shared memory; bytes are counted as UTF-8 JSON")
        add("pipe", _pipe, summary="UTF-8 JSON frames over a socket pair, fit for two processes")


plugin = Transports()
