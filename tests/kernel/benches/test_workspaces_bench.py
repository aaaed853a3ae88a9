"""Bench ``workspaces``: every step beside its peer, and a roll-back that brings back what was there."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from apex_framework.benches import workspaces
from apex_framework.errors import WorkspaceError
from apex_framework.plugins import load_plugins


def test_every_step_has_its_peer_and_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspaces, "FILES", 40)
    rows = list(workspaces.run(SimpleNamespace(n=1)))
    assert all(set(row) == {"bench", "case", "contender", "metric", "value", "unit"} for row in rows)
    metrics = {(row["case"], row["metric"]) for row in rows}
    for provider in workspaces.PROVIDERS:
        for step, peer in workspaces.PEERS.items():
            assert {(provider, step), (provider, f"{step}, ratio to {peer}"), (peer, "1,000 files")} <= metrics
    assert set(workspaces.BOUNDS) == set(workspaces.PEERS)


def test_a_folder_that_others_remove_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(workspaces, "FILES", 40)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    rows = workspaces.run(SimpleNamespace(n=1))
    next(rows)
    (source,) = tmp_path.glob("apex-bench-*/source")
    shutil.rmtree(source)
    with pytest.raises(WorkspaceError, match="was removed or changed while it was measured") as caught:
        list(rows)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_its_folder_outlives_every_provider_and_sweep(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Providers sweep when they are made: what they take is their own."""
    monkeypatch.setattr(workspaces, "FILES", 40)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    rows = workspaces.run(SimpleNamespace(n=1))
    next(rows)
    (folder,) = tmp_path.glob("apex-bench-*")
    make = load_plugins().catalog.make
    for name in (*workspaces.PROVIDERS, "uv"):
        make("workspace", name).close()
    assert {"source", "repository"} <= {path.name for path in folder.iterdir()}
    assert len(list(rows)) > len(workspaces.PEERS)
