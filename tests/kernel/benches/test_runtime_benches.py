"""``apex bench router, epoch, simulate``: rows of the common form, ours beside the limits, a missing peer said."""

from __future__ import annotations

import importlib.util
import itertools
from types import SimpleNamespace

import pytest

from apex_framework.benches import epoch, names, router, simulate
from apex_framework.testing.invariants import INVARIANTS


def test_benches_are_listed() -> None:
    assert {"router", "epoch", "simulate"} <= set(names())


def test_router_rows_name_every_contender() -> None:
    rows = list(router.run(SimpleNamespace(n=200)))
    assert all(set(row) == {"bench", "case", "contender", "metric", "value", "unit"} for row in rows)
    assert {"apex", "deque", "asyncio.Queue", "autogen-core"} == {row["contender"] for row in rows}
    missing = [row for row in rows if row["metric"] == "not installed"]
    assert bool(missing) == (importlib.util.find_spec("autogen_core") is None)


def test_the_epoch_check_costs_nanoseconds() -> None:
    rows = {row["case"]: float(str(row["value"])) for row in epoch.run(SimpleNamespace(n=20_000))}
    assert rows["check in send"] < 100


@pytest.mark.slow
@pytest.mark.simulation
def test_simulation_rows_report_every_guarantee() -> None:
    rows = simulate.run(SimpleNamespace(seeds=20, steps=100, seed=0, n=1))
    found = list(itertools.takewhile(lambda row: not str(row["case"]).startswith("planted"), rows))
    rows.close()  # type: ignore[attr-defined]  # a generator; the hunt for planted bugs has tests of its own
    values = {str(row["metric"]): float(str(row["value"])) for row in found}
    assert values["checked steps"] > 1_000
    assert {kind: values[kind] for kind in INVARIANTS} == dict.fromkeys(INVARIANTS, 0)
