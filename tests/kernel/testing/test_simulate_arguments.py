"""``simulate`` and the bench of durability: impossible arguments are one line, odd ones are right."""

from __future__ import annotations

from typing import Any

import pytest

from apex_framework.benches.durable import _rate
from apex_framework.testing import simulate
from apex_lanes.fifo import Fifo
from apex_topologies.star import Star
from apex_transports.inproc import InProcess

PARTS: dict[str, Any] = {"topologies": {"star": Star()}, "lanes": Fifo(), "transport": InProcess()}


@pytest.mark.parametrize("wrong", [{"seeds": 0}, {"seeds": -1}, {"steps": 0}, {"topologies": {}}])
def test_nothing_to_simulate_is_an_error(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="at least"):
        simulate(**{**PARTS, **wrong})


def test_no_topology_is_not_the_installations_own() -> None:
    with pytest.raises(ValueError, match="topologies is empty"):
        simulate(topologies={}, seeds=1)


@pytest.mark.parametrize(
    "wrong", [{"topologies": {"star": Star}}, {"lanes": Fifo}, {"transport": InProcess}, {"team": Star}]
)
def test_a_class_is_not_an_instance(wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="pass an instance"):
        simulate(**{**PARTS, "seeds": 1, **wrong})


@pytest.mark.parametrize("n", [3, 8, 20])
@pytest.mark.parametrize("at_once", [0, 1, 8])
def test_the_bench_of_durability_takes_any_number_of_messages(n: int, at_once: int) -> None:
    assert _rate(n, at_once, None) > 0
