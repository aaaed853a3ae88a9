"""Kits of executors and reports: each shipped broken plugin fails exactly its check; the sound ones pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from apex_framework.testing.broken import executor as broken_executors
from apex_framework.testing.broken import report as broken_reports
from apex_framework.testing.conformance import ConformanceError
from apex_framework.testing.executor import check_executor
from apex_framework.testing.report import check_report


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    (tmp_path / "episodes.jsonl").write_text('{"success": true}\n{"success": false}\n')
    return tmp_path


def test_a_sound_executor_passes() -> None:
    check_executor(broken_executors.Sound)


@pytest.mark.parametrize("check", broken_executors.BROKEN)
def test_a_broken_executor_fails_exactly_its_check(check: str) -> None:
    with pytest.raises(ConformanceError) as caught:
        check_executor(broken_executors.BROKEN[check])
    assert caught.value.failed == (check,)


def test_a_sound_report_passes(run_folder: Path) -> None:
    check_report(broken_reports.Sound, run_folder)


@pytest.mark.parametrize("check", broken_reports.BROKEN)
def test_a_broken_report_fails_exactly_its_check(check: str, run_folder: Path) -> None:
    with pytest.raises(ConformanceError) as caught:
        check_report(broken_reports.BROKEN[check], run_folder)
    assert caught.value.failed == (check,)
