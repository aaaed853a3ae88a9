"""Bench ``workspaces``: every step beside its peer, and a roll-back that brings back what was there."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from apex_framework.benches import workspaces


def test_every_step_has_its_peer_and_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspaces, "FILES", 40)
    rows = list(workspaces.run(SimpleNamespace(n=1)))
    assert all(set(row) == {"bench", "case", "contender", "metric", "value", "unit"} for row in rows)
    metrics = {(row["case"], row["metric"]) for row in rows}
    for provider in workspaces.PROVIDERS:
        for step, peer in workspaces.PEERS.items():
            assert {(provider, step), (provider, f"{step}, ratio to {peer}"), (peer, "1,000 files")} <= metrics
    assert set(workspaces.BOUNDS) == set(workspaces.PEERS)
