"""Bench ``plan-cache``: the same episodes without and with the plan cache, task by task.

Contenders: ``off``; ``apex``, the cache as it is (a plan is served while nothing new is known about what it may choose
from); ``key only``, the specification's letter (repository, issue cluster and phase; new evidence does not matter).
Every episode has a cache of its own. What a hit saved is what the skipped call would have come to: the tokens of its
prompt and of the answer that was served. An episode that fails spends its budget anyway, saved tokens on further tries
included, so the share saved is of the tokens that the same work would have cost: saved / (spent + saved).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ..episode.arm import Arm
from ..interfaces import EpisodeResult
from ..plugins import Plugins

OFF: Final = "off"
CONTENDERS: Final[Mapping[str, tuple[str, ...]]] = {
    OFF: (),
    "apex": ("plan_cache",),
    "key only": ("plan_cache:match=key",),
}
CASES: Final = ("bandit_v1", "static_flat")
TASKS: Final = 32
WORKERS: Final = 2

Figure = tuple[str, float, str]
"""Metric, value and unit."""


@dataclass(frozen=True, slots=True)
class Played:
    """What an episode came to, so far as a plan cache may change it."""

    task_id: str
    cluster: str
    seed: int
    success: bool
    tokens: int
    lookups: int
    hits: int
    saved: int
    """Tokens that hits did not spend."""
    decision_ms: tuple[float, ...]
    plans: tuple[Mapping[str, Any], ...] = ()
    """Rows of plans that were kept."""
    suite_digest: str = ""

    @property
    def share(self) -> float:
        """Tokens saved, of what the same work would have cost."""
        return self.saved / (self.tokens + self.saved) if self.saved else 0.0

    @classmethod
    def of(cls, result: EpisodeResult) -> Played:
        """From an episode's records."""
        record = result.record
        used = [row for row in result.events if row["event"] == "PlanCacheUsed"]
        skipped = [row for row in result.events if row["event"] == "CallAnswered"]
        return cls(
            str(record["task_id"]),
            str(record["cluster"]),
            int(record["seed"]),
            bool(record["success"]),
            int(record["tokens"]),
            sum(row["what"] in ("hit", "miss") for row in used),
            sum(row["what"] == "hit" for row in used),
            sum(row["tokens_in"] + row["tokens_out"] for row in skipped),
            tuple(record.get("decision_ms", ())),
            tuple(row for row in used if row["what"] == "put"),
            str(record["suite_digest"]),
        )


@dataclass(frozen=True, slots=True)
class Setting:
    """Which episodes are played."""

    suite: str = "mini"
    split: str = "dev"
    tasks: int | None = TASKS
    seed: int = 0
    seeds: int = 1
    workers: int = WORKERS


def run(args: Any) -> Iterator[dict[str, object]]:
    """Rows of both cases; ``-n`` tasks (32; all of the split are 128), ``--seed``."""
    from ..plugins import load_plugins

    plugins = load_plugins(environ={"APEX_PLUGINS": ""})
    tasks = getattr(args, "n", None) or TASKS
    setting = Setting(tasks=tasks, seed=getattr(args, "seed", None) or 0)
    for case in CASES:
        played = play(plugins, case, CONTENDERS, setting)
        for contender in CONTENDERS:
            for metric, value, unit in figures(played[OFF], played[contender]):
                yield {
                    "bench": "plan_cache",
                    "case": f"{case}, {setting.suite}/{setting.split}, {len(played[OFF])} episodes",
                    "contender": contender,
                    "metric": metric,
                    "value": value,
                    "unit": unit,
                }


