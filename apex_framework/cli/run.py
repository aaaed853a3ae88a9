"""``apex run``: the main job. Controllers against the static topologies and a single agent, with a verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..errors import UnknownNameError
from .context import Context
from .options import base_arm, plugin_settings, say_times, setting_options, settings_from
from .untrained import say_untrained


@click.command()
@click.option("--controller", "controllers", multiple=True, metavar="NAME[:OPTIONS]", help="One arm each; repeatable.")
@click.option(
    "--arm", "others", multiple=True, metavar="NAME", help="A further arm: manager, single, static_T, a controller."
)
@click.option("--baselines/--no-baselines", default=None, help="Also the static topologies and the single agent.")
@click.option(
    "--policy", metavar="PATH", help="What the controller has learned; by default the shipped policy, if any."
)
@click.option("--seeds", type=int, default=1, show_default=True, help="Seeds per task.")
@click.option("--best-static", metavar="ARM", help="The best static arm as chosen on dev, for a run on test.")
@setting_options
@click.option("--out", type=click.Path(path_type=Path), help="Run folder; by default a new one under runs/.")
@click.option("--report/--no-report", "page", default=True, help="Also write the report as an HTML page (default).")
@click.option("--plan", "plan_only", is_flag=True, help="Say what would be run, and what it could show; run nothing.")
@click.pass_obj
def run(
    context: Context,
    /,
    others: tuple[str, ...],
    policy: str | None,
    seeds: int,
    best_static: str | None,
    page: bool,
    plan_only: bool,
    config_file: Path | None,
    **flags: Any,
) -> int:
    """Run teams on tasks and compare their controllers.

    Without options: the trained bandit against every static topology and a single agent, on mini/dev, exploratory.
    The same command with --out of an unfinished run goes on with it.
    """
    from ..analysis import ArmRole, arm_role
    from ..experiment.arms import default_arms, with_policy
    from ..experiment.planning import make_plan
    from .running import carry_out, check_out, open_folder, show_plan

    settings = settings_from(config_file, **flags)
    if not plan_only:
        check_out(settings.out)
    say_times(context, settings)
    catalog = context.plugins.catalog
    catalog.entry("executor", settings.executor)  # an unknown one, before tasks are made
    arms = default_arms(settings.controllers, base_arm(settings), baselines=settings.baselines, others=others)
    if policy is not None:
        arms = with_policy(arms, catalog, policy)
    statics = [arm.name for arm in arms if arm_role(arm.name, arm.to_json()) is ArmRole.STATIC]
    if best_static is not None and best_static not in statics:
        raise UnknownNameError("static arm of this run", best_static, statics)
    plan = make_plan(
        context.plugins,
        arms,
        suite=settings.suite,
        split=settings.split,
        limit=settings.episodes,
        seeds=seeds,
        seed=settings.seed,
        real_time=settings.real_time,
        settings=plugin_settings(context, settings) | ({"best_static": best_static} if best_static else {}),
    )
    say_untrained(context, plan)
    if plan_only:
        show_plan(context, plan, settings.workers)
        return 0
    folder = open_folder(context, plan, settings, settings.out)
    return carry_out(context, folder, settings.workers, settings.executor, page=page)
