"""Kit of teams: each shipped broken team fails exactly its check; the sound one and the built-ins pass."""

from __future__ import annotations

import pytest

from apex_framework.plugins import load_plugins
from apex_framework.testing import ConformanceError, check_team
from apex_framework.testing.broken import team as broken


@pytest.mark.parametrize("check", broken.BROKEN)
def test_a_broken_team_fails_exactly_its_check(check: str) -> None:
    with pytest.raises(ConformanceError) as caught:
        check_team(broken.BROKEN[check])
    assert caught.value.failed == (check,)


def test_a_sound_team_passes() -> None:
    check_team(broken.Sound)


@pytest.mark.parametrize("name", ["swe", "single", "manager"])
def test_the_built_in_teams_pass(name: str) -> None:
    catalog = load_plugins().catalog
    check_team(lambda: catalog.make("team", name))
