"""``apex power``: what so many tasks can show, before they are run."""

from __future__ import annotations

from dataclasses import asdict

import click

from ..errors import UsageError
from .context import Context


@click.command()
@click.option("--n", "tasks", default=300, show_default=True, help="Tasks that both arms are run on.")
@click.option(
    "--discordance", default=0.21, show_default=True, help="Share of tasks that exactly one of the arms solves."
)
@click.pass_obj
def power(context: Context, tasks: int, discordance: float) -> None:
    """Smallest lift that a paired comparison finds with 80 % power (McNemar mid-p, two-sided 5 %)."""
    from ..analysis import plan_power, points

    if tasks < 1 or not 0.0 < discordance <= 1.0:
        raise UsageError("--n must be at least 1 and --discordance in (0, 1]", "e.g. apex power --n 300")
    plan = plan_power(tasks, discordance)
    smallest = f"a lift of {points(plan.detectable_lift)}" if plan.detectable_lift else "no possible lift"
    text = (
        f"{tasks} tasks at discordance {discordance:g} show {smallest} with 80 % power; "
        f"a true lift of {points(min(0.1, discordance))} is found with {100 * plan.power_at_10pp:.0f} %."
    )
    context.emit(asdict(plan), text)
