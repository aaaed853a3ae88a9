"""What four scopes instead of one cost an episode.

``four scopes`` are episode, role, run and day, the last two shared with other processes through files; ``episode only`` is the
default. Two kinds of episode: the default team on tasks of mini/dev; and that of bench overhead, two agents with a message
and a model call per step and neither solver nor tests, so that the budget's share is as large as it can be.
They take turns, task by task; the regression is the median of the paired ratios of this process's CPU time, threads
included and the tasks' own tests not, with its 95 % interval by order statistics.
"""

from __future__ import annotations

import gc
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import process_time
from typing import Any

from .models import ROLES
from .overhead import null_episodes
from .paired import median_interval

PAIRS, MESSAGES, TASKS = 31, 200, 16
CEILING = 10**9
SCOPES = ("episode", "role", "run", "day")

Row = dict[str, object]
Work = Callable[[int], None]
"""Run the episode of a pair."""


def run(args: Any = None) -> Iterator[Row]:
    """Rows of bench ``multi_scope``. ``args.n`` is the number of pairs."""
    from ..budget import BudgetSettings

    pairs = int(getattr(args, "n", None) or PAIRS)
    with tempfile.TemporaryDirectory() as folder:
        budgets = BudgetSettings(
            run=CEILING,
            day=CEILING,
            roles=dict.fromkeys(("ping", "pong", *ROLES), CEILING),
            run_store=Path(folder) / "run.sqlite3",
            day_store=Path(folder) / "day.sqlite3",
        )
        settings = {"run_id": "bench", "budgets": budgets.to_json()}
        with _teams(pairs, settings) as (off, on):
            teams = _in_turns(off, on, pairs)
        one, four = null_episodes(), null_episodes(SCOPES, settings)
        alone = _in_turns(lambda _: one(MESSAGES), lambda _: four(MESSAGES), pairs)
    yield from _rows("default team, mini/dev", *teams)
    yield from _rows(f"framework alone, {MESSAGES} calls", *alone)


@contextmanager
def _teams(pairs: int, settings: Mapping[str, Any]) -> Iterator[tuple[Work, Work]]:
    """Episodes of the default team under one scope and under four, by the number of their pair."""
    from ..episode.arm import Arm
    from ..episode.episode import Episode
    from ..episode.workshop import Workshop
    from ..interfaces import EpisodeJob
    from ..plugins import load_plugins

    shop = Workshop(load_plugins(environ={"APEX_PLUGINS": ""}), "mini", "dev", min(pairs, TASKS))
    tasks = shop.suite.tasks("dev")

    def working(scopes: tuple[str, ...], run: Mapping[str, Any]) -> Work:
        arm = Arm("bench", scopes=scopes)

        def work(pair: int) -> None:
            task = tasks[pair % len(tasks)]
            Episode(shop, arm, task, EpisodeJob(0, arm.to_json(), task.id, pair, run)).run()

        return work

    try:
        yield working(("episode",), {}), working(SCOPES, settings)
    finally:
        shop.close()


def _in_turns(off: Work, on: Work, pairs: int) -> tuple[list[float], list[float]]:
    """CPU milliseconds of each; the first pair is not counted."""
    times: tuple[list[float], list[float]] = ([], [])
    for pair in range(pairs + 1):
        for which in ((0, 1), (1, 0))[pair % 2]:
            gc.collect()
            began = process_time()
            (off, on)[which](pair)
            if pair:
                times[which].append((process_time() - began) * 1000)
    return times


def _rows(case: str, off: list[float], on: list[float]) -> Iterator[Row]:
    for name, taken in (("episode only", off), ("four scopes", on)):
        yield _row(case, name, "cpu per episode, p50", statistics.median(taken), "ms")
    percent = [100 * (more / less - 1) for less, more in zip(off, on, strict=True)]
    low, high = median_interval(percent)
    yield _row(case, "four scopes", "regression", statistics.median(percent), "%")
    yield _row(case, "four scopes", "regression, from", low, "%")
    yield _row(case, "four scopes", "regression, to", high, "%")


def _row(case: str, contender: str, metric: str, value: float, unit: str) -> Row:
    return {
        "bench": "multi_scope",
        "case": case,
        "contender": contender,
        "metric": metric,
        "value": round(value, 3),
        "unit": unit,
    }
