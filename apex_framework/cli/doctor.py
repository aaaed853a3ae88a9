"""``apex doctor``: can this machine, this installation and this model do what a run will ask of them?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from ..errors import ConfigError, PluginError, UsageError
from ..interfaces import Finding, Grade
from .context import Context

UNWELL = 3
"""Exit status when something fails: the environment lacks something."""
HEAD = ("status", "check", "found", "what to do")
WIDEST = 60
"""Characters of the column before the last that are padded."""


@click.command()
@click.option("--backend", metavar="NAME[:MODEL]", help="Look at this backend instead; or at one per role, as for run.")
@click.option("--budget", type=int, metavar="TOKENS", help="Tokens per episode that the model must do for.")
@click.option("--call", is_flag=True, help="Also make one small call, which costs tokens, and time it.")
@click.option("--security", is_flag=True, help="Look instead at what confines the code of tasks, by trying to get out.")
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="A file instead of apex.toml.")
@click.pass_obj
def doctor(
    context: Context, backend: str | None, budget: int | None, call: bool, security: bool, config_file: Path | None
) -> int:
    """Look whether everything is there that a run needs, and say what to do where it is not.

    Without --backend: Python, machine, extras, plugins, folders, configuration. With it: the model's file or server, its
    context and memory against the budget. Nothing is changed and no secret is shown. Status 3 when something fails.
    """
    if backend is None and (call or budget is not None):
        raise UsageError("--call and --budget are about a backend", "--backend NAME[:MODEL]")
    if security and backend is not None:
        raise UsageError("--security is about this machine, --backend about a model", "leave one of them out")
    if security:
        found = list(_security(context, config_file))
    elif backend is None:
        found = list(_everything(context, config_file))
    else:
        found = list(_backends(context, backend, budget, config_file, call=call))
    rows = [{"what": f.what, "status": f.grade.value, "found": f.found, "remedy": f.remedy} for f in found]
    context.emit(rows, table(found))
    failures = sum(f.grade is Grade.FAIL for f in found)
    if failures:
        context.say(f"{failures} of {len(found)} checks FAIL")
    return UNWELL if failures else 0


def table(found: Iterable[Finding]) -> str:
    """One line per finding."""
    rows = [(f.grade.value if f.grade is not Grade.FAIL else "FAIL", f.what, f.found, f.remedy) for f in found]
    rows.insert(0, HEAD)
    widths = [min(WIDEST, max(len(row[i]) for row in rows)) for i in range(3)]
    return "\n".join(
        "  ".join((*(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)), row[-1])).rstrip()
        for row in rows
    )


def _everything(context: Context, config_file: Path | None) -> Iterator[Finding]:
    """A further part of the machine, or of what guards it, is a function in ``checks`` and a line here."""
    from ..config import file_in_force, load_settings
    from .checks import installation, machine
    from .checks.guarded import cleaned, failed, findings

    try:
        plugins = context.load_plugins()
    except PluginError as error:  # with --strict-plugins
        plugins, broken = None, error
    catalog = plugins.catalog if plugins is not None else None
    try:
        settings = load_settings(config=config_file)
    except ConfigError as error:
        settings, wrong = None, error
    yield from findings("python", machine.python)
    yield from findings("platform", machine.system)
    yield from findings("cores", lambda: machine.processors(settings.settings.workers if settings else 0))
    yield from findings("memory", machine.free_memory)
    yield from findings("clock", machine.clock)
    yield from findings("extras", lambda: installation.extras(catalog))
    if plugins is None:
        yield cleaned(failed("plugins", broken))
    else:
        yield from findings("plugins", lambda: installation.plugins(plugins))
    yield from findings("folders", installation.folders)
    if settings is None:
        yield cleaned(failed("configuration", wrong))
    else:
        file = file_in_force(config_file)
        yield from findings("configuration", lambda: installation.configuration(settings, file, catalog))
    yield from findings("tools", machine.sandbox_tools)


def _security(context: Context, config_file: Path | None) -> Iterator[Finding]:
    """Each sandbox tried, which of them runs get, and what every Python here runs at its start."""
    from .checks import security
    from .checks.guarded import findings
    from .options import settings_from

    settings = settings_from(config_file)
    catalog = context.plugins.catalog
    for name in security.names(catalog):
        yield from findings(f"sandbox {name}", partial(security.sandboxes, catalog, name), security.TRYING_S)
    asked, allow = settings.sandbox, settings.allow_weaker_sandbox
    yield from findings(
        "sandbox in force", lambda: security.in_force(catalog, asked, allow_weaker=allow), security.TRYING_S
    )
    yield from findings("code at every start", security.started_code)


def _backends(
    context: Context, backend: str, budget: int | None, config_file: Path | None, *, call: bool
) -> Iterator[Finding]:
    """Findings on each backend that is named, with its name where there are several."""
    from .checks.backend import backend as examined
    from .checks.backend import needs_of
    from .options import settings_from

    settings = settings_from(config_file, backend=backend, budget=budget)
    names = sorted(set(settings.backend.values()))
    for name in names:
        for finding in examined(name, context.plugins.catalog, needs_of(settings.budget), call=call):
            yield replace(finding, what=f"{name}: {finding.what}") if len(names) > 1 else finding
