"""What a worker keeps is released at its end: workspaces, what a suite's judging opened, backends."""

from __future__ import annotations

from typing import Any

import pytest
from tiny_suite import TinySuite

from apex_framework.episode.workshop import Workshop
from apex_framework.hookspecs import ApexSpec, hookimpl
from apex_framework.plugins import load_plugins


class Judging(TinySuite):
    """Its judging holds something open."""

    closed = 0

    def close(self) -> None:
        self.closed += 1
        raise RuntimeError("it does not close")


class World(ApexSpec):
    """Registers it."""

    @hookimpl
    def apex_suites(self, add: Any) -> None:
        add("judging", Judging)


def test_a_suite_that_closes_is_closed_and_one_that_fails_at_it_keeps_nothing_else_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shop = Workshop(load_plugins(plugins={"world": World()}, strict=True), "judging", "dev")
    place = shop.workspaces.create(shop.task("clamp")).root.parent
    models: list[bool] = []
    monkeypatch.setattr(shop.models, "close", lambda: models.append(True))
    with pytest.raises(RuntimeError, match="it does not close"):
        shop.close()
    assert isinstance(shop.suite, Judging) and shop.suite.closed == 1
    assert models == [True] and not place.exists()
