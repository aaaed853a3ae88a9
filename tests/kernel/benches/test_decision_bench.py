"""``apex bench decision``: every contender does the same work, and a missing peer is said."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace

from apex_framework.benches.decision import run


def test_rows_have_the_common_form_and_name_every_contender() -> None:
    rows = list(run(SimpleNamespace(n=50)))
    assert all(set(row) == {"bench", "case", "contender", "metric", "value", "unit"} for row in rows)
    assert {row["contender"] for row in rows} == {"apex", "pure python dot", "numpy ridge", "vowpalwabbit"}
    assert {row["case"] for row in rows if row["contender"] == "apex"} == {
        "decide",
        "update",
        "decide from observation",
    }
    assert all(float(str(row["value"])) > 0 for row in rows)
    missing = [row for row in rows if row["metric"] == "not installed"]
    assert bool(missing) == (importlib.util.find_spec("vowpalwabbit") is None)
