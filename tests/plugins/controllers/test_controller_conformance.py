"""Every built-in controller passes the kit; every check of the kit catches exactly its broken controller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from apex_controllers import plugin
from apex_framework.interfaces import Controller
from apex_framework.testing.broken.controller import BROKEN, Sound
from apex_framework.testing.conformance import ConformanceError
from apex_framework.testing.controller import check_controller

FACTORIES: dict[str, Callable[..., Controller]] = {}


def _collect(name: str, factory: Callable[..., Any], **_: str) -> None:
    FACTORIES[name] = factory


plugin.apex_controllers(add=_collect)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("static", {}),
        ("static", {"spec": "flat"}),
        ("schedule", {"spec": "flat,chain,star"}),
        ("phase_heuristic", {}),
        ("random_switch", {"spec": "0.3"}),
        ("per_episode", {"policy": "none"}),
        ("per_episode", {}),
        ("bandit_v1", {"policy": "none"}),
        ("bandit_v1", {}),
        ("linucb", {"policy": "none"}),
        ("thompson", {"policy": "none"}),
    ],
)
def test_built_in_controllers_conform(name: str, options: dict[str, str]) -> None:
    check_controller(lambda: FACTORIES[name](**options))


def test_every_registered_controller_is_covered() -> None:
    baselines = {"static", "schedule", "phase_heuristic", "random_switch", "per_episode"}
    assert set(FACTORIES) == {*baselines, "bandit_v1", "linucb", "thompson"}


def test_a_sound_controller_passes() -> None:
    check_controller(Sound)


@pytest.mark.parametrize("check", BROKEN)
def test_each_check_catches_its_broken_controller_and_no_other_does(check: str) -> None:
    with pytest.raises(ConformanceError) as caught:
        check_controller(BROKEN[check])
    assert caught.value.failed == (check,)
