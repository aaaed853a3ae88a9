"""The kit of suites: a sound one passes, and each check has one suite that fails only it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from apex_framework.interfaces import TaskSuite
from apex_framework.testing import ConformanceError, check_suite
from apex_framework.testing.broken.suite import BROKEN, Sound


def test_a_sound_suite_passes() -> None:
    check_suite(Sound)


@pytest.mark.parametrize(("check", "make"), BROKEN.items(), ids=list(BROKEN))
def test_each_broken_suite_fails_its_check_and_no_other(check: str, make: Callable[[], TaskSuite]) -> None:
    with pytest.raises(ConformanceError) as caught:
        check_suite(make)
    assert caught.value.failed == (check,)
