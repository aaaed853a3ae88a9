"""``apex value``: what a controller that was not run would have been worth, from the logged decisions of one that was."""

from __future__ import annotations

from dataclasses import asdict
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import ApexError, ArtifactError, NotComparableError, UsageError
from .checked import check_finished
from .context import Context
from .early import emit_looked

if TYPE_CHECKING:
    from ..analysis import Estimate, OffPolicyValue
    from ..interfaces import Controller


@click.command()
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--controller", "name", required=True, metavar="NAME[:OPTIONS]", help="The controller to value.")
@click.option("--arm", help="The arm whose log is used; by default the only one that acts by chance.")
@click.option("--policy", type=click.Path(path_type=Path), help="What the controller has learned.")
@click.option("--clip", type=float, metavar="WEIGHT", help="Also estimates with weights cut at this; they are biased.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Seed of the resampling.")
@click.pass_obj
def value(
    context: Context, run: Path, name: str, arm: str | None, policy: Path | None, clip: float | None, seed: int
) -> None:
    """Success of a controller on the tasks of RUN, without running it: IPS, self-normalised and doubly robust.

    The logging arm must try, with some chance, what the controller does; what it does not cover is said. The controller
    is asked, frozen, at every logged decision, and may only use what the log holds.
    """
    from ..analysis import logged_arm, logged_episodes, off_policy_value, read_run

    if clip is not None and not 0.0 < clip < inf:
        raise UsageError(f"--clip {clip:g} is no weight", "a number above 0, e.g. --clip 10")
    check_finished(context, run)
    data = read_run(run)
    if not (run / "decisions.jsonl").exists():
        raise ArtifactError(f"{run} has no decisions.jsonl", "name a folder that apex run made")
    logged = logged_arm(data, arm)
    setting = data.arms[logged]
    catalog = context.plugins.catalog

    def target() -> Controller:
        made: Controller = catalog.make("controller", name, **({"policy": str(policy)} if policy is not None else {}))
        return made

    def behaviour() -> Controller:
        made: Controller = catalog.make(
            "controller", str(setting.get("controller")), **dict(setting.get("controller_options") or {})
        )
        return made

    try:
        episodes = logged_episodes(data, logged, target, behaviour)
        found = off_policy_value(episodes, target=name, logged=logged, clip=clip, seed=seed)
    except ApexError:
        raise
    except ValueError as error:
        raise NotComparableError(f"{run}: {error}", "restore the folder or run again") from error
    warnings = list(found.warnings)
    if setting.get("online"):
        warnings.append("the logging controller was an online arm: if it learned on the way, intervals are too narrow")
    told = {**asdict(found), "warnings": warnings, "level": data.level, "suite": f"{data.suite}/{data.split}"}
    lines = [*_lines(found), *(f"warning: {text}" for text in warnings)]
    emit_looked(context, told, lines, data.early_look)


def _lines(found: OffPolicyValue) -> list[str]:
    overlap = found.overlap
    clip = "not cut" if overlap.clip is None else f"cut at {overlap.clip:g} in {100 * overlap.clipped_share:.0f} %"
    mean = f"mean weight {overlap.mean_weight:.3f}"
    if overlap.mean_weight_interval is not None:
        mean += f" ({overlap.mean_weight_interval.low:.3f} to {overlap.mean_weight_interval.high:.3f})"
    return [
        f"{found.target} from the log of {found.logged} ({100 * found.logged_value:.1f} % of episodes solved)",
        *(_estimate(estimate, 100, "%") for estimate in found.estimates),
        _estimate(found.lift, 100, "pp"),
        f"overlap      {overlap.weighted} of {overlap.episodes} episodes have weight, effective {overlap.effective:.1f}; "
        f"{mean}; largest {overlap.largest_weight:.2f}, {100 * overlap.largest_share:.0f} % of all; weights {clip}",
        f"support      {overlap.unsupported} of {overlap.decisions} decisions without it, {overlap.unknown} where the log "
        "does not tell",
    ]


def _estimate(estimate: Estimate, scale: float, unit: str) -> str:
    span = "no interval"
    if estimate.interval is not None:
        span = f"95 % {scale * estimate.interval.low:.1f} to {scale * estimate.interval.high:.1f}"
    return f"{estimate.name:12} {scale * estimate.value:6.1f} {unit} ({span}; {estimate.method})"
