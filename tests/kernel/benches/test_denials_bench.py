"""``apex bench denials``: what its rates mean, its figure, and wrong use."""

from __future__ import annotations

import contextlib
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from apex_framework.benches.denials import CONTENDERS, Bench, deny_rate, repeated, static_rows, windows
from apex_framework.benches.denials_figure import Line, figure
from apex_framework.cli.boundary import run
from apex_framework.plugins import load_plugins


def record(denied: int, calls: int, status: str = "finished") -> dict[str, Any]:
    return {"denied": denied, "calls": calls, "status": status}


def call(agent: str, event: str) -> dict[str, Any]:
    return {"agent_id": agent, "event": event}


def test_the_rate_is_over_calls_not_over_episodes() -> None:
    assert deny_rate([record(1, 3), record(0, 4)]) == 1 / 8
    assert deny_rate([record(1, 3), record(9, 0, "infrastructure")]) == 1 / 4
    assert deny_rate([]) == deny_rate([record(0, 0)]) == 0.0


def test_windows_are_whole_and_the_last_one_ends_with_the_episodes() -> None:
    records = [record(n >= 6, 1) for n in range(10)]
    assert windows(records, 4, 3) == [(4, 0.0), (7, round(1 / 5, 4)), (10, 0.5)]
    assert windows(records[:3], 4, 3) == []


def test_a_refusal_counts_as_repeated_when_its_agent_was_refused_before() -> None:
    calls = [call("a", "CallDenied"), call("b", "CallSettled"), call("a", "CallDenied"), call("b", "CallDenied")]
    assert repeated(calls) == (3, 1)


def test_the_figure_is_one_svg_document_with_every_name() -> None:
    lines = [Line("static a<b", [(1, [0.5]), (9, [0.5])]), Line("learner", [(4, [0.5, 0.6]), (9, [0.4, 0.3])])]
    root = ET.fromstring(figure(lines, "Deny & rate"))
    texts = {element.text for element in root.iter() if element.text}
    assert root.tag.endswith("svg") and {"Deny & rate", "static a<b", "learner", "30 %", "60 %"} <= texts
    with pytest.raises(ValueError, match="a curve"):
        figure([], "nothing")


def test_fewer_than_two_laps_are_refused(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "denials", "-n", "5"]) == 2
    out, err = capfd.readouterr()
    assert out == "" and "at least 24" in err and err.count("\n") <= 2


@pytest.mark.slow
def test_a_static_topology_and_a_training_leave_their_records() -> None:
    with contextlib.ExitStack() as stack:
        bench = Bench(load_plugins(), stack, tasks=2)
        records, calls = bench.static("flat", 5, 1_500)
        rows = list(static_rows("case", "flat", records, calls))
        assert [row["metric"] for row in rows] == ["deny rate", "refused again"]
        assert all(0 < float(str(row["value"])) < 1 for row in rows)
        one, two = (bench.trained(CONTENDERS["penalty"], 5, 1_500, 4, 0) for _ in range(2))
    assert len(one) == 4 and deny_rate(one) == deny_rate(two) > 0
    assert {each["seed"] for each in one} == {0, 1}
