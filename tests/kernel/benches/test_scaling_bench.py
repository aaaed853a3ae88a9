"""Bench scaling: every contender does every slice, and a missing peer is said."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from apex_framework.benches import scaling


@pytest.mark.slow
def test_it_sets_two_workers_beside_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APEX_PLUGINS", "")  # without executor ray, wherever this is run
    rows = {(row["contender"], row["metric"]): row["value"] for row in scaling.run(SimpleNamespace(n=20))}
    assert rows["ray, 2 workers", "not installed"] == 1.0
    assert rows["local, 1 worker", "wall beside local, 2 workers: median"] > 0  # type: ignore[operator]  # a number
    assert rows["local, 2 workers", "wall per episode, median of 10 slices of 2"] > 0  # type: ignore[operator]  # a number
