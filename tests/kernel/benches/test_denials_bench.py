"""``apex bench denials``: what its rates mean, its figure, and wrong use."""

from __future__ import annotations

import contextlib
import json
import xml.etree.ElementTree as ET
from dataclasses import asdict
from typing import Any

import pytest

from apex_framework.benches.denials import Bench, Part, deny_rate, drawn, read_parts, repeated, rows, windows
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
    assert repeated(calls) == 1


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


def told(denied: int, calls: int, topology: str = "flat") -> dict[str, Any]:
    common = {"success": False, "steps": 2, "denied_tokens": 10 * denied, "budget": 3_000, "topologies": {topology: 2}}
    return {**record(denied, calls), **common, "again": 1}


def test_rows_and_figure_follow_from_the_episodes_that_are_kept() -> None:
    learned = [[told(3, 1)] * 12 + [told(1, 1)] * 12, [told(1, 3)] * 12 + [told(3, 3)] * 12]
    parts = [
        Part("static flat", 0, 10, 3_000, [told(2, 2), told(1, 3)]),
        *(Part("penalty", seed, 10, 3_000, each) for seed, each in enumerate(learned)),
    ]
    kept = read_parts(json.dumps(asdict(part)) for part in parts)
    assert kept == parts
    found = {(row["case"], row["metric"]): row["value"] for row in rows(kept)}
    assert found == {
        ("team of 10, 3,000 tokens", "deny rate"): 3 / 8,
        ("team of 10, 3,000 tokens", "refused again"): round(2 / 3, 4),
        ("learning, seed 0", "deny rate, first window"): 0.75,
        ("learning, seed 0", "deny rate, last window"): 0.5,
        ("learning, seed 1", "deny rate, first window"): 0.25,
        ("learning, seed 1", "deny rate, last window"): 0.5,
        ("learning, all seeds", "deny rate, change, mean"): 0.0,
    }
    assert {"static flat", "penalty"} <= {element.text for element in ET.fromstring(drawn(kept)).iter()}


@pytest.mark.slow
def test_a_static_topology_and_a_training_leave_their_records() -> None:
    with contextlib.ExitStack() as stack:
        bench = Bench(load_plugins(), stack, tasks=2)
        flat = bench.static("flat", 5, 1_500)
        seen = list(rows([flat]))
        assert [row["metric"] for row in seen] == ["deny rate", "refused again"]
        assert all(0 < float(str(row["value"])) < 1 for row in seen)
        one, two = (bench.trained("penalty", 5, 1_500, 4, 0) for _ in range(2))
    assert one == two and len(one.episodes) == 4 and deny_rate(one.episodes) > 0