def play(
    plugins: Plugins, policy: str, contenders: Mapping[str, tuple[str, ...]], setting: Setting
) -> dict[str, list[Played]]:
    """Every contender's episodes, in the plan's order of tasks. Raises ModelError when an episode could not be run.

    Raises what planning raises, too: unknown names, a file of plans that does not fit.
    """
    from ..episode.episode import run_episode
    from ..errors import SuiteError
    from ..experiment.arms import arm_named
    from ..experiment.planning import make_plan

    base = arm_named(policy, Arm("base"))
    arms = {f"{policy}, {name}": replace(base, interceptors=used) for name, used in contenders.items()}
    plan = make_plan(
        plugins,
        [replace(arm, name=name) for name, arm in arms.items()],
        suite=setting.suite,
        split=setting.split,
        limit=setting.tasks,
        seeds=setting.seeds,
        seed=setting.seed,
    )
    results: dict[int, EpisodeResult] = {}
    executor = plugins.catalog.make("executor", "local")
    for result in executor.run(plan.jobs(), run_episode, workers=setting.workers):
        if result.record.get("status") == "infrastructure":
            raise SuiteError(f"episode {result.record['task_id']} could not be run: {result.record.get('reason')}")
        results[result.index] = result
    told: dict[str, list[Played]] = {name: [] for name in contenders}
    for name, of_arm in zip(arms, told.values(), strict=True):
        of_arm += [Played.of(r) for _, r in sorted(results.items()) if r.record["arm"] == name]
        of_arm.sort(key=lambda one: (one.task_id, one.seed))
    return told


def figures(off: Sequence[Played], on: Sequence[Played]) -> Iterator[Figure]:
    """(metric, value, unit) of one contender beside the same episodes without a cache."""
    from ..analysis import percentile

    lookups, hits = sum(one.lookups for one in on), sum(one.hits for one in on)
    pairs = list(zip(off, on, strict=True))
    hit = [(a, b) for a, b in pairs if b.hits]
    yield "success", round(_mean([b.success for b in on]), 4), "share"
    yield "tokens per episode", round(_mean([b.tokens for b in on]), 1), "tokens"
    yield "decision p95", round(percentile([ms for b in on for ms in b.decision_ms], 0.95), 4), "ms"
    if not lookups:
        return
    yield "look-ups", lookups, "calls"
    yield "hits", hits, "calls"
    yield "hit rate", round(hits / lookups, 4), "share"
    yield "episodes with a hit", len(hit), "episodes"
    yield from _difference("success difference", pairs)
    if not hit:
        return
    yield from _difference("success difference on hits", hit)
    clusters = [b.cluster for _, b in hit]
    yield "saved on hits", round(_mean([b.share for _, b in hit]), 4), "share"
    yield from _bootstrap("saved on hits", [b.share for _, b in hit], clusters)
    fewer = [1 - b.tokens / a.tokens for a, b in hit if a.tokens]
    yield "fewer tokens on hits, paired", round(_mean(fewer), 4), "share"
    yield from _bootstrap("fewer tokens on hits, paired", fewer, clusters)


def _difference(metric: str, pairs: Sequence[tuple[Played, Played]]) -> Iterator[Figure]:
    from ..analysis import newcombe_paired

    ours, theirs = [float(b.success) for _, b in pairs], [float(a.success) for a, _ in pairs]
    told = newcombe_paired(ours, theirs)
    yield metric, round(_mean(ours) - _mean(theirs), 4), "share"
    yield f"{metric}, low", round(told.low, 4), "share"
    yield f"{metric}, high", round(told.high, 4), "share"


def _bootstrap(metric: str, values: Sequence[float], clusters: Sequence[str]) -> Iterator[Figure]:
    """Ends of the 95 % interval of a mean, clusters drawn whole; none where there are too few to draw from."""
    from ..analysis import bca_interval

    if len(set(clusters)) < 3 or len({round(value, 12) for value in values}) < 2:
        return
    told = bca_interval(values, clusters)
    if math.isfinite(told.low) and math.isfinite(told.high):
        yield f"{metric}, low", round(told.low, 4), "share"
        yield f"{metric}, high", round(told.high, 4), "share"


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return math.fsum(found) / len(found) if found else 0.0
