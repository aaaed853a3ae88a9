"""Orders of service: first in, first out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apex_framework.hookspecs import Add, ApexSpec, hookimpl

if TYPE_CHECKING:
    from apex_framework.interfaces import LaneDiscipline


def _fifo(**options: Any) -> LaneDiscipline:
    from .fifo import Fifo

    return Fifo(**options)


def _drr_wred(**options: Any) -> LaneDiscipline:
    from .drr_wred import DrrWred

    return DrrWred(**options)


class Lanes(ApexSpec):
    """The built-in lane disciplines."""

    @hookimpl
    def apex_lanes(self, add: Add[LaneDiscipline]) -> None:
        add("fifo", _fifo, summary="first in, first out, refusing when full")
        add("drr_wred", _drr_wred, summary="final, draft and critic in shares of 8:3:1, refusing early as it fills")


plugin = Lanes()
