"""``apex bench telemetry``: rows of the common form, a peer or its absence, and a measurement that knows its own noise."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace

import pytest

from apex_framework.benches import telemetry


@pytest.mark.slow
def test_rows_have_the_common_form_and_name_what_is_compared() -> None:
    rows = list(telemetry.run(SimpleNamespace(n=400)))
    assert all(set(row) == {"bench", "case", "contender", "metric", "value", "unit"} for row in rows)
    overheads = {row["contender"] for row in rows if row["metric"] == "overhead"}
    assert {"off again", "polled", "polled after every message"} <= overheads
    missing = [row for row in rows if row["metric"] == "not installed"]
    assert bool(missing) == (importlib.util.find_spec("prometheus_client") is None)
    dense = next(row for row in rows if row["contender"] == "polled after every message" and row["unit"] == "%")
    assert float(str(dense["value"])) > 0, "what is looked at after every message costs something"
