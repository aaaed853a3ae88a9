"""MCP at the edge: our tool servers for outside hosts, and outside servers as tools of a team (official SDK)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apex_framework.hookspecs import Add, ApexSpec, hookimpl

if TYPE_CHECKING:
    import click

    from apex_framework.interfaces import ToolServer


def _outside(**options: Any) -> ToolServer:
    from .outside import OutsideTools

    return OutsideTools(**options)


def _command() -> click.Command:
    from .command import mcp

    return mcp


class McpEdge(ApexSpec):
    """Registers what this package brings."""

    @hookimpl
    def apex_tools(self, add: Add[ToolServer]) -> None:
        add("mcp", _outside, summary="outside MCP servers as tools: mcp:FILE, an mcpServers JSON file", requires="mcp")

    @hookimpl
    def apex_commands(self, add: Add[click.Command]) -> None:
        add("mcp", _command, summary="Offer our tools to MCP hosts, and look at outside MCP servers.")


plugin = McpEdge()
