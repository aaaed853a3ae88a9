"""Benches of start-up, overhead and budget: rows in the common form, and work that grows in a straight line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from apex_framework.benches import budget, overhead, startup

FORM = {"bench", "case", "contender", "metric", "value", "unit"}


@pytest.mark.parametrize(
    ("run", "n", "contenders"),
    [
        (startup.run, 1, {"python", "click", "apex"}),
        (overhead.run, 1, {"apex", "asyncio.Queue"}),
        (budget.run, 50, {"apex", "counter"}),
    ],
    ids=["startup", "overhead", "budget"],
)
def test_rows_have_the_common_form_and_name_a_peer(
    run: Callable[[Any], Iterator[dict[str, object]]], n: int, contenders: set[str]
) -> None:
    rows = list(run(SimpleNamespace(n=n)))
    assert all(set(row) == FORM for row in rows)
    assert {row["contender"] for row in rows} == contenders
    assert all(isinstance(row["value"], float) for row in rows)


def test_an_episode_costs_cpu_in_proportion_to_its_messages() -> None:
    rows = list(overhead.run(SimpleNamespace(n=3)))
    fit = next(r["value"] for r in rows if (r["contender"], r["metric"]) == ("apex", "R squared"))
    assert float(str(fit)) > 0.98
