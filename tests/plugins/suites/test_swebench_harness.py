"""The official package at work in a process of its own: it breaks, it is interrupted, it stumbles."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from apex_framework.errors import EnvironmentProblem, MissingExtraError
from apex_suites.swebench import official
from apex_suites.swebench.official import Harness, ask

NAMES = {"FAIL_TO_PASS": '["a"]', "PASS_TO_PASS": '["b"]'}
INSTANCE = {"instance_id": "pallets__flask-1", "repo": "pallets/flask", "version": "2.3", **NAMES}
installed = pytest.mark.skipif(not find_spec("swebench"), reason="the official grader needs the extra [swebench]")


def question(log: str, parser: str = "parse_log_pytest") -> dict[str, Any]:
    return {"instance": INSTANCE, "parser": parser, "log": log, "passed": True, "timed_out": False}


@pytest.fixture
def harness() -> Iterator[Harness]:
    made = Harness()
    yield made
    made.close()


@installed
def test_one_process_answers_every_question_also_after_it_stumbled(harness: Harness) -> None:
    assert "stumbled over the log: KeyError: 'no_parser'" in harness.ask("judge", question("x", "no_parser"))["unread"]
    first = harness._child
    assert harness.ask("judge", question("PASSED a\nFAILED b\n")) == {"failed": [], "broken": ["b"]}
    assert harness._child is first
    assert harness.ask("judge", question("PASSED \udcff a\x85\u2028\r\nPASSED b\n"))["unread"].endswith("allowed")


@installed
def test_an_answer_that_nobody_waited_for_is_not_the_next_one_s(harness: Harness) -> None:
    def interrupted(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupted)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)  # the package takes longer than that to be imported
        with pytest.raises(KeyboardInterrupt):
            harness.ask("judge", question("PASSED a\nPASSED b\n"))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert harness._child is None
    assert harness.ask("judge", question("FAILED a\nFAILED b\n")) == {"failed": ["a"], "broken": ["b"]}


@installed
def test_a_process_that_was_killed_is_said_and_begun_again(harness: Harness) -> None:
    harness.ask("judge", question("PASSED a\n"))
    assert harness._child is not None
    os.kill(harness._child.pid, signal.SIGKILL)
    with pytest.raises(EnvironmentProblem, match="does not work: it ended with status -9"):
        harness.ask("judge", question("PASSED a\n" * 100_000))
    assert harness.ask("judge", question("PASSED a\nPASSED b\n")) == {"failed": [], "broken": []}


def test_a_package_that_cannot_be_imported_is_named_with_its_reason(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "swebench").mkdir()
    (tmp_path / "swebench" / "__init__.py").write_text("raise ImportError('half installed')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(EnvironmentProblem) as refused:
        harness.ask("judge", question("x"))
    assert refused.value.cause == "the package swebench does not work: ImportError: half installed"
    assert "apex-framework[swebench]" in refused.value.remedy


def test_without_the_package_no_process_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(official, "version", lambda: "")
    with pytest.raises(MissingExtraError):
        ask("judge", question("x"))
