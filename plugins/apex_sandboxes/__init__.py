"""Sandboxes for the code of tasks: ``landlock`` and ``bwrap``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apex_framework.hookspecs import Add, ApexSpec, hookimpl

if TYPE_CHECKING:
    from apex_framework.interfaces import Sandbox


def _landlock(**options: Any) -> Sandbox:
    from .landlocked import LandlockSandbox

    return LandlockSandbox(**options)


def _bwrap(**options: Any) -> Sandbox:
    from .bubblewrap import BwrapSandbox

    return BwrapSandbox(**options)


class Plugin(ApexSpec):
    """Registers what this package brings."""

    @hookimpl
    def apex_sandboxes(self, add: Add[Sandbox]) -> None:
        add("landlock", _landlock, summary="Landlock, system call filter, namespaces; needs nothing installed (Linux)")
        add("bwrap", _bwrap, summary="bubblewrap: only what is named exists inside (Linux)")


plugin = Plugin()
