"""What experiments promise: rows of every bench are understood, and each promise can be broken."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from apex_framework.benches import harness, kills, scaling, statistics
from apex_framework.benches.experiment_numbers import EXPERIMENTS
from apex_framework.benches.promises import judged

Cells = dict[tuple[str, str, str], float]
NULL, KILLS = ("1,000 null episodes", "apex"), ("kill -9 of drivers and workers", "apex")
TURNS, BESIDE = "null episodes in turns", "wall beside local, 2 workers: median"
KEPT: dict[str, Cells] = {
    "harness": {
        (*NULL, "cpu per episode"): 50.0,
        ("local executor, one worker", "apex", "cpu per episode"): 70.0,
        (*NULL, "R squared of a straight line"): 0.99,
        (*NULL, "resident memory after the second slice"): 40.0,
        (*NULL, "resident memory after the last slice"): 42.0,
    },
    "scaling": {
        (TURNS, "local, 1 worker", BESIDE): 1.5,
        (TURNS, "two bare processes", "CPU time together beside one: median"): 1.8,
        (TURNS, "ray, 2 workers", BESIDE): 1.15,
    },
    "kills": {
        (*KILLS, "kills of the driver"): 11,
        (*KILLS, "kills of a worker"): 9,
        **{(*KILLS, fault): 0 for fault in ("lost", "doubled", "unlike", "stuck")},
    },
    "statistics": {
        ("BCa of 80 tasks", "scipy", "largest difference"): 1e-9,
        ("McNemar exact", "scipy", "largest difference"): 0.0,
        ("95 % interval, 30 clusters", "apex", "coverage"): 0.90,
        ("95 % interval, 40 clusters", "apex", "coverage"): 0.93,
        ("95 % interval, 100 clusters", "apex", "coverage"): 0.97,
        ("Hodges-Lehmann, 40 tasks", "apex", "coverage"): 0.99,
        ("null, all arms alike", "apex", "false BETTER"): 0.05,
    },
}
BROKEN = [
    ("harness per episode", (*NULL, "cpu per episode"), 50.1),
    ("harness over 1,000 episodes", (*NULL, "resident memory after the last slice"), 42.1),
    ("harness over 1,000 episodes", (*NULL, "R squared of a straight line"), 0.98),
    ("two local workers beside one", (TURNS, "local, 1 worker", BESIDE), 1.49),
    ("Ray beside two local workers", (TURNS, "ray, 2 workers", BESIDE), 1.16),
    *(("kill -9 of drivers and workers", (*KILLS, f), 1) for f in ("lost", "doubled", "unlike", "stuck")),
    ("exact tests and BCa beside scipy", ("McNemar exact", "scipy", "largest difference"), 2e-9),
    ("95 % intervals, 40 clusters or more", ("95 % interval, 40 clusters", "apex", "coverage"), 0.929),
    ("95 % intervals, 40 clusters or more", ("95 % interval, 100 clusters", "apex", "coverage"), 0.971),
    ("nothing is better", ("null, all arms alike", "apex", "false BETTER"), 0.051),
]


def _met(what: str, changed: Cells) -> object:
    promise = next(promise for promise in EXPERIMENTS if promise.what == what)
    keys = ("case", "contender", "metric")
    cells = {**KEPT[promise.bench], **changed}
    return judged(promise, [{**dict(zip(keys, key, strict=True)), "value": value} for key, value in cells.items()])[
        "met"
    ]


@pytest.mark.parametrize(("what", "key", "value"), BROKEN)
def test_a_promise_is_kept_at_its_limit_and_broken_beyond_it(
    what: str, key: tuple[str, str, str], value: float
) -> None:
    assert _met(what, {}) == "yes"
    assert _met(what, {key: value}) == "no"


def test_every_promise_can_be_broken() -> None:
    assert {what for what, _, _ in BROKEN} | {"HTML report of 10,000 episodes"} == {p.what for p in EXPERIMENTS}


@pytest.mark.slow
def test_the_benches_say_what_their_promises_ask() -> None:
    rows = [
        *harness.run(SimpleNamespace(n=40)),
        *kills.run(SimpleNamespace(n=1, seed=1, seeds=2)),
        *scaling.run(SimpleNamespace(n=20)),
        *statistics.equalities(0),
        *(row for clusters in (30, 40) for row in statistics.coverage(clusters, 3, 0)),
        *statistics.null_verdicts(2, 0),
    ]
    for promise in EXPERIMENTS[:-1]:
        made = judged(promise, [row for row in rows if row["bench"] == promise.bench])
        assert made["met"] in ("yes", "no") or "ray, 2 workers is not installed" in str(made), made
