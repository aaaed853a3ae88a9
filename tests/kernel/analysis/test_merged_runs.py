"""Several runs read as one: what is refused, and that the order in which they are named changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from apex_framework.analysis import EpisodeRow, RunData, answer_of, merge_runs
from apex_framework.errors import NotComparableError


def run(
    name: str,
    *,
    arms: tuple[str, ...] = ("x", "static_star"),
    seeds: tuple[int, ...] = (0,),
    done: int = 6,
    **more: Any,
) -> RunData:
    """Six tasks, of which the first ``done`` were run."""
    rows = tuple(
        EpisodeRow(arm, f"t{t}", seed, t % 2 == 0, 1, 1, 0, 0, "done", f"t{t}")
        for arm in arms
        for seed in seeds
        for t in range(done)
    )
    tasks = {f"t{t}": f"t{t}" for t in range(6)}
    planned = len(arms) * len(seeds) * 6
    settings = {arm: {"name": arm} for arm in arms}
    return RunData(
        Path(name), rows, "mini", "test", "d", planned=planned, arms=settings, seeds=seeds, tasks=tasks, **more
    )


def test_an_arm_with_another_policy_is_another_arm() -> None:
    one, other = run("a", policies={"x": "p1"}), run("b", seeds=(1,), policies={"x": "p2"})
    with pytest.raises(NotComparableError, match="'x' has another policy in b"):
        merge_runs([one, other])
    assert merge_runs([one, run("b", seeds=(1,), policies={"x": "p1"})]).policies == {"x": "p1"}


def test_every_run_is_held_against_all_that_came_before_it() -> None:
    third = run("c", arms=("y",), seeds=(1,))
    third = RunData(**{**vars_of(third), "arms": {"y": {"name": "y", "budget": 5}}})
    with pytest.raises(NotComparableError, match="'y' has other settings in c"):
        merge_runs([run("a"), run("b", arms=("y",)), third])


def test_what_an_interrupted_run_lacks_is_missing_unless_another_has_it() -> None:
    half = run("a", done=2)
    assert answer_of(merge_runs([half])).missing_episodes == 8
    assert answer_of(merge_runs([half, run("b", seeds=(1,))])).missing_episodes == 8
    assert answer_of(merge_runs([half, run("b")])).missing_episodes == 0


def test_the_order_of_runs_does_not_choose_the_best_static() -> None:
    statics = ("x", "static_star", "static_flat")
    registered = {"best_static": "static_star", "experiment": {"registered": "2026"}}
    named, unnamed = run("a", arms=statics, settings=registered), run("b", arms=statics, seeds=(1,))
    for runs in ([named, unnamed], [unnamed, named]):
        (verdict,) = answer_of(merge_runs(runs)).verdicts
        assert (verdict.best_static, verdict.best_static_from) == ("static_star", "plan")
    whole = merge_runs([named, run("b", arms=statics, seeds=(1,), settings=registered)])
    assert answer_of(whole).verdicts[0].best_static_from == "dev"
    other = run("c", arms=statics, seeds=(2,), settings={"best_static": "static_flat"})
    for runs in ([named, other], [other, named]):
        with pytest.raises(NotComparableError, match="different best static topologies: static_flat, static_star"):
            merge_runs(runs)


def vars_of(found: RunData) -> dict[str, Any]:
    return {name: getattr(found, name) for name in RunData.__slots__}
