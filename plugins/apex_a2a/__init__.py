"""A2A: a team that any A2A client can talk to, and outside agents as members of a team."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apex_framework.hookspecs import Add, ApexSpec, hookimpl

if TYPE_CHECKING:
    import click

    from apex_framework.interfaces import Transport


def _a2a() -> click.Command:
    from .command import a2a

    return a2a


def _a2a_json(**options: Any) -> Transport:
    from .transport import A2AJson

    return A2AJson(**options)


class Plugin(ApexSpec):
    """Registers what this package brings."""

    @hookimpl
    def apex_commands(self, add: Add[click.Command]) -> None:
        add("a2a", _a2a, summary="A team as an A2A agent: serve, token, verify, attack.", requires="a2a")

    @hookimpl
    def apex_transports(self, add: Add[Transport]) -> None:
        add("a2a_json", _a2a_json, summary="messages in the JSON form of A2A, within the process")


plugin = Plugin()
