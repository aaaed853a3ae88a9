"""The bench of the door to tools: both ways are the same work, and a further way needs no change of the bench."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from apex_framework.benches import tools
from apex_framework.interfaces import ToolResult

FORM = {"bench", "case", "contender", "metric", "value", "unit"}


def test_rows_of_both_ways() -> None:
    rows = list(tools.run(SimpleNamespace(n=20)))
    assert all(set(row) == FORM and row["bench"] == "tools" and row["unit"] == "us" for row in rows)
    assert {row["case"] for row in rows} == set(tools.CASES)
    for case in tools.CASES:
        here = [(row["contender"], row["metric"]) for row in rows if row["case"] == case]
        assert here == [("bare", "call p50"), ("bare", "call p99"), ("apex", "call p50"), ("apex", "call p99"),
                        ("apex", "added p50")]  # fmt: skip


def test_a_further_way_is_one_more_contender(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answers() -> ToolResult:
        return ToolResult(True)

    def ways(place: Path) -> Iterator[tuple[str, Any]]:
        yield from ((name, answers) for name in ("bare", "apex", "stdio"))

    monkeypatch.setattr(tools, "CASES", {"pipe": ways})
    assert {row["contender"] for row in tools.run(SimpleNamespace(n=10))} == {"bare", "apex", "stdio"}
