"""``apex train``: teach a controller on a suite's training split."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import ConfigError, RunFolderError
from .context import Context
from .options import arm_options, base_arm, plugin_settings, say_times, settings_from

if TYPE_CHECKING:
    from ..config import Settings
    from ..experiment.train import Round, Training

EPISODES = 200
"""Episodes where neither a flag, the environment nor a file says how many."""

WARM_SHARE = 0.2
"""Share of the episodes that the teacher acts, unless said otherwise."""

TEACHER, ANY_TEACHER = "phase_heuristic", "random_switch"
"""Who teaches unless said otherwise: the heuristic where its topologies are in the set."""


@click.command()
@click.option("--controller", default="bandit_v1", show_default=True, help="What is trained.")
@click.option("--suite", metavar="SUITE[/train]", help="Suite whose split train is worked on: mini.")
@click.option("--episodes", type=int, metavar="N", help=f"Episodes in all, unless set otherwise: {EPISODES}.")
@click.option("--any-split", is_flag=True, help="Allow dev and test too; the policy's json says so.")
@arm_options
@click.option("--round", "round_size", type=int, default=16, show_default=True, help="Episodes that share one policy.")
@click.option("--warm-start", type=int, metavar="W", help="First episodes in which the teacher acts: a fifth.")
@click.option(
    "--teacher", help=f"Controller that acts in them: {TEACHER}, or {ANY_TEACHER} without star, chain and flat."
)
@click.option(
    "--out", type=click.Path(path_type=Path), help="Policy file (.npz, with .json and .curve.jsonl beside it)."
)
@click.pass_obj
def train(
    context: Context,
    /,
    controller: str,
    round_size: int,
    warm_start: int | None,
    teacher: str | None,
    any_split: bool,
    out: Path | None,
    config_file: Path | None,
    **flags: Any,
) -> int:
    """Train a controller on a suite's split train (of mini, unless said otherwise) and write its policy.

    The same seed gives the same policy, bit for bit, with any number of workers.
    """
    from ..analysis import write_checkpoint
    from ..episode.episode import run_episode
    from ..experiment.arms import arm_named
    from ..experiment.planning import make_plan
    from ..experiment.train import Trainer, Training
    from .running import say_confining

    settings = settings_from(config_file, {"split": "train", "episodes": EPISODES}, **flags)
    say_times(context, settings)
    _require_train(settings, any_split)
    if settings.run_budget is not None:
        raise ConfigError("run_budget: a training has no run folder to keep it in", "bound it by --day-budget")
    episodes = settings.episodes
    if teacher is None:
        teacher = TEACHER if {"star", "chain", "flat"} <= set(settings.topology_set) else ANY_TEACHER
    arm = arm_named(controller, base_arm(settings))
    plan = make_plan(
        context.plugins,
        [arm, arm_named(teacher, base_arm(settings))],
        suite=settings.suite,
        split=settings.split,
        limit=episodes,
        seed=settings.seed,
        real_time=settings.real_time,
        settings=plugin_settings(context, settings),
    )
    say_confining(context, plan)
    training = Training(
        arm=arm,
        tasks=tuple(task.id for task in plan.tasks),
        episodes=episodes,
        seed=settings.seed,
        round=round_size,
        warm_start=int(episodes * WARM_SHARE) if warm_start is None else warm_start,
        teacher=teacher,
        run=next(plan.jobs()).run,
    )
    out = (out or Path(f"{controller}-{'-'.join(arm.topologies)}.npz")).with_suffix(".npz")
    executor = context.plugins.catalog.make("executor", settings.executor)
    trainer = Trainer(training, context.plugins.catalog, executor, run_episode, workers=settings.workers)
    curve = []
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        for point in trainer.rounds():
            context.say(_line(point, training))
            curve.append(json.dumps(dataclasses.asdict(point)))
        about = {
            "command": " ".join(["apex", *sys.argv[1:]]),
            "seed": settings.seed,
            "suite": f"{settings.suite}/{settings.split}",
            "suite_digest": plan.suite_digest,
            "versions": dict(plan.versions),
            "arm": arm.to_json(),
            "episodes": episodes,
            "warm_start": training.warm_start,
            "teacher": teacher,
            "round": round_size,
            **({"any_split": True} if any_split else {}),
        }
        digest = write_checkpoint(out, trainer.checkpoint, about)
        out.with_suffix(".curve.jsonl").write_text("\n".join(curve) + "\n", encoding="utf-8")
    except OSError as error:
        raise RunFolderError(f"cannot write {out}: {error.strerror}", "choose another --out") from error
    result = {"policy": str(out), "digest": digest, "episodes": episodes, "rounds": len(curve)}
    context.emit(result, f"{out}: {controller} after {episodes} episodes, digest {digest[:12]}")
    return 0


def _require_train(settings: Settings, any_split: bool) -> None:
    if settings.split != "train" and not any_split:
        raise ConfigError(
            f"{settings.suite}/{settings.split} is not for training: results are reported on it",
            f"--suite {settings.suite}/train, or --any-split to train on it all the same",
        )


def _line(point: Round, training: Training) -> str:
    who = "teacher" if point.teacher else "explores"
    return (
        f"{point.episodes}/{training.episodes} episodes ({who}): success {100 * point.success:.0f} %, "
        f"reward {sum(point.reward.values()):.2f}, denied in {100 * point.denied:.0f} %, {point.switches:.1f} switches"
    )
