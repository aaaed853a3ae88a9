"""The lift that a finished run could have shown: of single seeds McNemar's, of several seeds and of clusters their spread's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from apex_framework.analysis import (
    EpisodeRow,
    Pairing,
    RunData,
    answer_of,
    detectable_lift,
    estimate_lift,
    tasks_needed,
)
from apex_framework.analysis.lift import PairedTask


def drawn(seeds: int, *, tasks: int = 300, size: int = 1, lift: float = 0.0, draw: int = 0) -> Pairing:
    """Tasks of differing difficulty, each with its own chance of success; the arm gains ``lift`` on every one."""
    rng = np.random.default_rng([draw, seeds])
    chance = rng.beta(1.2, 1.5, tasks)[:, None]
    ours = (rng.random((tasks, seeds)) < np.clip(chance + lift, 0, 1)).mean(axis=1)
    theirs = (rng.random((tasks, seeds)) < chance).mean(axis=1)
    pairs = zip(ours.tolist(), theirs.tolist(), strict=True)
    found = tuple(PairedTask(f"t{i}", f"c{i // size}", "", one, other) for i, (one, other) in enumerate(pairs))
    return Pairing("a", "b", found, tasks * seeds, tasks * seeds)


def test_more_seeds_of_the_same_tasks_never_raise_it() -> None:
    found = [estimate_lift(drawn(seeds)).detectable for seeds in (1, 2, 3, 5, 10)]
    told = [lift for lift in found if lift is not None]
    assert len(told) == 5 and told == sorted(told, reverse=True)
    assert told[3] < told[0] / 2


def test_a_lift_as_large_as_five_seeds_are_said_to_show_is_shown_in_about_80_percent_of_runs() -> None:
    told = estimate_lift(drawn(5)).detectable or 0.0
    assert told == pytest.approx(0.045, abs=0.004)
    shown = [estimate_lift(drawn(5, lift=told, draw=draw)).interval.low > 0 for draw in range(1, 61)]
    assert 0.65 <= sum(shown) / len(shown) <= 0.95


def test_one_seed_of_independent_tasks_has_the_number_of_mcnemars_test() -> None:
    found = estimate_lift(drawn(1))
    assert found.detectable == detectable_lift(300, found.discordance)
    assert found.tasks_needed(0.05) == tasks_needed(0.05, found.discordance)
    assert found.detectable_method == "McNemar mid-p at the observed discordance"


def test_clusters_that_differ_raise_it_and_never_lower_it() -> None:
    alike = tuple(PairedTask(f"t{i}", f"c{i // 10}", "", float(i // 10 % 3 == 0), 0.0) for i in range(300))
    apart = tuple(PairedTask(t.task_id, t.task_id, "", t.ours, t.theirs) for t in alike)
    clustered, single = (estimate_lift(Pairing("a", "b", tasks, 300, 300)) for tasks in (alike, apart))
    assert clustered.detectable is not None and single.detectable is not None
    assert clustered.detectable > 2 * single.detectable
    assert "means of 30 clusters, the larger" in clustered.detectable_method
    needed, alone = clustered.tasks_needed(0.05), single.tasks_needed(0.05)
    assert needed is not None and alone is not None and needed > 4 * alone
    spread = estimate_lift(drawn(1, size=3))
    assert spread.detectable is not None and spread.detectable >= (detectable_lift(300, spread.discordance) or 1.0)


@pytest.mark.parametrize("differing", [0, 1, 5])
def test_there_is_none_where_too_few_tasks_differ_to_show_any(differing: int) -> None:
    tasks = tuple(PairedTask(f"t{i}", f"t{i}", "", 0.4 if i < differing else 0.2, 0.2) for i in range(100))
    found = estimate_lift(Pairing("a", "b", tasks, 500, 500))
    assert found.detectable is None
    assert found.tasks_needed(0.05) is None


def test_the_next_command_asks_for_the_tasks_that_several_seeds_leave_needed() -> None:
    rng = np.random.default_rng(3)
    rows = [
        EpisodeRow(arm, f"t{t}", s, bool(rng.random() < 0.5), 1, 1, 0, 0, "done", f"t{t}")
        for arm in ("bandit_v1", "static_star", "single")
        for t in range(100)
        for s in range(5)
    ]
    arms = {row.arm: {"name": row.arm} for row in rows}
    run = RunData(path=None, rows=tuple(rows), split="test", suite="mini", arms=arms)  # type: ignore[arg-type]  # there is no folder
    answer = answer_of(run)
    needed = max(lift.tasks_needed(0.05) or 0 for lift in answer.lifts)
    assert 200 < needed < 600
    assert answer.next_command == f"apex run --controller bandit_v1 --suite mini/test --episodes {needed}"
    options = {"data": "/a b/sums.jsonl", "language": "c", "repos": "/r", "level": "2"}
    given = replace(run, settings={"suite_options": options})
    assert answer_of(given).next_command == (
        "apex run --controller bandit_v1 --suite mini/test --data '/a b/sums.jsonl' --repos /r"
        f" --set suite_options=language=c,level=2 --episodes {needed}"
    )
