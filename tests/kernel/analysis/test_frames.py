"""Data frames of episodes: with the extra, a line per episode; without it, the line that installs it."""

from __future__ import annotations

import sys

import pytest

from apex_framework.analysis import lift_between
from apex_framework.analysis.episodes import EpisodeRow
from apex_framework.analysis.frames import episodes_frame, records_frame
from apex_framework.errors import MissingExtraError

ROWS = [
    EpisodeRow("static:star", f"t{i}", 0, i % 2 == 0, 100 * i, 5, 0, 0, "finished", cluster="mod") for i in range(4)
]


def test_a_line_per_episode() -> None:
    pytest.importorskip("pandas", reason="the extra [analysis] brings it")
    frame = episodes_frame(ROWS)
    assert len(frame) == 4
    assert frame.groupby("arm")["success"].mean().to_dict() == {"static:star": 0.5}
    assert list(episodes_frame([]).columns)[:3] == ["arm", "task_id", "seed"]


def test_records_of_any_analysis_become_lines() -> None:
    pytest.importorskip("pandas", reason="the extra [analysis] brings it")
    rows = [EpisodeRow(arm, f"t{i}", 0, i < n, 1, 1, 0, 0, "done") for arm, n in (("a", 5), ("b", 3)) for i in range(9)]
    frame = records_frame([lift_between(rows, "a", "b"), lift_between(rows, "b", "a")])
    assert frame["estimate"].tolist() == pytest.approx([2 / 9, -2 / 9])
    assert {"interval_low", "interval_method", "p_mid"} <= set(frame.columns)
    with pytest.raises(TypeError, match="no record: dict"):
        records_frame([{"a": 1}])


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError) as caught:
        episodes_frame(ROWS)
    assert caught.value.remedy == "pip install 'apex-framework[analysis]'"
