"""``apex experiment``: a plan of many arms, registered before it is run; and the gate that is asked before any plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..errors import UsageError
from .context import Context
from .options import setting_options, settings_from

_OF_THE_MACHINE = ("workers", "executor", "allow_weaker_sandbox", "data", "repos")
"""Options that a plan leaves to whoever runs it."""


@click.command()
@click.argument("path", metavar="[PLAN]", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--plan", "plan_only", is_flag=True, help="Size, hours and detectable lift of PLAN; run nothing.")
@click.option("--register", is_flag=True, help="Freeze PLAN, with hashes and date, in PLAN.lock.json; run nothing.")
@click.option("--deviate", metavar="WHY", help="Go on although PLAN is not as it was registered; kept with the result.")
@click.option("--gate", is_flag=True, help="Instead of a plan: the informativeness gate, asked before any training.")
@click.option("--report/--no-report", "page", default=True, help="Also write reports as HTML pages (default).")
@setting_options
@click.option("--out", type=click.Path(path_type=Path), help="Folder of its runs; the same command goes on there.")
@click.pass_obj
def experiment(
    context: Context,
    /,
    path: Path | None,
    plan_only: bool,
    register: bool,
    deviate: str | None,
    gate: bool,
    page: bool,
    out: Path | None,
    config_file: Path | None,
    **flags: Any,
) -> int:
    """Run the parts of PLAN, a TOML file: arms x tasks x seeds x budgets, and the decision that it registered.

    A plan with a claim ([prereg]) is registered first, and refused when it or what it rests on has changed since. Killed
    or interrupted, the same command goes on. Settings stand in the plan; neither apex.toml nor variables count.

    With --gate: every static topology three times and every fixed phase schedule once, and the gate's figures; exit
    status 5 when it is not passed.
    """
    if gate:
        if path or plan_only or register or deviate:
            raise UsageError("--gate is asked without a plan", "apex experiment --gate --suite mini/dev")
        from .gate import ask_gate

        return ask_gate(context, settings_from(config_file, **flags), out)
    if path is None:
        raise UsageError("a plan file is needed, or --gate", "apex experiment PLAN.toml --plan")
    given = [name for name, value in flags.items() if value not in (None, ()) and name not in _OF_THE_MACHINE]
    if given or config_file:
        name = "config" if config_file else {"assignments": "set"}.get(given[0], given[0].replace("_", "-"))
        raise UsageError(
            f"--{name} does not go with a plan", f"write it into {path}: what is not in the plan is not registered"
        )
    if plan_only and register:
        raise UsageError("--plan and --register do not go together", "look first, then register")
    from .planned import register_plan, run_plan, show_plan_file

    machine = {name: flags[name] for name in _OF_THE_MACHINE if flags.get(name) is not None}
    if plan_only:
        return show_plan_file(context, path, machine)
    if register:
        return register_plan(context, path, machine)
    return run_plan(context, path, machine, out, deviate, page=page)
