"""``apex bench router, epoch, simulate``: rows of the common form, ours beside the limits, a missing peer said."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace

from apex_framework.benches import epoch, names, router, simulate


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


def test_simulation_rows_report_guarantees_and_planted_bugs() -> None:
    rows = list(simulate.run(SimpleNamespace(switches=300, seed=0)))
    assert all(row["value"] == 0 for row in rows if row["unit"] == "violations" and "planted" not in str(row["case"]))
    assert all(float(str(row["value"])) > 0 for row in rows if "planted" in str(row["case"]))
