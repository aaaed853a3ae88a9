"""Would choosing among recorded systems, task by task, have helped? ``python examples/selection.py RUN [--among PATTERN]``

RUN is a folder that ``apex suite import`` made. This is algorithm selection in hindsight (claim level L3): every system
ran alone, none was switched in the middle of a task. Two bounds and one policy that anybody could have followed:

* the oracle takes, per task, any system that solved it;
* luck is what any of several attempts of one and the same system solves, where RUN has several seeds;
* the selector takes, per cluster, the system that solved most of that cluster's other tasks, learned without the tenth
  of the tasks that it is judged on. It is compared with the one system that was best on the same nine tenths.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import combinations
from operator import or_
from pathlib import Path
from statistics import median
from typing import Any

from apex_framework.analysis import EpisodeRow, lift_between, read_run
from apex_framework.ports import derive_seed

FOLDS = 10
Solved = Mapping[str, int]
"""Arm -> the tasks that its first attempt solved, a bit each."""


def study(rows: Sequence[EpisodeRow], among: str = "", seed: int = 0) -> dict[str, Any]:
    """All figures, shares of tasks. Tasks that some arm has no verdict for are left out and counted."""
    rows = [row for row in rows if re.search(among, row.arm)]
    tasks = sorted({row.task_id for row in rows} - {row.task_id for row in rows if not row.judged})
    bit = {task: 1 << place for place, task in enumerate(tasks)}
    first = min(row.seed for row in rows)
    solved: dict[str, int] = {}
    for row in rows:
        if row.seed == first and row.task_id in bit:
            solved[row.arm] = solved.get(row.arm, 0) | (bit[row.task_id] if row.success else 0)
    cluster = {row.task_id: row.cluster for row in rows}
    arms, n = list(solved), len(tasks)
    count = {arm: solved[arm].bit_count() for arm in arms}
    apart = [(solved[a] ^ solved[b]).bit_count() / n for a, b in combinations(arms, 2)]
    threes = [(_any(solved, c).bit_count() - max(count[arm] for arm in c)) / n for c in combinations(arms, 3)]
    chosen = _chosen(solved, bit, cluster, seed)
    like = {row.task_id: row for row in rows}
    made = [
        replace(like[task], arm=name, seed=0, success=bool(solved[arm] & bit[task]))
        for name, of in chosen.items()
        for task, arm in of.items()
    ]
    return {
        "tasks": n,
        "left_out": len(cluster) - n,
        "clusters": len(set(cluster.values())),
        "arms": {arm: count[arm] / n for arm in arms},
        "oracle_of_all": _any(solved, arms).bit_count() / n,
        "discordance": _spread(apart),
        "oracle_of_three_over_their_best": _spread(threes),
        "luck": _luck(rows, tasks),
        "selector": sum(row.success for row in made if row.arm == "selector") / n,
        "one_for_all": sum(row.success for row in made if row.arm == "one for all") / n,
        "lift": lift_between(made, "selector", "one for all", seed=seed),
    }


def _chosen(solved: Solved, bit: Mapping[str, int], cluster: Mapping[str, str], seed: int) -> dict[str, dict[str, str]]:
    """Policy -> task -> arm, each learned on the other folds.

    Among equal ones the selector takes the arm that is better over all, and both then draw lots: whoever wrote the file
    down in order of success would decide otherwise.
    """
    lot = {arm: derive_seed("lot", seed, arm) for arm in solved}
    fold = {task: derive_seed("fold", seed, task) % FOLDS for task in bit}
    known = [sum(bit[task] for task in bit if fold[task] != each) for each in range(FOLDS)]
    like = {name: sum(bit[task] for task in bit if cluster[task] == name) for name in set(cluster.values())}

    def best(judged: int, near: int) -> str:
        def rank(arm: str) -> tuple[int, int, int]:
            return (solved[arm] & near).bit_count(), (solved[arm] & judged).bit_count(), lot[arm]

        return max(solved, key=rank)

    found: dict[str, dict[str, str]] = {"selector": {}, "one for all": {}}
    for task in bit:
        judged = known[fold[task]]
        found["selector"][task] = best(judged, judged & like[cluster[task]])
        found["one for all"][task] = best(judged, judged)
    return found


def _luck(rows: Sequence[EpisodeRow], tasks: Sequence[str]) -> dict[str, dict[str, float]]:
    """Arm -> its best attempt, and any of its attempts; empty for arms with one seed."""
    found = {}
    for arm in dict.fromkeys(row.arm for row in rows):
        mine = {(row.seed, row.task_id): row.success for row in rows if row.arm == arm}
        seeds = sorted({seed for seed, _ in mine})
        if len(seeds) > 1:
            runs = [sum(mine[s, t] for t in tasks) / len(tasks) for s in seeds]
            union = sum(any(mine[s, t] for s in seeds) for t in tasks) / len(tasks)
            found[arm] = {"attempts": len(seeds), "best_attempt": max(runs), "any": union}
    return found


def _any(solved: Solved, arms: Sequence[str]) -> int:
    """Tasks that some of the arms solved."""
    return reduce(or_, (solved[arm] for arm in arms))


def _spread(values: Sequence[float]) -> dict[str, float] | None:
    return {"least": min(values), "median": median(values), "most": max(values), "of": len(values)} if values else None


def main() -> None:
    """Print the study as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("run", type=Path)
    parser.add_argument("--among", default="", help="only arms whose name matches this regular expression")
    parser.add_argument("--seed", type=int, default=0, help="of folds, lots and resampling")
    given = parser.parse_args()
    found = study(read_run(given.run).rows, given.among, given.seed)
    lift = found.pop("lift")
    span = {"low": lift.interval.low, "high": lift.interval.high, "method": lift.interval.method}
    tested = {"wins": lift.wins, "losses": lift.losses, "p": lift.p, "test": lift.test}
    found["lift"] = {"estimate": lift.estimate, **span, **tested}
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
