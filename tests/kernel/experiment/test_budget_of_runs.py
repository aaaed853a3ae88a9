"""The budget of a run and of a day: the run stops when it is spent, and goes on when it is raised."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from apex_budgets.store import SharedStore
from apex_executors.local import LocalExecutor
from apex_framework.budget import BudgetSettings
from apex_framework.episode.arm import Arm
from apex_framework.errors import (
    ApexError,
    BudgetStoreError,
    BudgetTooSmallError,
    ConfigError,
    GlobalBudgetSpentError,
)
from apex_framework.experiment.allowance import Allowance, allowance_of, budgets_of
from apex_framework.experiment.artifacts import CUT, RunFolder, read_run
from apex_framework.experiment.manifest import STORE, verify_manifest
from apex_framework.experiment.plan import Plan
from apex_framework.experiment.planning import make_plan as planned
from apex_framework.experiment.run import Runner, RunOutcome
from apex_framework.experiment.train import Trainer, Training
from apex_framework.interfaces import EpisodeResult
from apex_framework.plugins import load_plugins

MakePlan = Callable[..., Plan]
CATALOG = load_plugins().catalog


def go_on(path: Path, plan: Plan, work: Callable[..., object], *, workers: int = 2, **raised: int) -> RunOutcome:
    """Begin a run, or go on with it."""
    folder = RunFolder.reopen(path) if (path / "run.json").exists() else RunFolder.create(path, plan)
    with folder:
        if raised:
            folder.note_raised(**raised)
        allowance = allowance_of(folder, CATALOG)
        allowance.check()
        runner = Runner(folder, LocalExecutor(), work, workers=workers, allowance=allowance)  # type: ignore[arg-type]  # any work
        return runner.run()


def with_budgets(make_plan: MakePlan, **budgets: Any) -> Plan:
    return make_plan(settings={"budgets": BudgetSettings(**budgets).to_json()})


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def paid(path: Path) -> int:
    return sum(row["tokens"] for name in ("episodes.jsonl", CUT) for row in rows(path / name))


def test_a_run_stops_when_its_budget_is_spent_and_a_raised_one_has_room_at_once(
    tmp_path: Path, make_plan: MakePlan, fake_episodes: ModuleType
) -> None:
    path, plan = tmp_path / "r", with_budgets(make_plan, run=9_000)
    outcome = go_on(path, plan, fake_episodes.spending)
    assert outcome.exit_status == 6 and 0 < outcome.finished < outcome.planned
    assert outcome.spent is not None and (outcome.spent.scope, outcome.spent.ceiling) == ("run", 9_000)
    assert paid(path) <= 9_000 and not (path / "DONE").exists()
    before = {(row["arm"], row["task_id"]): row for row in rows(path / "episodes.jsonl")}

    outcome = go_on(path, plan, fake_episodes.spending, run=100_000)
    assert outcome.exit_status == 0 and outcome.complete
    after = {(row["arm"], row["task_id"]): row for row in rows(path / "episodes.jsonl")}
    assert all(after[key] == row for key, row in before.items()) and len(after) == plan.size
    assert not any("denied_by" in row for row in after.values())
    assert budgets_of(path).run == 100_000 and read_run(path)["raised"][0]["run"] == 100_000
    assert SharedStore(path / STORE).balance("run", plan.run_id, 0.0) == (paid(path), 0, 0)
    assert STORE not in (path / "DONE").read_text()
    SharedStore(path / STORE).lease("run", "x", "h", need=1, tranche=1, ceiling=9, now=0.0, ttl_s=1.0)
    verify_manifest(path)
    assert {file.name for file in path.glob("budget*")} == {STORE}


def test_a_spent_run_is_not_begun_again(tmp_path: Path, make_plan: MakePlan, fake_episodes: ModuleType) -> None:
    path, plan = tmp_path / "r", with_budgets(make_plan, run=3_000)
    go_on(path, plan, fake_episodes.spending)
    with SharedStore(path / STORE)._transaction() as store:
        store.execute("UPDATE ceilings SET spent = 2900")
    with pytest.raises(GlobalBudgetSpentError, match=r"100 of 3,000 tokens of the run are left") as caught:
        go_on(path, plan, fake_episodes.spending)
    assert caught.value.exit_status == 6 and "--run-budget N" in caught.value.remedy


def test_what_a_budget_cut_short_is_kept_aside_and_run_again(
    tmp_path: Path, make_plan: MakePlan, fake_episodes: ModuleType
) -> None:
    outcome = go_on(tmp_path / "r", with_budgets(make_plan, run=9_000), fake_episodes.spending)
    cut = rows(tmp_path / "r" / CUT)
    assert outcome.cut == len(cut) > 0
    assert all(row["denied_by"] == {"run": "tok_headroom"} for row in cut)
    kept = {(row["arm"], row["task_id"]) for row in rows(tmp_path / "r" / "episodes.jsonl")}
    assert not kept & {(row["arm"], row["task_id"]) for row in cut}


def test_a_runner_that_takes_cut_episodes_for_results_is_caught(
    tmp_path: Path, make_plan: MakePlan, fake_episodes: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = Runner._take

    def take(self: Runner, result: EpisodeResult) -> None:
        true(self, replace(result, record={k: v for k, v in result.record.items() if k != "denied_by"}))

    monkeypatch.setattr(Runner, "_take", take)
    with pytest.raises(AssertionError):
        test_what_a_budget_cut_short_is_kept_aside_and_run_again(tmp_path, make_plan, fake_episodes)


def test_a_store_that_breaks_stops_the_run_and_what_is_finished_stays(
    tmp_path: Path, make_plan: MakePlan, fake_episodes: ModuleType
) -> None:
    path = tmp_path / "r"
    with pytest.raises(BudgetStoreError) as caught:
        # one worker: a second one that closes the store at this moment would write its pages over the damage
        go_on(path, with_budgets(make_plan, run=10**6), fake_episodes.breaking_the_store, workers=1)
    assert caught.value.exit_status == 3 and caught.value.reason == "store_damaged"
    assert rows(path / "episodes.jsonl") and not (path / "DONE").exists()
    for file in path.glob("budget*"):
        file.unlink()
    assert go_on(path, with_budgets(make_plan, run=10**6), fake_episodes.work).complete


def test_jobs_carry_ceilings_only_where_there_are_any(tmp_path: Path, make_plan: MakePlan) -> None:
    job = next(make_plan().jobs())
    assert Allowance(CATALOG, make_plan().arms, BudgetSettings()).equip(job) is job
    with RunFolder.create(tmp_path / "r", with_budgets(make_plan, run=9_000)) as folder:
        job = next(folder.plan.jobs())
        equipped = allowance_of(folder, CATALOG).equip(job)
    assert job.run["budgets"]["run_store"] is None
    assert equipped.run["budgets"]["run_store"] == str(tmp_path / "r" / STORE)


def test_what_was_raised_is_not_part_of_the_plan(tmp_path: Path, make_plan: MakePlan) -> None:
    plan = with_budgets(make_plan, run=9_000, day=8_000)
    with RunFolder.create(tmp_path / "r", plan) as folder:
        folder.note_raised(run=10_000)
        folder.note_raised(run=11_000, day=9_000)
    budgets = budgets_of(tmp_path / "r")
    assert (budgets.run, budgets.day) == (11_000, 9_000)
    assert RunFolder.reopen(tmp_path / "r").plan.digest == plan.digest


# --- before the first episode ------------------------------------------------------------------------

ARM = Arm("a", controller="static", topologies=("star",))


def asked(**budgets: Any) -> Plan:
    settings = {"budgets": BudgetSettings(**budgets).to_json()}
    return planned(load_plugins(), [ARM], suite="mini", split="dev", limit=1, settings=settings)


def test_ceilings_that_pay_for_nothing_and_stores_that_cannot_be_used_end_the_plan(tmp_path: Path) -> None:
    with pytest.raises(BudgetTooSmallError, match="199 tokens of the run"):
        asked(run=199)
    with pytest.raises(BudgetTooSmallError, match="5 tokens of the day"):
        asked(day=5, day_store=tmp_path / "day")
    (tmp_path / "junk").write_text("junk")
    with pytest.raises(BudgetStoreError, match="damaged"):
        asked(day=9_000, day_store=tmp_path / "junk")
    with pytest.raises(BudgetStoreError, match="cannot be written"):
        asked(day=9_000, day_store=tmp_path / "junk" / "day")
    with pytest.raises(ConfigError, match="scope run needs a ceiling"):
        planned(load_plugins(), [replace(ARM, scopes=("episode", "run"))], suite="mini", split="dev", limit=1)


def test_a_day_that_is_spent_ends_the_plan_and_says_when_it_opens_again(tmp_path: Path) -> None:
    assert asked(day=9_000, day_store=tmp_path / "day").size == 1
    scope = CATALOG.make("budget_scope", "day", tokens=9_000, store=tmp_path / "day")
    key = scope.key(None)
    scope.refill(key, 8_900)
    scope.hand_back(key, 8_900)
    with pytest.raises(GlobalBudgetSpentError, match=r"100 of 9,000 tokens of the day are left; it opens .*00:00 UTC"):
        asked(day=9_000, day_store=tmp_path / "day")
    assert asked(day=10_000, day_store=tmp_path / "day").size == 1


class Cutting:
    """An executor whose episodes were all cut short by the day's ceiling, for a reason."""

    name = "cutting"

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def run(self, jobs: Any, work: Any, *, workers: int) -> Any:
        for job in jobs:
            result = work(job)
            yield replace(result, record={**result.record, "denied_by": {"day": self._reason}})


@pytest.mark.parametrize(
    ("reason", "error", "told"),
    [
        ("tok_headroom", GlobalBudgetSpentError, "ceiling of the day cut an episode"),
        ("policy:store_locked", BudgetStoreError, r"budget of the day could not be asked \(store_locked\)"),
    ],
)
def test_training_stops_rather_than_learn_from_what_was_cut_short(
    reason: str, error: type[ApexError], told: str, fake_episodes: ModuleType
) -> None:
    arm = Arm("bandit_v1", controller="bandit_v1")
    training = Training(arm, ("alpha-0",), episodes=1)
    trainer = Trainer(training, CATALOG, Cutting(reason), fake_episodes.taught)
    with pytest.raises(error, match=told):
        list(trainer.rounds())
