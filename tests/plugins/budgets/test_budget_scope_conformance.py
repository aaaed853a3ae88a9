"""The built-in budget scopes keep their contract, and each check of the kits catches what it is for."""

from __future__ import annotations

from itertools import count

import pytest

from apex_budgets import plugin
from apex_framework.testing.broken.budget_scope import BROKEN, BROKEN_REFILLS, Holder, Sound, holders
from apex_framework.testing.budget import check_budget_scope, check_refills
from apex_framework.testing.conformance import ConformanceError
from apex_framework.testing.scripted import ManualClock


def scopes():
    found = {}
    plugin.apex_budget_scopes(lambda name, factory, **_: found.setdefault(name, factory))
    return found


SHARED = ("run", "day")


def options(name, store):
    return {"tokens": 1_000, "store": store, "clock": ManualClock()} if name in SHARED else {}


@pytest.mark.parametrize("name", scopes())
def test_built_in_scopes_pass(name, tmp_path):
    def make():
        return scopes()[name](**options(name, tmp_path / "store"))

    check_budget_scope(make)
    assert make().name == name


@pytest.mark.parametrize("tranche", [None, 1, 1_000])
@pytest.mark.parametrize("name", SHARED)
def test_built_in_shared_ceilings_pass(name, tranche, tmp_path):
    numbers = count()

    def new_ceiling():
        store = tmp_path / f"store{next(numbers)}"
        return lambda: scopes()[name](tranche=tranche, **options(name, store))

    if tranche == 1:  # drawing a thousand tokens one by one takes a thousand transactions
        from apex_framework.testing.budget import check_hand_back_counts_once, check_overspending_counts_in_full

        check_hand_back_counts_once(new_ceiling)
        check_overspending_counts_in_full(new_ceiling)
    else:
        check_refills(new_ceiling)


def test_sound_scopes_pass():
    check_budget_scope(Sound)
    check_refills(holders(Holder))


@pytest.mark.parametrize("check", BROKEN)
def test_each_broken_scope_fails_exactly_its_check(check):
    with pytest.raises(ConformanceError) as caught:
        check_budget_scope(BROKEN[check])
    assert caught.value.failed == (check,)


@pytest.mark.parametrize("check", BROKEN_REFILLS)
def test_each_broken_holder_fails_exactly_its_check(check):
    with pytest.raises(ConformanceError) as caught:
        check_refills(holders(BROKEN_REFILLS[check]))
    assert caught.value.failed == (check,)
