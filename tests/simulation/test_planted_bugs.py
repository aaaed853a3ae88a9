"""Every planted bug is noticed, by the invariant that the page names; and a patch that fits no more says so."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from apex_framework.runtime import Router
from apex_framework.testing.invariants import INVARIANTS
from apex_framework.testing.planted import PlantedBug, StaleBugError, hunt, planted
from apex_framework.testing.planted.bugs import BUGS


@pytest.mark.simulation
@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_caught(bug: PlantedBug) -> None:
    caught = hunt(bug)
    assert caught is not None, f"nobody noticed: {bug.breaks}"
    assert caught.invariant in INVARIANTS


def test_there_are_thirty_and_no_name_twice() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 30


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_every_patch_still_fits_the_source(bug: PlantedBug) -> None:
    with planted(bug):
        pass


def test_a_patch_that_fits_no_more_fails_loudly() -> None:
    with pytest.raises(StaleBugError, match=r"stands 0 times in apex_framework\.runtime\.router"):
        hunt(replace(BUGS[0], old="this text was never there"))


def test_the_real_modules_stay_as_they_were() -> None:
    before = {name: module for name, module in sys.modules.items() if name.startswith("apex_framework")}
    with planted(BUGS[0]) as simulation:
        assert simulation.World.__init__.__globals__["Router"] is not Router
    assert {name: module for name, module in sys.modules.items() if name.startswith("apex_framework")} == before
    assert sys.modules["apex_framework"].runtime is sys.modules["apex_framework.runtime"]
