"""How each promise is judged: by the rows of its bench, at the very limit, and never on half of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from apex_framework.benches.numbers import PROMISES, Found, Promise
from apex_framework.benches.promises import judged
from apex_framework.testing.invariants import INVARIANTS

Cell = tuple[str, str, str, float]
"""Case, contender, metric, value."""

SEEDS = "S, 20 seeds"
GOOD: dict[str, list[Cell]] = {
    "epoch check": [("check in send", "apex", "time", 59.0)],
    "switch, probe and journal fsync included (profile N)": [
        ("N", "journal on disk", "total p95", 14.0),
        ("N", "journal on disk", "total p99", 20.0),
        ("N", "limit", "total p95, journal on disk", 14.0),
        ("N", "journal on disk", "syncs per switch", 2.0),
    ],
    "switch, journal in memory (profile N)": [("N", "journal in memory", "total p95", 0.99)],
    "memory added by a switch (5 x 10,000 of 1 KB waiting, 5 x 1,000 arriving)": [
        ("m", "flat to star", "added at the peak", 4.0),
        ("m", "flat to chain", "added at the peak", 9.9),
        ("m", "flat to star", "copied of 50,000 waiting payloads", 0.0),
        ("m", "flat to chain", "copied of 50,000 waiting payloads", 0.0),
    ],
    "router with everything on, against asyncio.Queue": [
        ("small, everything on", "apex", "ratio to asyncio.Queue", 0.25),
        ("small, everything on", "apex", "throughput", 1e5),
        ("small", "apex", "ratio to asyncio.Queue", 0.1),
    ],
    "router with everything on, against autogen-core": [
        ("small, everything on", "apex", "ratio to autogen-core", 20.0)
    ],
    "router with everything on, memory": [("memory, 200,000 messages", "apex", "growth of the peak after that", 5.0)],
    "router, cost per message in a team of 100": [("100 agents", "apex", "ratio to 3 agents", 1.25)],
    "loss under profile S: lost for good (lanes of 256)": [
        (SEEDS, "apex", "loss, mean", 0.005),
        (SEEDS, "apex", "loss, p95", 0.01),
        (SEEDS, "apex", "lost of class final", 0.0),
        ("S, real time", "apex", "loss, mean", 1.0),
    ],
    "loss under profile S: every NACK counted (lanes of 10,000)": [
        (SEEDS, "lanes of 10,000", "strict loss, mean", 0.005),
        (SEEDS, "lanes of 10,000", "strict loss, p95", 0.01),
    ],
    "loss under profile S: every NACK counted (lanes of 256)": [
        (SEEDS, "apex", "strict loss, mean", 0.005),
        (SEEDS, "apex", "strict loss, p95", 0.01),
    ],
    "DRR 8:3:1 when backlogged": [
        *(("shares", "drr_wred", f"{service} off its weight", 1.0) for service in ("final", "draft", "critic")),
        *(("shares", "drr_wred", f"{service} of 12", 1.0) for service in ("final", "draft", "critic")),
        ("shares", "fifo", "final off its weight", -50.0),
    ],
    "one agent of seven stuck": [("one of seven stuck", "apex", "least ratio of the other six", 0.99)],
    "probe p95": [
        ("7 agents, 1 ms each", "apex", "p95", 4.9),
        ("7 agents, one stuck", "apex", "p95", 20.5),
        ("7 agents", "apex", "p95", 0.1),
    ],
    "pre-validation under profile S": [
        ("S, migrate", "probe on", "change of aborts", -0.5),
        ("S, migrate", "probe on", "commits more", 0.0),
        ("S, drain", "probe on", "change of aborts", 0.0),
    ],
    "controller p95 > 10 ms injected": [
        ("c", "apex", "seeds that pinned and healed", 100.0),
        ("c", "apex", "decisions to the pin, max", 20.0),
        ("c", "limit", "decisions to the pin, max", 20.0),
        ("c", "apex", "seeds that ran the same twice", 1.0),
    ],
    "simulation: checked steps": [
        ("1,000 seeds", "apex", "checked steps", 200_000.0),
        ("1,000 seeds", "apex", "time", 30.0),
        *(("1,000 seeds", "apex", kind, 0.0) for kind in INVARIANTS),
    ],
    "simulation: planted bugs caught": [(f"planted: {n}", "apex", "lost", 3.0) for n in range(30)],
    "journal under kill -9": [
        ("kill -9", "apex", "cycles", 500.0),
        ("kill -9", "apex", "lost", 0.0),
        ("kill -9", "apex", "phantom", 0.0),
    ],
    "journal, stopped at every call to the disk": [
        ("e", "apex", "calls to the disk at which it stopped", 38.0),
        *(
            ("e", "apex", f"stopped and read again, {model}", 5.0)
            for model in ("killed", "lost", "prefix", "zeroed", "reordered", "torn")
        ),
        *(("e", "apex", fault, 0.0) for fault in ("lost", "phantom", "unlike")),
    ],
    "cost of telemetry on the router": [
        ("router", "polled", "overhead", 5.0),
        ("router", "off again", "overhead", 0.1),
    ],
    "latency emulator": [
        (case, contender, metric, 0.03)
        for case in ("N", "S")
        for contender in ("drawn", "slept in virtual time", "slept for real")
        for metric in ("p50 error", "p95 error")
    ],
    "graceful degradation": [
        ("one", "apex", "worst share of the limit", 0.8),
        ("two", "apex", "worst share of the limit", 1.0),
    ],
}
"""Rows at the limit of each promise, where it is just met."""

BAD: dict[str, list[tuple[int, float]]] = {
    "epoch check": [(0, 60.0)],
    "switch, probe and journal fsync included (profile N)": [(0, 14.1), (1, 151.0), (3, 2.1)],
    "switch, journal in memory (profile N)": [(0, 1.0)],
    "memory added by a switch (5 x 10,000 of 1 KB waiting, 5 x 1,000 arriving)": [(0, 10.0), (3, 1.0)],
    "router with everything on, against asyncio.Queue": [(0, 0.24)],
    "router with everything on, against autogen-core": [(0, 19.9)],
    "router with everything on, memory": [(0, 5.1)],
    "router, cost per message in a team of 100": [(0, 1.26)],
    "loss under profile S: lost for good (lanes of 256)": [(0, 0.0051), (1, 0.011), (2, 1.0)],
    "loss under profile S: every NACK counted (lanes of 10,000)": [(0, 0.006), (1, 0.02)],
    "loss under profile S: every NACK counted (lanes of 256)": [(0, 0.006), (1, 0.02)],
    "DRR 8:3:1 when backlogged": [(0, -1.1), (2, 1.1), (5, 0.0)],
    "one agent of seven stuck": [(0, 0.98)],
    "probe p95": [(0, 5.0)],
    "pre-validation under profile S": [(0, -0.49), (1, -1.0)],
    "controller p95 > 10 ms injected": [(0, 0.0), (1, 21.0), (3, 0.99)],
    "simulation: checked steps": [(1, 31.0), (2, 1.0)],
    "simulation: planted bugs caught": [],
    "journal under kill -9": [(0, 499.0), (1, 1.0), (2, 1.0)],
    "journal, stopped at every call to the disk": [(7, 1.0), (8, 1.0), (9, 1.0)],
    "cost of telemetry on the router": [(0, 5.1)],
    "latency emulator": [(0, -0.031), (11, 0.031)],
    "graceful degradation": [(0, 0.79), (1, 0.5)],
}
"""Promise -> (row, value) with which it is broken."""


def _rows(cells: list[Cell]) -> Iterator[dict[str, object]]:
    for case, contender, metric, value in cells:
        yield {"bench": "b", "case": case, "contender": contender, "metric": metric, "value": value, "unit": ""}


def _promises() -> list[Promise]:
    return [promise for promise in PROMISES if promise.what in GOOD]


def test_every_promise_has_examples() -> None:
    assert {promise.what for promise in PROMISES} == set(GOOD) == set(BAD)


@pytest.mark.parametrize("promise", _promises(), ids=lambda promise: promise.what)
def test_a_promise_is_met_at_its_limit_broken_beyond_it_and_open_without_rows(promise: Promise) -> None:
    good = GOOD[promise.what]
    row = judged(promise, _rows(good))
    assert (row["met"], row["case"]) == ("yes", promise.what), row
    for number, value in BAD[promise.what]:
        broken = [*good[:number], (*good[number][:3], value), *good[number + 1 :]]
        assert judged(promise, _rows(broken))["met"] == "no", broken[number]
    assert judged(promise, [])["met"] == "not measured"


def test_a_bug_that_is_not_caught_breaks_its_promise() -> None:
    promise = next(promise for promise in PROMISES if "planted" in promise.what)
    good = GOOD[promise.what]
    assert judged(promise, _rows([*good, ("planted: x", "apex", "not caught", 400.0)]))["met"] == "no"
    assert judged(promise, _rows(good[1:]))["met"] == "no"


def test_a_row_is_found_by_part_of_its_case_and_only_alone() -> None:
    found = Found(_rows([("one", "apex", "m", 1.0), ("two", "apex", "m", 2.0), ("one", "peer", "m", 3.0)]))
    assert found.value("m", case="tw") == 2.0
    assert found.value("m", contender="peer") == 3.0
    assert found.values("m") == {"one": 1.0, "two": 2.0}
    assert found.sum("m") == 3.0
    for wrong in ({}, {"case": "three"}, {"contender": "x"}):
        with pytest.raises(LookupError):
            found.value("m", **wrong)
