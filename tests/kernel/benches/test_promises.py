"""``apex bench promises``: the table of promises from the rows of the other benches, whatever one of them does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from apex_framework import benches
from apex_framework.benches import promises
from apex_framework.benches.numbers import PROMISES, Answer, Found, Promise
from apex_framework.benches.promises import judged
from apex_framework.cli.boundary import run

ROW = {"bench": "fake", "case": "a case", "contender": "apex", "metric": "time", "value": 5.0, "unit": "ms"}


def _promise(bench: str = "fake", limit: float = 10.0) -> Promise:
    def judge(found: Found) -> Answer:
        value = found.value("time", case="case")
        return Answer(f"{value} ms", value < limit, value, "ms")

    return Promise(f"time of {bench}", "< 20 ms", f"< {limit} ms", bench, judge)


def test_every_number_of_the_table_has_a_row() -> None:
    said = " ".join(promise.what for promise in PROMISES)
    for what in (
        "epoch check",
        "switch",
        "memory",
        "router",
        "loss",
        "DRR",
        "probe",
        "pre-validation",
        "simulation",
        "journal",
        "controller",
    ):
        assert what in said
    assert len({promise.what for promise in PROMISES}) == len(PROMISES)


def test_a_promise_is_judged_by_its_row() -> None:
    assert judged(_promise(), [ROW])["met"] == "yes"
    assert judged(_promise(limit=5.0), [ROW]) | {"case": ""} == judged(_promise(limit=5.0), [ROW]) | {"case": ""}
    assert judged(_promise(limit=5.0), [ROW])["met"] == "no"
    assert judged(_promise(), [ROW])["measured"] == "5.0 ms"


@pytest.mark.parametrize("rows", [[], [ROW, ROW], [{**ROW, "metric": "space"}], [{**ROW, "contender": "peer"}]])
def test_a_row_that_is_missing_or_double_is_said_and_never_met(rows: list[dict[str, object]]) -> None:
    row = judged(_promise(), rows)
    assert row["met"] == "not measured" and "says nothing of it" in str(row["measured"])
    assert row["value"] is None


def _fake(monkeypatch: pytest.MonkeyPatch, **runs: Any) -> None:
    """The table over made-up benches. They are other people's modules here, not our code."""
    monkeypatch.setattr(promises, "PROMISES", tuple(_promise(name) for name in [*runs, "absent"]))
    others = SimpleNamespace(
        names=lambda: list(runs),
        module=lambda name: SimpleNamespace(run=runs[name]),
        artifact=lambda name: f"{name}.jsonl",
    )
    monkeypatch.setattr(promises, "benches", others)


def _good(args: Any) -> Iterator[dict[str, object]]:
    yield ROW


def _broken(args: Any) -> Iterator[dict[str, object]]:
    yield ROW
    raise RuntimeError("no such luck")


def _interrupted(args: Any) -> Iterator[dict[str, object]]:
    yield ROW
    raise KeyboardInterrupt


def test_a_broken_and_a_missing_bench_are_said_and_hide_nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _fake(monkeypatch, first=_broken, second=_good)
    said: list[str] = []
    rows = list(promises.run(SimpleNamespace(say=said.append, out=tmp_path, seed=None)))
    assert [row["met"] for row in rows] == ["not measured", "yes", "not measured"]
    assert rows[0]["measured"] == "RuntimeError: no such luck"
    assert rows[2]["measured"] == "there is no bench absent"
    assert len(said) == 6
    assert json.loads((tmp_path / "second.jsonl").read_text()) == ROW


def test_interrupted_it_shows_what_it_has(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    _fake(monkeypatch, first=_good, second=_interrupted, third=_good)
    assert run(["--json", "bench", "promises"]) == 130
    *rows, error = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [row["met"] for row in rows] == ["yes", "not measured", "not measured", "not measured"]
    assert [row["measured"] for row in rows[1:]] == ["interrupted"] * 3
    assert error["error"]["code"] == "E0130"


def test_for_people_each_promise_says_what_was_measured_and_what_was_promised() -> None:
    text = promises.text(judged(_promise(), [ROW]))
    assert "yes" in text and "measured: 5.0 ms" in text and "ours: < 10.0 ms; specification: < 20 ms" in text


def test_short_forms_use_options_that_their_benches_read() -> None:
    for name, given in promises.SHORT.items():
        if name in benches.names():
            assert set(given) <= benches.options(name), name
