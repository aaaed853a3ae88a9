"""Ceilings that episodes share: never exceeded together, and an episode that they did not touch is what it would have been."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stage import Stage, plain

from apex_budgets.shared import SharedCeiling
from apex_budgets.store import SharedStore
from apex_framework.budget import BudgetSettings
from apex_framework.episode.budgeting import EpisodeGuard
from apex_framework.errors import ConfigError
from apex_framework.interfaces import EpisodeResult

BUDGET = 1_500
ARMS = ("static:star", "random_switch:1.0")


def run(folder: Path, tokens: int | None = None, **budgets: Any) -> dict[str, Any]:
    """Settings of a run as they are handed out."""
    store = folder / "budget.sqlite3"
    return {"budgets": BudgetSettings(run=tokens, run_store=store, **budgets).to_json()}


def several(stage: Stage, settings: dict[str, Any], count: int = 3) -> Iterator[EpisodeResult]:
    """Episodes one after the other, as jobs of one run."""
    for seed in range(count):
        yield stage.play("roman", seed, settings, controller=ARMS[seed % 2], budget=BUDGET)


def left_open(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name != "budget.sqlite3"]


@pytest.fixture(scope="module")
def free(stage: Stage) -> list[dict[str, Any]]:
    """The same episodes without anything that they share."""
    return [plain(result) for result in several(stage, {})]


def test_I4_episodes_of_a_run_together_never_exceed_it_and_the_books_say_what_they_took(
    stage: Stage, tmp_path: Path
) -> None:
    results = list(several(stage, run(tmp_path, 2_500)))
    spent = sum(result.record["tokens"] for result in results)
    assert 2_000 < spent <= 2_500
    assert SharedStore(tmp_path / "budget.sqlite3").balance("run", "r", 0.0) == (spent, 0, 0)
    assert left_open(tmp_path) == []


@pytest.mark.parametrize("tokens", [700, 1_900, 3_300, 50_000])
def test_an_episode_is_untouched_or_says_by_what_it_was_cut_short(
    stage: Stage, tmp_path: Path, free: list[dict[str, Any]], tokens: int
) -> None:
    cut = 0
    for result, alone in zip(several(stage, run(tmp_path, tokens)), free, strict=True):
        if result.record.get("denied_by"):
            cut += 1
            assert result.record["denied_by"] == {"run": "tok_headroom"}
            assert (result.record["status"], result.record["success"]) == ("infrastructure", False)
            assert "run (tok_headroom)" in result.record["reason"]
        else:
            assert plain(result) == alone
    assert bool(cut) == (tokens < 50_000)


class Forgetful(EpisodeGuard):
    """Remembers nothing."""

    def columns(self) -> dict[str, Any]:
        return {}


def test_a_guard_that_does_not_remember_is_caught(
    stage: Stage, tmp_path: Path, free: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apex_framework.episode.budgeting.EpisodeGuard", Forgetful)
    with pytest.raises(AssertionError):
        test_an_episode_is_untouched_or_says_by_what_it_was_cut_short(stage, tmp_path, free, 1_900)


def without_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BudgetSettings, "scopes", lambda self, chosen: chosen)


def nothing_used(monkeypatch: pytest.MonkeyPatch) -> None:
    true = SharedCeiling.hand_back
    monkeypatch.setattr(SharedCeiling, "hand_back", lambda self, key, used: true(self, key, 0))


def twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The books take every return for one of another holder, and free the rest once more."""
    true = SharedStore.settle

    def settle(self: SharedStore, scope: str, key: str, holder: str, used: int) -> bool:
        true(self, scope, key, holder, used)
        with self._transaction() as store:
            store.execute("UPDATE ceilings SET spent = MAX(0, spent - ?)", (used,))
        return True

    monkeypatch.setattr(SharedStore, "settle", settle)


def never(monkeypatch: pytest.MonkeyPatch) -> None:
    async def close(self: EpisodeGuard) -> None: ...

    monkeypatch.setattr(EpisodeGuard, "close", close)


