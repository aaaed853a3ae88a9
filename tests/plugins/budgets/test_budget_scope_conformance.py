"""The built-in budget scopes keep their contract, and each check of the kit catches what it is for."""

from __future__ import annotations

import pytest

from apex_budgets import plugin
from apex_framework.testing.broken.budget_scope import BROKEN, Sound
from apex_framework.testing.budget import check_budget_scope
from apex_framework.testing.conformance import ConformanceError


def scopes():
    found = {}
    plugin.apex_budget_scopes(lambda name, factory, **_: found.setdefault(name, factory))
    return found


@pytest.mark.parametrize("name", scopes())
def test_built_in_scopes_pass(name):
    check_budget_scope(scopes()[name])
    assert scopes()[name]().name == name


def test_a_sound_scope_passes():
    check_budget_scope(Sound)


@pytest.mark.parametrize("check", BROKEN)
def test_each_broken_scope_fails_exactly_its_check(check):
    with pytest.raises(ConformanceError) as caught:
        check_budget_scope(BROKEN[check])
    assert caught.value.failed == (check,)
