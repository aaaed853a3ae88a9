"""The live table: what it shows of each arm, and what stays hidden until a registered look."""

from __future__ import annotations

import io

from rich.console import Console

from apex_framework.cli.progress import Count, Tally, table
from apex_framework.experiment.plan import looks_once


def shown(count: Count) -> str:
    out = io.StringIO()
    Console(width=120, file=out).print(table(count, 2))
    return out.getvalue()


def test_successes_are_in_the_table_unless_the_plan_looks_once() -> None:
    arms = {"bandit_v1": Tally(30, 12, 7, 84_000, 3, 5, 1)}
    assert "64 %" in shown(Count(arms)) and "success" in shown(Count(arms))
    hidden = shown(Count(arms, blind=True))
    assert "12/30" in hidden and "done" in hidden
    assert not any(word in hidden for word in ("64", "success", "95 %", "7,636"))


def test_a_registered_plan_without_looks_is_what_looks_once() -> None:
    registered = {"name": "x", "part": "main", "registered": "d"}
    assert looks_once({"experiment": registered})
    assert not looks_once({"experiment": registered, "look": {"unit": "task", "from": 0, "to": 100}})
    assert not looks_once({"experiment": {**registered, "registered": ""}}) and not looks_once({})
    assert not looks_once({"experiment": "damaged"})
