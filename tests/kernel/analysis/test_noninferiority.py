"""Non-inferiority: the four words, the published numbers of tasks, and its error rate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from apex_framework.analysis import Certainty, EpisodeRow, effective_tasks, margin_tasks, non_inferiority, pair


def rows(ours: list[bool], theirs: list[bool]) -> list[EpisodeRow]:
    return [
        EpisodeRow(arm, f"t{t}", 0, solved, 1, 1, 0, 0, "done", f"t{t}")
        for arm, results in (("a", ours), ("b", theirs))
        for t, solved in enumerate(results)
    ]


def judged(wins: int, losses: int, tasks: int, margin: float) -> Certainty:
    ours = [True] * wins + [False] * losses + [True] * (tasks - wins - losses)
    theirs = [False] * wins + [True] * losses + [True] * (tasks - wins - losses)
    return non_inferiority(pair(rows(ours, theirs), "a", "b"), margin).word


def test_the_four_words() -> None:
    assert judged(15, 15, 300, 0.10) is Certainty.NON_INFERIOR
    assert judged(0, 60, 300, 0.05) is Certainty.INFERIOR
    assert judged(15, 15, 300, 0.02) is Certainty.NOT_CERTIFIABLE
    assert judged(20, 50, 600, 0.05) is Certainty.INCONCLUSIVE


def test_agreeing_arms_are_certified_by_enough_tasks_only() -> None:
    assert judged(0, 0, 60, 0.02) is Certainty.NOT_CERTIFIABLE
    assert judged(0, 0, 400, 0.02) is Certainty.NON_INFERIOR
    some = [t < 20 for t in range(60)]
    told = non_inferiority(pair(rows(some, some), "a", "b"), 0.02)
    assert told.word is Certainty.NOT_CERTIFIABLE and told.tasks_needed is not None
    assert f"about {told.tasks_needed:,} tasks on which the arms agree like here would do" in told.sentence
    for tasks, word in (
        (told.tasks_needed, Certainty.NON_INFERIOR),
        (told.tasks_needed - 3, Certainty.NOT_CERTIFIABLE),
    ):
        alike = [3 * t < tasks for t in range(tasks)]
        assert non_inferiority(pair(rows(alike, alike), "a", "b"), 0.02).word is word


@pytest.mark.parametrize(("discordance", "tasks"), [(0.10, 1546), (0.20, 3092)])
def test_published_numbers_of_tasks_for_two_points(discordance: float, tasks: int) -> None:
    assert margin_tasks(0.02, discordance) == pytest.approx(tasks, abs=1)
    found = non_inferiority(pair(rows([True] * 300, [t >= 30 for t in range(300)]), "a", "b"), 0.02)
    assert found.method.startswith("one-sided 95 % bound, BCa")


def test_tasks_needed_come_from_the_observed_spread() -> None:
    ours = [True] * 15 + [False] * 15 + [True] * 270
    theirs = [False] * 15 + [True] * 15 + [True] * 270
    found = non_inferiority(pair(rows(ours, theirs), "a", "b"), 0.02)
    assert found.tasks_needed == pytest.approx(1546, rel=0.03)
    assert "tasks of this spread" in found.sentence


def test_an_arm_that_is_worse_by_the_margin_is_rarely_certified() -> None:
    """Nominal 5 %; 100 worlds of 200 tasks, in clusters of five only to be quick."""
    rng = np.random.default_rng(2)
    false = 0
    for _ in range(100):
        d = rng.choice([1, -1, 0], 200, p=[0.10, 0.20, 0.70])
        ours, theirs = [bool(x >= 0) for x in d], [bool(x <= 0) for x in d]
        world = [replace(row, cluster=f"m{i // 5 % 40}") for i, row in enumerate(rows(ours, theirs))]
        false += non_inferiority(pair(world, "a", "b"), 0.10).word is Certainty.NON_INFERIOR
    assert false <= 14  # 5 expected


def test_seeds_and_clusters_are_worth_less_than_tasks() -> None:
    assert effective_tasks(100, 5, 0.5) == pytest.approx(167, abs=0.5)
    assert effective_tasks(100, 5, 0.0) == 500 and effective_tasks(100, 5, 1.0) == 100
    with pytest.raises(ValueError):
        effective_tasks(100, 0.5, 0.1)


@pytest.mark.parametrize(("margin", "alpha"), [(0.0, 0.05), (1.5, 0.05), (0.1, 0.7)])
def test_impossible_margins_are_refused(margin: float, alpha: float) -> None:
    with pytest.raises(ValueError):
        non_inferiority(pair(rows([True], [True]), "a", "b"), margin, alpha=alpha)
