"""The ``apex`` group: global options, and commands that are imported only when called."""

from __future__ import annotations

import copy
import importlib
from typing import TYPE_CHECKING, Any

import click

from .. import __version__
from ..errors import NameTakenError, UnknownNameError, UsageError
from . import COMMANDS, OPEN
from .context import Context

if TYPE_CHECKING:
    from ..catalog import Entry

EPILOG = """\b
Exit status:
  0  done
  1  a bug in apex (its traceback is in the log)
  2  usage: an option, a name or a setting is wrong
  3  environment: a package, a folder or a plugin is missing or broken
  4  episodes failed for infrastructure; `apex resume RUN --retry-failed` runs them again
  5  a gate (SLO) failed
  6  the global budget is spent
  130, 141, 143  interrupted; a run can be resumed

What the code of an error means: apex explain E0330"""


class LazyGroup(click.Group):
    """Knows its commands by name and summary; loads plugins only for help and for names that are not its own."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*COMMANDS, *(e.name for e in _own(ctx))})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS:
            module, _, attribute = COMMANDS[cmd_name][0].partition(":")
            command: click.Command = getattr(importlib.import_module(module), attribute)
            if cmd_name in OPEN and isinstance(command, click.Group):
                command = _with_plugins(ctx, cmd_name, command)
        else:
            catalog = _context(ctx).plugins.catalog
            known = tuple(e.name for e in _own(ctx))
            if cmd_name not in known:
                raise UnknownNameError("command", cmd_name, {*COMMANDS, *known})
            command = catalog.make("command", cmd_name)
        return _with_json(command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, summary) for name, (_, summary) in COMMANDS.items()]
        rows += [(e.name, e.summary) for e in _own(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(sorted(rows))


def _context(ctx: click.Context) -> Context:
    """The command's context; while help is shown only the options before --help are known."""
    if not isinstance(ctx.obj, Context):
        ctx.obj = Context(**{key: value for key, value in ctx.params.items() if value is not None})
    return ctx.obj


def _own(ctx: click.Context) -> list[Entry]:
    """Plugins' commands that stand for themselves."""
    entries = _context(ctx).plugins.catalog.entries("command")
    return [e for e in entries if e.name.partition(".")[0] not in OPEN or "." not in e.name]


def _with_plugins(ctx: click.Context, name: str, group: click.Group) -> click.Group:
    """A copy of a group with the commands that plugins add to it."""
    catalog = _context(ctx).plugins.catalog
    group = copy.copy(group)
    added = {
        n.partition(".")[2]: catalog.make("command", n) for n in catalog.names("command") if n.startswith(f"{name}.")
    }
    if taken := sorted(added.keys() & group.commands):
        raise NameTakenError(
            "command", f"{name} {taken[0]}", "apex", catalog.entry("command", f"{name}.{taken[0]}").owner.plugin
        )
    group.commands = {**group.commands, **added}
    return group


def _with_json(command: click.Command) -> click.Command:
    """A copy of the command with ``--json``, and of each command of a group."""
    command = copy.copy(command)
    if not any("--json" in p.opts for p in command.params):
        option = click.Option(["--json"], is_flag=True, expose_value=False, callback=_set_json, help="Results as JSON.")
        command.params = [*command.params, option]
    if isinstance(command, click.Group):
        command.commands = {name: _with_json(inner) for name, inner in command.commands.items()}
    return command


def _set_json(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and isinstance(ctx.obj, Context):
        ctx.obj.json = True


def _blocked(_ctx: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        if not value.startswith("no:") or value == "no:":
            raise UsageError(f"-p {value!r} is not understood", "-p no:NAME leaves a plugin out")
    return tuple(value.removeprefix("no:") for value in values)


# Eager, so that what stands before --help decides which plugins' commands it lists.
@click.group(cls=LazyGroup, invoke_without_command=True, epilog=EPILOG)
@click.option("--json", is_flag=True, is_eager=True, help="Results, and errors, as JSON on stdout.")
@click.option(
    "-p", "block", multiple=True, metavar="no:NAME", callback=_blocked, is_eager=True, help="Leave a plugin out."
)
@click.option("--safe-mode", is_flag=True, is_eager=True, help="Load only the plugins that come with APEX.")
@click.option("--strict-plugins", is_flag=True, is_eager=True, help="A broken plugin is an error, not a warning.")
@click.option("--no-color", is_flag=True, is_eager=True, help="Plain text; the variable NO_COLOR does the same.")
@click.version_option(__version__, prog_name="apex", message="%(prog)s %(version)s")
@click.pass_context
def apex(ctx: click.Context, /, **_options: Any) -> None:
    """Teams of LLM agents repair code under a hard token budget, while a controller changes who may speak to whom.

    `apex run` answers the question whether that helps, on this machine, in a minute.
    """
    _context(ctx)
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
