"""Success@budget of one policy: ``python -m apex_framework.scripts.run_eval_success_at_budget``, one line per episode."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ..cli.context import Context
from ..cli.options import base_arm, settings_from
from ..cli.whole import write_whole


@click.command()
@click.option("--split", default="dev", show_default=True, help="train, dev or test.")
@click.option("--episodes", type=int, default=12, show_default=True, help="Tasks.")
@click.option("--budget", type=int, default=10_000, show_default=True, help="Tokens per episode.")
@click.option("--policy", required=True, help="bandit_v1, static_star, static_chain, static_flat, single, manager, …")
@click.option("--suite", default="mini", show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--workers", type=int, default=2, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="JSONL file of episodes.")
@click.pass_obj
def evaluate(
    context: Context,
    /,
    split: str,
    episodes: int,
    budget: int,
    policy: str,
    suite: str,
    seed: int,
    workers: int,
    out: Path,
) -> int:
    """Run one policy on a split and write its episodes."""
    from ..cli.running import execute, open_folder, warn_of_failures
    from ..errors import RunFolderError
    from ..experiment.arms import arm_named
    from ..experiment.planning import make_plan

    settings = settings_from(None, suite=f"{suite}/{split}", episodes=episodes, budget=budget, seed=seed)
    plan = make_plan(
        context.plugins,
        [arm_named(policy, base_arm(settings))],
        suite=settings.suite,
        split=settings.split,
        limit=settings.episodes,
        seed=settings.seed,
    )
    folder = open_folder(context, plan, settings, None)
    outcome = execute(context, folder, workers)
    if outcome.complete:
        try:
            write_whole(out, (folder.path / "episodes.jsonl").read_text(encoding="utf-8"), make_folder=True)
        except RunFolderError as error:
            raise RunFolderError(error.cause, f"the run is in {folder.path}") from error
        context.emit({"run": str(folder.path), "out": str(out)}, f"{out} (run folder: {folder.path})")
        warn_of_failures(context, folder, outcome)
    else:
        context.say(f"interrupted\n  apex resume {folder.path}")
    return outcome.exit_status


if __name__ == "__main__":
    from ..cli.boundary import run

    sys.exit(run(sys.argv[1:], evaluate, "run_eval_success_at_budget"))
