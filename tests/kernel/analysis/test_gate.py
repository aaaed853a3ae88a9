"""The informativeness gate on made-up worlds whose answers are known."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from apex_framework.analysis import EpisodeRow, evaluate_gate

STATICS = ("static:star", "static:chain", "static:flat")


def rows_of(arm: str, solves: Callable[[int], bool], *, seed: int = 0, messages: int = 1_000) -> list[EpisodeRow]:
    return [
        EpisodeRow(arm, f"t{t:03}", seed, solves(t), 4_000, 9, 0, 0, "done", f"m{t % 40}", "", message_tokens=messages)
        for t in range(120)
    ]


def informative() -> list[EpisodeRow]:
    """Each static solves its own third and a common tenth; running one again changes nothing."""
    rows: list[EpisodeRow] = []
    for i, name in enumerate(STATICS):
        for seed in range(3 if i == 0 else 1):
            rows += rows_of(name, lambda t, i=i: t % 3 == i or t < 12, seed=seed)
    return rows


def test_an_informative_suite_passes() -> None:
    gate = evaluate_gate(informative(), statics=STATICS)
    assert gate.passed
    by_name = {check.name: check for check in gate.checks}
    assert by_name["best static"].value == pytest.approx(0.4)
    assert by_name["oracle static beyond the best static run three times"].value == pytest.approx(0.6)
    assert by_name["messages' share of tokens"].value == 0.25
    assert by_name["discordance of static:star and static:chain"].value == pytest.approx(72 / 120)


def test_what_three_attempts_gain_is_not_an_oracles_gain() -> None:
    rows = [row for row in informative() if row.seed == 0]
    rows += rows_of("static:star", lambda t: t % 3 == 1 or t < 12, seed=1)
    rows += rows_of("static:star", lambda t: t % 3 == 2 or t < 12, seed=2)
    gate = evaluate_gate(rows, statics=STATICS)
    check = next(c for c in gate.checks if c.name.startswith("oracle"))
    assert check.value == pytest.approx(0.0) and check.passed is False and not gate.passed


def test_identical_topologies_fail() -> None:
    rows = [row for name in STATICS for seed in range(3) for row in rows_of(name, lambda t: t < 60, seed=seed)]
    gate = evaluate_gate(rows, statics=STATICS)
    assert [c.passed for c in gate.checks if c.name.startswith("discordance")] == [False] * 3


@pytest.mark.parametrize(("share", "passed"), [(0.1, False), (0.5, True), (0.9, False)])
def test_the_best_static_must_neither_fail_nor_solve_everything(share: float, passed: bool) -> None:
    rows = [row for name in STATICS for row in rows_of(name, lambda t: t < share * 120)]
    assert evaluate_gate(rows, statics=STATICS).checks[0].passed is passed


def test_what_was_not_measured_does_not_pass() -> None:
    gate = evaluate_gate([row for row in informative() if row.seed == 0], statics=STATICS)
    check = next(c for c in gate.checks if c.name.startswith("oracle"))
    assert check.value is None and check.detail.startswith("not measured") and not gate.passed


def test_the_best_schedule_is_reported_with_its_interval() -> None:
    schedules = ("schedule:a", "schedule:b")
    rows = informative() + rows_of(schedules[0], lambda t: t < 30) + rows_of(schedules[1], lambda t: t % 2 == 0)
    gate = evaluate_gate(rows, statics=STATICS, schedules=schedules)
    check = next(c for c in gate.checks if c.name.startswith("best of 2"))
    assert check.value == pytest.approx(0.1) and check.interval is not None and check.passed is None
    assert "schedule:b" in check.detail
