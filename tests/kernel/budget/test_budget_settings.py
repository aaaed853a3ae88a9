"""Budgets as people write them: what is no number is refused in one line, and nothing is no ceiling."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from apex_framework.budget import BudgetSettings, Durations
from apex_framework.budget.settings import from_file
from apex_framework.errors import ConfigError
from apex_framework.interfaces import MOST_TOKENS, ceiling

SPECIFIED = """
episode_tokens: 10000
daily_tokens: 5000000
per_agent_tokens:
  Planner: 3000
  Coder: 6000
  Runner: 3000
  Critic: 2000
  Summarizer: 1000
tokenizer_pool:
  enable: true
  approximator_bias_pct: +10
"""


def test_the_specifications_file_is_read():
    settings = from_file(yaml.safe_load(SPECIFIED), "budgets.yaml")
    assert (settings.episode, settings.day, settings.run, settings.bias_pct) == (10_000, 5_000_000, None, 10.0)
    assert settings.roles == {"planner": 3_000, "coder": 6_000, "runner": 3_000, "critic": 2_000, "summarizer": 1_000}
    assert settings.scopes(("episode",)) == ("episode", "day", "role")


@pytest.mark.parametrize(
    "bad", ["null", ".nan", ".inf", "1e309", "-1", "0", "1.5", "'10000'", "true", "[1]", str(10**15)]
)
@pytest.mark.parametrize("key", ["episode_tokens", "daily_tokens", "run_tokens"])
def test_a_budget_that_is_no_number_is_one_line_that_names_it(key, bad):
    with pytest.raises(ConfigError) as caught:
        from_file(yaml.safe_load(f"{key}: {bad}"), "budgets.yaml")
    assert f"budgets.yaml: {key}" in str(caught.value) and "\n" not in str(caught.value)
    assert caught.value.exit_status == 2


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("per_agent_tokens: {Coder: null}", "per_agent_tokens: Coder"),
        ("per_agent_tokens: {Coder: .nan}", "per_agent_tokens: Coder"),
        ("per_agent_tokens: 5", "must be a table"),
        ("tokenizer_pool: {approximator_bias_pct: .nan}", "approximator_bias_pct"),
        ("tokenizer_pool: {approximator_bias_pct: -1}", "approximator_bias_pct"),
        ("tokenizer_pool: {approximator: 1}", "unknown setting 'approximator'"),
        ("tokens: 5", "unknown setting 'tokens'"),
        ("5", "must be a table"),
    ],
)
def test_other_nonsense_is_one_line(text, what):
    with pytest.raises(ConfigError, match=what):
        from_file(yaml.safe_load(text), "budgets.yaml")


def test_settings_made_directly_are_checked_too():
    for bad in ({"run": 0}, {"day": float("nan")}, {"episode": None}, {"roles": {"coder": -1}}):
        with pytest.raises(ConfigError):
            BudgetSettings(**bad)


def test_settings_travel_to_workers_as_json():
    settings = BudgetSettings(run=5, day=7, roles={"coder": 1}, run_store=Path("r"), group="eval", bias_pct=10.0)
    assert BudgetSettings.from_json(json.loads(json.dumps(settings.to_json()))) == settings
    assert BudgetSettings.from_json({}) == BudgetSettings()
    with pytest.raises(ConfigError, match="unknown budget setting 'days'"):
        BudgetSettings.from_json({"days": 5})


def test_options_are_what_each_scope_is_made_with():
    settings = BudgetSettings(run=5, day=7, roles={"coder": 1}, run_store=Path("r"), group="eval")
    assert settings.options("episode") == settings.options("strangers") == {}
    assert settings.options("run") == {"tokens": 5, "store": Path("r")}
    assert settings.options("day") == {"tokens": 7, "group": "eval"}
    assert settings.options("role") == {"ceilings": {"coder": 1}}
    assert BudgetSettings().scopes(("episode",)) == ("episode",), "by default nothing changes"


@given(
    st.one_of(st.none(), st.booleans(), st.floats(), st.text(), st.integers(max_value=-1), st.integers(MOST_TOKENS + 1))
)
def test_only_whole_numbers_are_ceilings(value):
    with pytest.raises(ConfigError) as caught:
        ceiling(value, "day_budget")
    assert "\n" not in str(caught.value) + caught.value.remedy


def test_time_to_reserve_is_the_p95_of_the_last_calls_with_the_margin():
    durations = Durations(safety=1.2, window=100, least=5)
    for ms in (10, 20, 30, 40):
        durations.observe("vllm", "m", ms)
    assert durations.estimate("vllm", "m", 60_000) == 60_000, "too few to tell"
    for ms in range(1, 101):
        durations.observe("vllm", "m", ms)
    assert durations.estimate("vllm", "m", 60_000) == 114 and durations.estimate("vllm", "m", 50) == 50
    assert durations.estimate("vllm", "other", 60_000) == 60_000
