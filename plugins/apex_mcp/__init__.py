"""Tool servers for agents: ``fs`` (files of the workspace), ``git`` (its history) and ``test`` (its tests)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apex_framework.hookspecs import Add, ApexSpec, hookimpl

if TYPE_CHECKING:
    from apex_framework.interfaces import ToolServer


def _fs(**options: Any) -> ToolServer:
    from .fs import FsServer

    return FsServer(**options)


def _git(**options: Any) -> ToolServer:
    from .git import GitServer

    return GitServer(**options)


def _test(**options: Any) -> ToolServer:
    from .test import TestServer

    return TestServer(**options)


class Plugin(ApexSpec):
    """Registers what this package brings."""

    @hookimpl
    def apex_tools(self, add: Add[ToolServer]) -> None:
        add("fs", _fs, summary="read, write, patch, search, list and outline files of the workspace")
        add(
            "git",
            _git,
            summary="status, diff, log, show, branch, commit, merge, checkout and clone, out of agents' reach",
        )
        add("test", _test, summary="discover and run the workspace's tests")


plugin = Plugin()
