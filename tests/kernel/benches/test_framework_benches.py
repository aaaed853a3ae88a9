"""Benches of start-up, overhead and budget: rows in the common form, and work that grows in a straight line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from apex_framework.benches import budget, gating, overhead, startup
from apex_framework.runtime import Router

FORM = {"bench", "case", "contender", "metric", "value", "unit"}


@pytest.mark.parametrize(
    ("run", "n", "contenders"),
    [
        (startup.run, 1, {"python", "click", "apex"}),
        (
            overhead.run,
            1,
            {
                "apex",
                "asyncio.Queue",
                "gating on",
                "gating off",
                "gating on, a switch every 1,000 messages",
            },
        ),
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
    assert all(isinstance(row["value"], int | float) for row in rows)


@pytest.mark.slow
def test_an_episode_costs_cpu_in_proportion_to_its_messages() -> None:
    def fit() -> float:
        rows = list(overhead.run(SimpleNamespace(n=3)))
        return float(next(str(r["value"]) for r in rows if (r["contender"], r["metric"]) == ("apex", "R squared")))

    assert any(fit() > 0.98 for _ in range(3))  # what else the machine does can only lower it


def test_the_router_without_a_gate_is_the_same_router_less_the_check() -> None:
    sample = gating.ungated()
    assert sample.__mro__[1] is Router and sample.send is not Router.send
    assert "_hold" in Router.send.__code__.co_names
    assert "_hold" not in sample.send.__code__.co_names
    assert sample.route.__code__ is Router.route.__code__


def test_a_router_whose_check_has_moved_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inspect.getsource", lambda _: "def send(self, message):\n    return None\n")
    with pytest.raises(LookupError, match="not where this bench looks"):
        gating.ungated()
