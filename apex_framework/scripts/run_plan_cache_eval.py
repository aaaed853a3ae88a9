"""``python -m apex_framework.scripts.run_plan_cache_eval --episodes=100 --out=FILE``: episodes without and with the plan cache."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..cli.context import Context
from ..cli.whole import write_whole
from ..errors import ConfigError, UsageError

if TYPE_CHECKING:
    from ..benches.plan_cache import Played

ON = "plan_cache"


@click.command()
@click.option("--episodes", type=click.IntRange(min=1), default=100, show_default=True, help="Tasks.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="JSONL file, one line per task.")
@click.option("--suite", default="mini", show_default=True)
@click.option("--split", help="train, dev or test (dev; with --fit: train).")
@click.option("--policy", default="bandit_v1", show_default=True, help="bandit_v1, static_star, static_flat, …")
@click.option("--match", default="evidence", show_default=True, help="evidence or key: what a plan must share.")
@click.option("--fit", type=click.Path(path_type=Path, dir_okay=False), help="Only make FILE, of plans made on train.")
@click.option(
    "--fitted", type=click.Path(path_type=Path, dir_okay=False), help="Every episode begins with these plans."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--workers", type=click.IntRange(min=1), default=2, show_default=True)
@click.pass_obj
def evaluate(
    context: Context,
    /,
    episodes: int,
    out: Path | None,
    suite: str,
    split: str | None,
    policy: str,
    match: str,
    fit: Path | None,
    fitted: Path | None,
    seed: int,
    workers: int,
) -> None:
    """Play the same episodes without and with the plan cache; each has a cache of its own."""
    from ..benches.plan_cache import OFF, Setting, figures, play
    from ..episode.workshop import make_suite

    if (fit is None) == (out is None):
        raise UsageError("give --out FILE to evaluate, or --fit FILE to fit plans", "one of the two")
    if fit is not None and (fitted is not None or split not in (None, "train")):
        raise ConfigError("plans are fitted on train, and on nothing fitted", "leave out --split and --fitted")
    setting = Setting(suite, split or ("train" if fit else "dev"), episodes, seed, 1, workers)
    cache = f"plan_cache:match={match}"
    if fit is not None:
        played = play(context.plugins, policy, {ON: (cache,)}, setting)[ON]
        data = plans_of(played, suite, match)
        write_whole(fit, json.dumps(data, indent=1, ensure_ascii=False) + "\n", make_folder=True)
        context.emit({"plans": len(data["plans"]), "out": str(fit)}, f"{len(data['plans'])} plans in {fit}")
        return
    if fitted is not None:
        digest = make_suite(context.plugins.catalog, suite).digest
        cache += f";fitted={fitted};suite={digest}"
    told = play(context.plugins, policy, {OFF: (), ON: (cache,)}, setting)
    assert out is not None
    write_whole(
        out, "".join(f"{json.dumps(line)}\n" for line in lines(told[OFF], told[ON], policy, match)), make_folder=True
    )
    found = {metric: value for metric, value, _ in figures(told[OFF], told[ON])}
    text = "\n".join(f"{metric:40} {value:>10,}" for metric, value in found.items())
    context.emit({**found, "out": str(out)}, f"{text}\n{out}")


def lines(off: Iterable[Played], on: Iterable[Played], policy: str, match: str) -> Iterable[dict[str, Any]]:
    """A line per task: the episode without, and with the cache."""
    for without, having in zip(off, on, strict=True):
        yield {
            "policy": policy,
            "match": match,
            "task_id": having.task_id,
            "cluster": having.cluster,
            "seed": having.seed,
            "suite_digest": having.suite_digest,
            "success_off": without.success,
            "success_on": having.success,
            "tokens_off": without.tokens,
            "tokens_on": having.tokens,
            "lookups": having.lookups,
            "hits": having.hits,
            "tokens_saved": having.saved,
            "saved_share": round(having.share, 6),
        }


def plans_of(played: Iterable[Played], suite: str, match: str) -> dict[str, Any]:
    """The plans that episodes kept, as a file holds them; of equal questions the first answer. Raises ConfigError for none."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    versions: set[str] = set()
    digests: set[str] = set()
    for one in played:
        digests.add(one.suite_digest)
        for row in one.plans:
            versions.add(str(row["version"]))
            plan = {name: row[name] for name in ("repo_id", "issue_cluster", "phase", "role", "question")}
            found.setdefault(tuple(plan.values()), {**plan, "steps": list(row["steps"])})
    if len(versions) != 1 or len(digests) != 1:
        raise ConfigError("no plan was made in these episodes", "choose a team with a planner, and more --episodes")
    return {
        "version": versions.pop(),
        "suite": suite,
        "suite_digest": digests.pop(),
        "split": "train",
        "match": match,
        "plans": list(found.values()),
    }


if __name__ == "__main__":
    from ..cli.boundary import run

    sys.exit(run(sys.argv[1:], evaluate, "run_plan_cache_eval"))
