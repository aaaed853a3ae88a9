"""Tests that sleep for ever are ended in a sandbox too, whose own process looks at them now and then."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from apex_framework.interfaces import WATCHER, Task
from apex_sandboxes.inside import supervise
from apex_sandboxes.landlocked import LandlockSandbox
from apex_workspaces import running, watch
from apex_workspaces.checkout import CheckoutWorkspaces

SLEEPS = "import time, unittest\nclass T(unittest.TestCase):\n    def test_a(self):\n        time.sleep(1e6)\n"
RUNNERS = {
    "unittest": {"runner": "unittest", "tests": ["test_a.py"]},
    "command": {"runner": "command", "command": [sys.executable, "-m", "unittest", "{test}"], "tests": ["test_a.py"]},
}


def outcome(strong: LandlockSandbox, runner: str, timeout_s: float = 15.0) -> str:
    provider = CheckoutWorkspaces(sandbox=strong)
    try:
        run = {**RUNNERS[runner], "idle_s": 1.0}
        task = Task("t", "s", "dev", "broken", "c", files={"m.py": "", "test_a.py": SLEEPS}, run=run)
        report = provider.create(task).run_tests(timeout_s=timeout_s)
        return report.outcomes[0].detail if report.outcomes else report.status
    finally:
        provider.close()


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_test_that_sleeps_for_ever_is_ended_long_before_its_time_is_over(
    strong: LandlockSandbox, runner: str
) -> None:
    assert "nothing happened for 1 s" in outcome(strong, runner)


def test_planted_a_watcher_that_is_taken_for_work_keeps_it_alive(
    strong: LandlockSandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    planted = tmp_path / "apex_workspaces"
    shutil.copytree(Path(watch.__file__).parent, planted, ignore=shutil.ignore_patterns("__pycache__"))
    (planted / "watch.py").write_text((planted / "watch.py").read_text().replace(f'"{WATCHER}"', '"nobody"'))
    monkeypatch.setattr(running, "_HERE", str(planted))
    assert "nothing happened" not in outcome(strong, "command", timeout_s=5.0)


def test_all_rooms_call_the_watcher_by_one_name() -> None:
    assert watch._WATCHER == WATCHER == supervise.WATCHER.decode()
