"""The curves of graceful degradation: what the work allows, and that a cliff would be seen."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from apex_framework.benches import degradation
from apex_framework.benches.degradation import FLOOR, Point
from apex_framework.benches.load import rate
from apex_framework.benches.profiles import read
from apex_framework.benches.setting import Setting, ideal
from apex_framework.benches.stress import trials
from apex_framework.benches.trial import Parts


def test_an_ideal_bus_handles_what_is_offered_until_agents_are_full() -> None:
    normal = Setting(read("N"))
    capacity = rate(normal.profile) / 0.3
    assert ideal(normal) == pytest.approx(rate(normal.profile), rel=0.05)
    assert ideal(replace(normal, load=5.0)) == pytest.approx(capacity, rel=0.05)


def test_a_sick_agent_a_late_backend_and_a_held_loop_lower_the_limit() -> None:
    stress, normal = Setting(read("S"), load=1.5), replace(Setting(read("N")), load=2.0)
    well = replace(stress, profile=replace(stress.profile, sick=None))
    assert ideal(stress) < ideal(well)
    late = replace(normal, timeout_share=0.5, timeout_ms=200.0)
    mean = 1000 * 7 / (rate(normal.profile) / 0.3)  # one try; as many fail, each after 200 ms
    assert ideal(late) == pytest.approx(1000 * 7 / (mean + 200.0), rel=0.06)
    assert ideal(replace(normal, blocked_ms=10.0)) == pytest.approx(100.0, rel=0.02)


def test_a_trial_without_relays_and_switches_is_nearly_ideal() -> None:
    parts = Parts.built_in("fifo")
    flat = replace(parts, topologies=dict.fromkeys(("star", "chain", "flat"), parts.topologies["flat"]))
    for setting in (Setting(read("N")), Setting(read("S"), capacity=10_000)):
        still = replace(setting, seconds=30.0, switching=False)
        tally = trials(still, flat, [0])[0]
        assert tally.handled_in_time / 30.0 == pytest.approx(ideal(still), rel=0.002)


def test_a_point_is_judged_by_its_share_of_the_limit() -> None:
    tally = SimpleNamespace(handled_in_time=30, offered_s=3.0)
    assert Point("x", 20.0, [tally]).share == 0.5  # type: ignore[list-item]  # all that a point looks at
    assert Point("x", 0.0, [tally]).share == 1.0  # type: ignore[list-item]  # a tally of its own is enough


def test_a_blocking_controller_is_a_cliff_against_a_limit_that_ignores_it() -> None:
    parts = Parts.built_in("drr_wred")
    blocked = replace(Setting(read("S")), seconds=6.0, blocked_ms=60.0)
    point = Point("planted", ideal(replace(blocked, blocked_ms=0.0)), trials(blocked, parts, [1]))
    assert point.share < FLOOR


@pytest.mark.slow
def test_no_curve_has_a_cliff() -> None:
    rows = list(degradation.run(SimpleNamespace(seeds=1, seconds=30.0)))
    verdicts = {row["case"]: row["met"] for row in rows if "met" in row}
    assert verdicts == {
        "prolonged saturation": True,
        "slow controller, thinking": True,
        "slow controller, blocking": True,
        "quiesce timeout, drain": True,
        "quiesce timeout, migrate": True,
        "backend timeout": True,
    }
