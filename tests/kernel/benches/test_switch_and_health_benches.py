"""``apex bench switch`` and ``health``: rows of the common form that say what the guarantees need."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from apex_framework.benches import health, names, switch, switch_memory
from apex_framework.benches.trial import Parts

COLUMNS = {"bench", "case", "contender", "metric", "value", "unit"}


def test_they_are_listed() -> None:
    assert {"switch", "health"} <= set(names()) and "switch_memory" not in names()


def test_the_switch_rows_give_every_phase_and_one_sync_a_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switch_memory, "WAITING", 100)
    rows = list(switch.run(SimpleNamespace(seconds=0.5, n=3)))
    assert all(set(row) >= COLUMNS for row in rows)
    found = {(row["contender"], row["metric"]): row["value"] for row in rows}
    for phase in ("probe", "prepare", "quiesce", "commit", "total"):
        assert ("journal on disk", f"{phase} p95") in found
    assert ("no journal, no probe", "probe p95") not in found
    assert found["journal on disk", "syncs per switch"] == 1.0
    assert ("limit", "total p95, journal on disk") in found
    assert found["prepare one after the other", "prepare p50"] > found["prepare in parallel", "prepare p50"]  # type: ignore[operator]  # both are numbers


def test_a_switch_under_a_backlog_copies_no_payload_and_adds_little() -> None:
    found = {(who, what): value for who, what, value, _ in switch_memory.rows(Parts.built_in("fifo"), 500, 50)}
    for contender in ("flat to star", "flat to chain"):
        assert found[contender, "copied of 2,500 waiting payloads"] == 0
        assert found[contender, "added at the peak"] - found["no switch", "added at the peak"] < 1.0


def test_the_health_rows_give_the_probe_the_ablation_and_the_pin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "PIN_SEEDS", 25)
    rows = list(health.run(SimpleNamespace(n=20, seeds=1, seconds=6.0, seed=0)))
    assert all(set(row) >= COLUMNS for row in rows)
    found = {(row["case"], row["contender"], row["metric"]): row["value"] for row in rows}
    assert float(str(found["7 agents, one stuck", "apex", "p50"])) >= 20.0
    assert {contender for _, contender, metric in found if metric == "aborts"} >= {"probe off", "probe on"}
    pins = {metric: value for (case, who, metric), value in found.items() if "windows" in str(case) and who == "apex"}
    assert pins["seeds that pinned and healed"] == 25 and pins["seeds that ran the same twice"] == 1.0
    assert float(str(pins["decisions to the pin, max"])) <= 20