@pytest.mark.parametrize("bug", [without_the_run, nothing_used, twice, never], ids=lambda bug: bug.__name__)
def test_planted_bugs_of_the_wiring_are_caught(stage: Stage, tmp_path: Path, bug: Any, monkeypatch: Any) -> None:
    bug(monkeypatch)
    with pytest.raises((AssertionError, sqlite3.OperationalError)):
        test_I4_episodes_of_a_run_together_never_exceed_it_and_the_books_say_what_they_took(stage, tmp_path)


def test_two_runs_of_a_group_share_a_day_and_another_group_does_not(stage: Stage, tmp_path: Path) -> None:
    def play(run_id: str, group: str) -> EpisodeResult:
        budgets = BudgetSettings(day=1_000, day_store=tmp_path / "day.sqlite3", group=group).to_json()
        return stage.play("roman", 0, {"run_id": run_id, "budgets": budgets}, controller="static:star", budget=BUDGET)

    first, second, other = play("a", "g"), play("b", "g"), play("c", "h")
    assert first.record["tokens"] + second.record["tokens"] <= 1_000
    assert second.record["denied_by"] == {"day": "tok_headroom"}
    assert other.record["tokens"] == first.record["tokens"]


def test_a_store_that_breaks_in_the_middle_cuts_short_and_says_why(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "budget.sqlite3").write_text("junk" * 500)
    record = stage.play("roman", 0, run(tmp_path, 9_000), controller="static:star").record
    assert record["denied_by"] == {"run": "policy:store_damaged"} and record["tokens"] == 0


def test_caps_of_roles_come_from_the_settings_and_only_then(stage: Stage) -> None:
    tight = {"budgets": BudgetSettings(roles={"coder": 0}).to_json()}
    bound = stage.play("roman", 0, tight, controller="static:star")
    assert {row["status"] for row in bound.calls if row["role"] == "coder"} == {"denied"}
    assert "denied_by" not in bound.record  # the cap of a role is the arm's own
    free = stage.play("roman", controller="static:star")
    assert all(set(row["reasons"]) <= {"episode"} for row in free.calls if row["status"] == "denied")


def test_the_margin_is_that_of_the_settings(stage: Stage) -> None:
    def reserved(**budgets: Any) -> int:
        settings = {"budgets": BudgetSettings(**budgets).to_json()}
        calls = stage.play("clamp", 0, settings, controller="static:star", budget=100_000).calls
        return int(calls[0]["reserved"])

    assert reserved(safety=2.0) > reserved(safety=1.2) > reserved() == reserved(bias_pct=10.0)
    assert reserved(bias_pct=20.0) == reserved(safety=1.2)


def test_milliseconds_are_a_budget_too(stage: Stage) -> None:
    def play(ms: int | None) -> EpisodeResult:
        return stage.play("clamp", 0, {"budgets": BudgetSettings(ms=ms).to_json()}, controller="static:star")

    assert plain(play(3_600_000))["trace"] == plain(play(None))["trace"]
    late, *denied = play(500).calls
    assert late["status"] == "timeout"  # a call may take what the episode may
    assert denied and all(row["reasons"] == {"episode": "ms_headroom"} for row in denied)
    with pytest.raises(ConfigError, match="budget_ms"):
        BudgetSettings(ms=0)


def test_gauges_are_of_the_whole_ceiling_and_not_of_a_tranche(stage: Stage, tmp_path: Path) -> None:
    budgets = BudgetSettings(run=100_000, run_store=tmp_path / "budget.sqlite3", day=50_000, day_store=tmp_path / "day")
    result = stage.play("roman", 0, {"budgets": budgets.to_json()}, controller="static:star", budget=BUDGET)
    rows = {(row["metric"], row["labels"].get("scope", "")): row for row in result.metrics}
    assert rows["budget_headroom", "run"]["value"] > 0.9 and rows["budget_headroom", "day"]["value"] > 0.9
    spent = result.record["tokens"]
    assert spent <= rows["daily_tokens_used", ""]["value"] <= spent + 1_000  # what it holds and has not spent counts
    assert rows["episode_tokens_used", ""]["value"] == spent
