"""One broken command per check of the kit: each fails exactly that one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


def Sound() -> click.Command:
    """A command with nothing wrong."""
    return click.Command("sound", callback=lambda: None, help="Do nothing.")


class Plain:
    """Looks like a command to the catalog, and is none."""

    name = "plain"
    params: tuple[click.Parameter, ...] = ()

    def invoke(self) -> None:
        """Nothing."""

    def main(self) -> None:
        """Nothing."""


class Helpless(click.Command):
    """Cannot show its help."""

    def get_help(self, ctx: click.Context) -> str:
        """Fails."""
        raise KeyError("epilog")


def _shouts() -> click.Command:
    return click.Command("LOUD", callback=lambda: None, help="Do nothing.")


def _silent() -> click.Command:
    return click.Command("silent", callback=lambda: None)


def _helpless() -> click.Command:
    return Helpless("helpless", callback=lambda: None, help="Do nothing.")


def _lenient() -> click.Command:
    lenient = {"ignore_unknown_options": True, "allow_extra_args": True}
    return click.Command("lenient", context_settings=lenient, callback=lambda: None, help="Do nothing.")


def _own_json() -> click.Command:
    option = click.Option(["--json"], is_flag=True)
    return click.Command("own", params=[option], callback=lambda **_: None, help="Do nothing.")


BROKEN: dict[str, Callable[[], Any]] = {
    "is_a_click_command": Plain,
    "has_a_name": _shouts,
    "says_what_it_does": _silent,
    "shows_its_help": _helpless,
    "refuses_unknown_options": _lenient,
    "leaves_json_to_apex": _own_json,
}
"""Check -> a command that fails it."""
