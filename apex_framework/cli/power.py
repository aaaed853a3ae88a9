"""``apex power``: what so many tasks can show, before they are run."""

from __future__ import annotations

from dataclasses import asdict
from math import ceil
from typing import Any

import click

from ..errors import UsageError
from .context import Context
from .numbers import counts_of

METHODS = {
    "detectable_lift": "McNemar mid-p, two-sided 5 %, 80 % power, tasks independent",
    "power_at_10pp": "the same test, at a true lift of 10 pp",
    "effective_tasks": "tasks x repeats / (1 + (repeats - 1) x icc)",
    "non_inferiority": "normal approximation, one-sided 5 %, 80 % power when the arms are equal",
    "sequential": "simulated share of runs stopped by each look; one-sided betting e-process, alpha 0.025",
}


@click.command()
@click.option("--n", "tasks", default=300, show_default=True, help="Tasks that both arms are run on.")
@click.option(
    "--discordance", default=0.21, show_default=True, help="Share of tasks that exactly one of the arms solves."
)
@click.option("--repeats", type=float, help="Seeds per task, or tasks per cluster; needs --icc.")
@click.option("--icc", type=float, help="Correlation of differences between repeats of a task, in [0, 1].")
@click.option("--margin", type=float, metavar="PP", help="Can non-inferiority with this margin be certified?")
@click.option("--looks", metavar="N,N,…", help="Chance to stop at each look, at --lift; instead of --n.")
@click.option("--lift", type=float, metavar="PP", help="True lift that --looks assumes (10).")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of the simulation for --looks (0).")
@click.pass_obj
def power(
    context: Context,
    tasks: int,
    discordance: float,
    repeats: float | None,
    icc: float | None,
    margin: float | None,
    looks: str | None,
    lift: float | None,
    seed: int | None,
) -> None:
    """Smallest lift that a paired comparison finds with 80 % power (McNemar mid-p, two-sided 5 %).

    With --repeats and --icc for as many independent tasks as the repeats are worth.
    """
    from ..analysis import effective_tasks, margin_tasks, plan_power, points, sequential_power

    if not 1 <= tasks <= 100_000 or not 0.0 < discordance <= 1.0:
        raise UsageError(
            "--n must be at least 1, at most 100000, and --discordance in (0, 1]", "e.g. apex power --n 300"
        )
    if (repeats is None) != (icc is None):
        raise UsageError("--repeats and --icc go together", "e.g. --repeats 5 --icc 0.5")
    if (lift is not None or seed is not None) and looks is None:
        raise UsageError("--lift and --seed are for --looks", "e.g. --looks 100,300,500 --lift 10")
    assumed = min(0.1, discordance) if lift is None else lift / 100
    if not abs(assumed) <= discordance:
        raise UsageError(f"--lift {lift} is more than the discordance allows", "a lift cannot exceed the discordance")
    if margin is not None and not 0.0 < margin < 100.0:
        raise UsageError(f"--margin {margin:g} is not between 0 and 100 percentage points", "e.g. --margin 2")
    wanted = counts_of("--looks", looks) if looks is not None else ()
    worth: float | None = None
    if repeats is not None and icc is not None:
        try:
            worth = effective_tasks(tasks, repeats, icc)
        except ValueError:
            raise UsageError("--repeats must be at least 1 and --icc in [0, 1]", "e.g. --repeats 5 --icc 0.5") from None
        if worth > 100_000:
            raise UsageError(f"--n {tasks} with --repeats {repeats:g} is more than 100000 tasks", "give fewer")
    plan = plan_power(tasks if worth is None else max(1, round(worth)), discordance)
    value: dict[str, Any] = {**asdict(plan), "methods": METHODS}
    smallest = f"a lift of {points(plan.detectable_lift)}" if plan.detectable_lift else "no possible lift"
    lines = [
        f"{plan.tasks} tasks at discordance {discordance:g} show {smallest} with 80 % power; "
        f"a true lift of {points(min(0.1, discordance))} is found with {100 * plan.power_at_10pp:.0f} %."
    ]
    if worth is not None:
        value["effective_tasks"] = worth
        lines.insert(0, f"{tasks} x {repeats:g} at a correlation of {icc:g} are worth {plan.tasks} independent tasks.")
    if margin is not None:
        needed = ceil(margin_tasks(margin / 100, discordance))
        enough = plan.tasks >= needed
        value["non_inferiority"] = {"margin": margin / 100, "tasks_needed": needed, "certifiable": enough}
        word = "certifiable" if enough else "NOT CERTIFIABLE AT THIS N"
        lines.append(f"A margin of {margin:g} pp is {word}: two equal arms need {needed:,} tasks.")
    if wanted:
        stopped = sequential_power(wanted, assumed, discordance, seed=seed or 0)
        value["sequential"] = {"lift": assumed, "draws": 2_000, "stopped_by": stopped}
        path = ", ".join(f"{look}: {100 * share:.0f} %" for look, share in stopped.items())
        lines.append(f"A true lift of {points(assumed)} is seen by look {path} (2,000 simulated runs).")
    context.emit(value, "\n".join(lines))
