"""Budgets as settings: where each came from, what is refused and where, and what a run's jobs are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from apex_framework.cli.options import base_arm, budget_settings
from apex_framework.config import Configuration, Settings, load_settings
from apex_framework.errors import ConfigError

BUDGETS = """\
# ceilings
episode_tokens: 9000
daily_tokens: 5000000

per_agent_tokens:
  Planner: 3000
  Coder: 6000
tokenizer_pool:
  enable: true
  approximator_bias_pct: +10
"""
CONTROLLER = """\
plan_cache:
  capacity: 1024
  ttl_s: 3600
parallelism:
  enable_parallel_prepare: false
  health_probe_timeout_ms: 20
health_cache:
  ttl_s: 10
"""


def load(folder: Path, text: str = "", **options: Any) -> Configuration:
    (folder / "apex.yaml").write_text(text)
    return load_settings(options.pop("flags", None), config=folder / "apex.yaml", environ=options)


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_without_a_word_nothing_is_bounded_but_the_episode_and_jobs_are_told_nothing() -> None:
    budgets = budget_settings(Settings())
    assert budgets.ordinary and budgets.scopes(("episode",)) == ("episode",)
    assert budget_settings(Settings(budget=3_000)).ordinary  # that is the arm's
    for said in ({"run_budget": 9_000}, {"role_budgets": {"coder": 5}}, {"budget_safety": 1.2}, {"budget_group": "g"}):
        assert not budget_settings(Settings(**said)).ordinary
    assert Settings().unsaid >= {"run_budget", "day_budget", "budget_safety", "role_budgets"}
    assert "run_budget" not in Settings(run_budget=9_000).unsaid


def test_the_specifications_file_is_below_everything_that_is_said(tmp_path: Path) -> None:
    path = write(tmp_path, "budgets.yaml", BUDGETS)
    found = load(tmp_path, f"budgets: {path}\nrole_budgets: {{coder: 7000}}\n", APEX_DAY_BUDGET="800")
    settings = found.settings
    assert (settings.budget, settings.day_budget, settings.run_budget) == (9_000, 800, None)
    assert settings.role_budgets == {"planner": 3_000, "coder": 7_000} and settings.approximator_bias_pct == 10
    assert found.origins["budget"] == f"{path}:2"
    assert found.origins["day_budget"] == "APEX_DAY_BUDGET"
    assert found.origins["role_budgets"] == f"{path}:5 + {tmp_path / 'apex.yaml'}:2"
    assert found.origins["approximator_bias_pct"] == f"{path}:10"
    assert load(tmp_path, "", flags={"budgets": str(path), "budget": 400}).settings.budget == 400


def test_the_controllers_file_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, "controller.yaml", CONTROLLER)
    found = load(tmp_path, f"controller_file: {path}\n")
    assert found.settings.parallel_prepare is False
    assert found.origins["parallel_prepare"] == f"{path}:5"
    assert load(tmp_path, f"controller_file: {path}\nparallel_prepare: true\n").settings.parallel_prepare is True
    assert found.settings.plan_cache == "capacity=1024;ttl_s=3600" and base_arm(found.settings).interceptors == ()
    chosen = load(tmp_path, f"controller_file: {path}\ninterceptors: [plan_cache]\n").settings
    assert base_arm(chosen).interceptors == ("plan_cache:capacity=1024;ttl_s=3600",)
    named = load(tmp_path, f"controller_file: {path}\ninterceptors: ['plan_cache:capacity=2']\n").settings
    assert base_arm(named).interceptors == ("plan_cache:capacity=2",)


@pytest.mark.parametrize("bad", ["null", ".nan", ".inf", "-1", "0", "1.5", "true", "[1]", "many", str(10**15)])
@pytest.mark.parametrize("name", ["run_budget", "day_budget", "budget_ms"])
def test_a_ceiling_that_is_none_is_one_line_with_its_place(tmp_path: Path, name: str, bad: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, f"seed: 1\n{name}: {bad}\n")
    assert str(caught.value).startswith(f"{tmp_path / 'apex.yaml'}:2: {name}: ") and "\n" not in str(caught.value)
    assert (caught.value.code, caught.value.exit_status) == ("E0202", 2)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("role_budgets: {coder: -1}", "role_budgets"),
        ("role_budgets: {coder: null}", "role_budgets"),
        ("role_budgets: coder", "roles and their tokens"),
        ("role_budgets: null", "null is no ceiling"),
        ("budget_safety: 0.5", "budget_safety"),
        ("budget_safety: .nan", "budget_safety"),
        ("budget_group: ''", "budget_group"),
        ("budget: 10000000000000000", "budget"),
        ("budgets: nowhere.yaml", "cannot read nowhere.yaml"),
        ("budgets: budgets.txt", "no .yaml"),
    ],
)
def test_other_nonsense_is_one_line(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(ConfigError, match=what) as caught:
        load(tmp_path, text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "line", "what"),
    [
        ("9000", "null", 2, "episode_tokens"),
        ("5000000", ".nan", 3, "daily_tokens"),
        ("6000", "-6", 7, "Coder"),
        ("Coder", "planner", 5, "a role twice"),
        ("+10", "101", 10, "approximator_bias_pct"),
        ("enable: true", "enable: false", 9, "always pooled"),
        ("enable", "enabled", 9, "unknown setting 'enabled' of tokenizer_pool"),
        ("daily_tokens", "dayly_tokens", 3, "unknown setting 'dayly_tokens'"),
    ],
)
def test_a_mistake_in_the_budgets_file_is_told_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, what: str
) -> None:
    path = write(tmp_path, "budgets.yaml", BUDGETS.replace(old, new))
    with pytest.raises(ConfigError, match=what) as caught:
        load(tmp_path, f"budgets: {path}\n")
    assert str(caught.value).startswith(f"{path}:{line}: ")


@pytest.mark.parametrize(
    ("old", "new", "line", "what"),
    [
        ("1024", "x", 2, "capacity"),
        ("false", "1", 5, "must be true or false"),
        ("health_probe_timeout_ms: 20", "health_probe_timeout_ms: 30", 6, "is 20 and no setting"),
        ("ttl_s: 10", "ttl_s: .nan", 8, "ttl_s"),
        ("health_cache", "healthcache", 7, "unknown setting 'healthcache'"),
        ("capacity", "size", 2, "unknown setting 'size' of plan_cache"),
    ],
)
def test_a_mistake_in_the_controllers_file_is_told_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, what: str
) -> None:
    path = write(tmp_path, "controller.yaml", CONTROLLER.replace(old, new))
    with pytest.raises(ConfigError, match=what) as caught:
        load(tmp_path, f"controller_file: {path}\n")
    assert str(caught.value).startswith(f"{path}:{line}: ")


def test_the_days_file_is_the_same_from_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert budget_settings(Settings(day_store=Path("day"))).day_store == tmp_path / "day"
