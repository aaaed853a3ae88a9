"""Conformance kit of commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from .conformance import run_checks

if TYPE_CHECKING:
    import click

KIND: Final = "command"

Make = Callable[[], "click.Command"]


def check_command(make: Make) -> None:
    """Run every check on fresh commands. Raises ConformanceError."""
    run_checks(
        KIND,
        {
            "is_a_click_command": lambda: check_is_a_click_command(make),
            "has_a_name": lambda: check_has_a_name(make),
            "says_what_it_does": lambda: check_says_what_it_does(make),
            "shows_its_help": lambda: check_shows_its_help(make),
            "refuses_unknown_options": lambda: check_refuses_unknown_options(make),
            "leaves_json_to_apex": lambda: check_leaves_json_to_apex(make),
        },
    )


def check_is_a_click_command(make: Make) -> None:
    """The factory returns a click command."""
    import click

    made: object = make()
    assert isinstance(made, click.Command), f"{type(made).__name__} is no click command"


def check_has_a_name(make: Make) -> None:
    """Its name is one word in lower case."""
    name = getattr(make(), "name", "unnamed")
    assert name and name == name.lower() and not any(c.isspace() for c in name), f"name is {name!r}"


def check_says_what_it_does(make: Make) -> None:
    """It has a help text."""
    assert getattr(make(), "help", "some"), "no help text"


def check_shows_its_help(make: Make) -> None:
    """``--help`` ends with status 0."""
    status, output = _invoke(make, "--help")
    assert status == 0, f"--help ends with {status}: {output}"


def check_refuses_unknown_options(make: Make) -> None:
    """A mistyped option is a usage error, status 2, not an argument."""
    status, _ = _invoke(make, "--no-such-option-anywhere")
    assert status == 2, f"an unknown option ends with {status}"


def check_leaves_json_to_apex(make: Make) -> None:
    """``--json`` is the program's: the command asks its context, ``context.json``, and answers by ``context.emit``."""
    params = getattr(make(), "params", ())
    assert not any("--json" in p.opts for p in params), "it has an option --json of its own"


def _invoke(make: Make, *arguments: str) -> tuple[int, str]:
    import click
    from click.testing import CliRunner

    command = make()
    if not isinstance(command, click.Command):
        return (0 if arguments == ("--help",) else 2), ""  # another check says so
    result = CliRunner().invoke(command, list(arguments))
    return result.exit_code, result.output or repr(result.exception)
