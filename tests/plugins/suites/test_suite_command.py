"""``apex suite``: the tasks as a person meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from apex_framework.cli.boundary import run
from apex_suites.mini.suite import MiniSuite


@pytest.fixture(autouse=True)
def cached(suite: MiniSuite, cache_dir: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("APEX_CACHE", str(tmp_path))
    (tmp_path / "mini").symlink_to(cache_dir)


def test_list_names_tasks_and_totals(suite: MiniSuite, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["suite", "list", "mini/dev", "--limit", "5"]) == 0
    out = capsys.readouterr().out
    assert all(task.id in out for task in suite.tasks("dev")[:5]) and "5 tasks" in out


@pytest.mark.parametrize(
    ("words", "cause", "remedy"),
    [
        (["swebench_lite/dev", "--data", "x.jsonl"], "is a suite", "apex suite show TASK --suite swebench_lite/dev"),
        (["mbpp"], "is a suite", "apex suite show TASK --suite mbpp"),
        (["a-1", "--repos", "x"], "--repos is for another suite than mini/dev", "--suite SUITE/SPLIT"),
    ],
)
def test_show_names_the_call_that_was_meant(
    words: list[str], cause: str, remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["suite", "show", *words]) == 2
    err = capsys.readouterr().err
    assert cause in err and remedy in err


def test_show_tells_what_agents_see_and_no_more(suite: MiniSuite, capsys: pytest.CaptureFixture[str]) -> None:
    task = suite.tasks("dev")[0]
    assert run(["suite", "show", task.id, "--limit", "5", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["issue"] == task.issue and shown["visible_tests"] == list(task.visible_tests)
    assert "meta" not in shown and not any("hidden" in path for path in shown["files"])


def test_check_judges_untouched_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["suite", "check", "mini/dev", "--limit", "3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["tasks"], told["behave"], told["do_not_behave"], told["not_judged"]) == (3, 3, {}, {})
    assert [one["behaves"] for one in told["checks"]] == [True] * 3
    assert sum(told["families"].values()) == 3 and 1 <= told["clusters"] <= 3


def test_wrong_names_are_usage_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["suite", "show", "no-such-task", "--limit", "2"]) == 2
    assert run(["suite", "list", "mini/holdout"]) == 2
    assert run(["suite", "list", "minni/dev"]) == 2
    assert "did you mean 'mini'" in capsys.readouterr().err
