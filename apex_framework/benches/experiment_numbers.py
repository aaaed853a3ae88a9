"""The table of what experiments promise, from their harness to their report; the form is that of ``numbers``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .numbers import Answer, Found, Promise

EQUAL = 1e-9
"""Largest difference to scipy and statsmodels."""
NULL, BARE = "null episodes", "two bare processes"


def _harness(found: Found) -> Answer:
    ms = found.value("cpu per episode", case=NULL)
    return Answer(f"{ms:.0f} ms CPU", ms <= 50, ms, "ms")


def _flat(found: Found) -> Answer:
    straight = found.value("R squared of a straight line", case=NULL)
    before = found.value("resident memory after the second slice", case=NULL)
    after = found.value("resident memory after the last slice", case=NULL)
    measured = f"{before:.1f} MiB after a fifth, {after:.1f} at the end; R² {straight:.4f}"
    return Answer(measured, after <= 1.05 * before and straight >= 0.99, after / before, "x")


def _two_workers(found: Found) -> Answer:
    ratio, bare = _beside(found, "local, 1 worker"), found.value("CPU time together beside one: median", contender=BARE)
    return Answer(f"{ratio:.2f} x; two bare processes {bare:.2f} x", ratio >= 1.5, ratio, "x")


def _ray(found: Found) -> Answer:
    ratio = _beside(found, "ray, 2 workers")
    return Answer(f"{ratio:.2f} x", ratio <= 1.15, ratio, "x")


def _beside(found: Found, contender: str) -> float:
    return found.value("wall beside local, 2 workers: median", contender=contender)


def _kills(found: Found) -> Answer:
    kills = found.sum("kills of the driver", "kills of a worker")
    bad = found.sum("lost", "doubled", "unlike", "stuck")
    return Answer(f"{kills:.0f} kills: {bad:.0f} violations", bad == 0, bad, "violations")


def _equal(found: Found) -> Answer:
    worst = max(found.values("largest difference", contender="scipy").values())
    return Answer(f"{worst:.1e}", worst <= EQUAL, worst)


def _coverage(found: Found) -> Answer:
    every = found.values("coverage", case="95 % interval, ")
    large = {case: share for case, share in every.items() if int(re.findall(r"\d+", case)[-1]) >= 40}
    told = ", ".join(f"{100 * share:.1f} % at {re.findall(r'[0-9]+', case)[-1]}" for case, share in large.items())
    low = min(large.values())
    return Answer(told, all(0.93 <= share <= 0.97 for share in large.values()), 100 * low, "%")


def _false_better(found: Found) -> Answer:
    worst = max(found.values("false BETTER").values())
    return Answer(f"at most {100 * worst:.1f} %", worst <= 0.05, 100 * worst, "%")


def _report(found: Found) -> Answer:
    case, limit = [*found.values("wall", contender="limit").items()][-1]
    wall, cpu = found.value("wall", case=case), found.value("cpu", case=case)
    told, damages = found.value("episodes on the page", case=case), found.value("damages that verify finds", case=case)
    whole = f"{told:,.0f} episodes" == case and damages == 0
    measured = f"{wall:.1f} s, {cpu:.1f} s CPU, {told:,.0f} of {case} on the page, {damages:.0f} damages of the folder"
    return Answer(measured, whole and wall <= limit, wall, "s")


EXPERIMENTS: Sequence[Promise] = (
    Promise("harness per episode", "-", "<= 50 ms CPU", "harness", _harness),
    Promise("harness over 1,000 episodes", "-", "memory within 5 %, R² >= 0.99", "harness", _flat),
    Promise("two local workers beside one", "-", ">= 1.5 x", "scaling", _two_workers),
    Promise("Ray beside two local workers", "-", "<= 1.15 x", "scaling", _ray),
    Promise("kill -9 of drivers and workers", "-", "0 lost, doubled, unlike or stuck", "kills", _kills),
    Promise("exact tests and BCa beside scipy", "-", f"equal to {EQUAL:g}", "statistics", _equal),
    Promise("95 % intervals, 40 clusters or more", "-", "cover 93 to 97 %", "statistics", _coverage),
    Promise("nothing is better", "-", "false BETTER <= 5 %", "statistics", _false_better),
    Promise("HTML report of 10,000 episodes", "-", "<= 30 s, each of them on the page", "report", _report),
)
