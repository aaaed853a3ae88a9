"""The shared store: what is leased counts at once, and a file that cannot be used denies with a reason."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from apex_budgets.day import DayScope
from apex_budgets.run import RunScope
from apex_budgets.store import APPLICATION, SharedStore
from apex_framework.budget import Guard, Ledger
from apex_framework.errors import BudgetStoreError, ConfigError
from apex_framework.interfaces import CallTags
from apex_framework.testing.scripted import ManualClock

TAGS = CallTags("run1", "ep1", "coder1", "coder", 10_000)


def lease(store, holder, need, *, ceiling=100, tranche=1, now=0.0):
    return store.lease("run", "r", holder, need=need, tranche=tranche, ceiling=ceiling, now=now, ttl_s=10)


def test_leases_count_and_what_is_handed_back_does_not(tmp_path):
    store = SharedStore(tmp_path / "deep" / "store")
    assert lease(store, "a", 60) == (60, 40) and lease(store, "b", 41) == (0, 40)
    assert lease(store, "b", 40) == (40, 0) and lease(store, "a", 1) == (60, 0)
    assert store.settle("run", "r", "a", 25) and not store.settle("run", "r", "a", 25)
    assert lease(store, "c", 35) == (35, 0)
    assert store.balance("run", "r", 5.0) == (25, 75, 0)


def test_a_tranche_leaves_something_to_others_and_shrinks_towards_the_edge(tmp_path):
    store = SharedStore(tmp_path / "store")
    assert lease(store, "a", 1, tranche=1_000) == (25, 75) and lease(store, "b", 1, tranche=10) == (10, 65)
    assert lease(store, "b", 50, tranche=10) == (60, 15) and lease(store, "c", 1, tranche=1_000) == (3, 12)


def test_the_tranche_of_the_dead_is_debited_in_full_and_a_late_word_corrects_it_once(tmp_path):
    store = SharedStore(tmp_path / "store")
    lease(store, "dead", 60, now=0.0)
    assert store.balance("run", "r", 9.9) == (0, 60, 0) and store.balance("run", "r", 10.0) == (0, 0, 60)
    assert lease(store, "b", 41, now=1e9) == (0, 40)
    assert store.settle("run", "r", "dead", 20) and not store.settle("run", "r", "dead", 0)
    assert store.balance("run", "r", 1e9) == (20, 0, 0)


def test_spending_above_the_ceiling_is_counted_and_leaves_nothing(tmp_path):
    store = SharedStore(tmp_path / "store")
    lease(store, "a", 60)
    store.settle("run", "r", "a", 150)
    assert store.balance("run", "r", 0) == (150, 0, 0) and lease(store, "b", 1) == (0, 0)
    assert lease(store, "b", 1, ceiling=1_000) == (1, 849), "a ceiling that was raised has room again"


def spoil(path, how):
    SharedStore(path).check()
    if how == "text":
        path.write_text("not a database, but long enough to be looked at" * 50)
    elif how == "torn":
        path.write_bytes(path.read_bytes()[:1000])
    elif how == "scrambled":
        path.write_bytes(path.read_bytes()[:100] + os.urandom(8000))
    elif how == "folder":
        path.unlink()
        path.mkdir()
    else:
        with closing(sqlite3.connect(path, isolation_level=None)) as store:
            store.execute(how)


HOW = {
    "text": "store_damaged",
    "torn": "store_damaged",
    "scrambled": "store_damaged",
    "folder": "store_unwritable",
    "PRAGMA user_version = 7": "store_version",
    "PRAGMA application_id = 7": "store_version",
    "DROP TABLE leases": "store_damaged",
    "ALTER TABLE leases RENAME COLUMN tokens TO coins": "store_damaged",
}


@pytest.mark.parametrize("how", HOW)
def test_a_store_that_cannot_be_used_is_one_line_before_the_run_and_a_denial_within_it(tmp_path, how):
    path = tmp_path / "store"
    spoil(path, how)
    guard = Guard(Ledger(), [RunScope(1_000, path), DayScope(store=path)], clock=ManualClock())
    with pytest.raises(BudgetStoreError) as caught:
        guard.check()
    assert caught.value.reason == HOW[how] and str(path) in str(caught.value) and "\n" not in str(caught.value)
    assert caught.value.exit_status == 3 and caught.value.remedy
    denied = asyncio.run(guard.admit(TAGS, 1))
    assert denied.reasons == dict.fromkeys(("run", "day"), f"policy:{HOW[how]}")
    asyncio.run(guard.close())


def test_stored_nonsense_is_damage(tmp_path):
    path = tmp_path / "store"
    store = SharedStore(path)
    lease(store, "a", 5)
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("PRAGMA ignore_check_constraints = 1")
        raw.execute("UPDATE leases SET tokens = -1000000")
    with pytest.raises(BudgetStoreError) as caught:
        lease(store, "b", 1)
    assert caught.value.reason == "store_damaged"


def test_a_locked_store_denies_by_name_and_recovers(tmp_path):
    path = tmp_path / "store"
    scope = RunScope(1_000, path)
    scope._shared.store = SharedStore(path, patience_s=0.05)
    guard = Guard(Ledger(), [scope], clock=ManualClock())
    guard.check()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(BudgetStoreError, match=r"locked for more than 0\.05 s"):
            guard.check()
        assert asyncio.run(guard.admit(TAGS, 1)).reasons == {"run": "policy:store_locked"}
        other.execute("ROLLBACK")
    assert asyncio.run(guard.admit(TAGS, 1)).tokens == 1
    asyncio.run(guard.close())


READ_ONLY = """
import os, sys
from pathlib import Path
from apex_budgets.store import SharedStore
from apex_framework.errors import BudgetStoreError
os.setgroups([])
os.setuid(65534)
try:
    SharedStore(Path(sys.argv[1])).lease(
        "run", "r", "a", need=1, tranche=1, ceiling=10, now=0.0, ttl_s=1.0)
except BudgetStoreError as error:
    print(error.reason)
"""


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become somebody else")
def test_a_read_only_store_is_refused_by_name():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        SharedStore(path).check()
        path.chmod(0o444)
        Path(folder).chmod(0o555)
        done = subprocess.run([sys.executable, "-c", READ_ONLY, str(path)], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "store_unwritable", done.stderr


@pytest.mark.parametrize("tokens", [None, 0, -5, float("nan"), 1e309, 1.5, True, "10_000", 10**15])
def test_a_ceiling_that_is_no_number_is_one_line(tmp_path, tokens):
    for make in (RunScope, DayScope):
        with pytest.raises(ConfigError) as caught:
            make(tokens, tmp_path / "store")
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "store").exists()


def test_a_run_without_a_file_or_a_day_without_a_group_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="needs a ceiling of tokens and a file"):
        RunScope(5)
    with pytest.raises(ConfigError, match="group"):
        DayScope(store=tmp_path / "s", group="")
    with pytest.raises(ConfigError, match="ttl_s"):
        RunScope(5, tmp_path / "s", ttl_s=float("nan"))


def test_the_file_says_what_it_is(tmp_path):
    SharedStore(tmp_path / "store").check()
    with closing(sqlite3.connect(tmp_path / "store")) as raw:
        assert raw.execute("PRAGMA application_id").fetchone() == (APPLICATION,)
        assert raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)


CEILING = 200


class Machine(RuleBasedStateMachine):
    """Holders lease, spend, come to an end and die, in any order, on a real file; beside it the plainest sums."""

    store_class: type[SharedStore] = SharedStore

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.store = self.store_class(Path(self.folder.name) / "store")
        self.leased: dict[str, int] = {}
        self.spent = 0
        self.now = 0.0

    def teardown(self):
        self.folder.cleanup()

    @rule(holder=st.sampled_from("abc"), need=st.integers(1, 80), tranche=st.integers(1, 60))
    def lease(self, holder, need, tranche):
        free = CEILING - self.spent - sum(self.leased.values())
        had = self.leased.get(holder, 0)
        total, left = lease(self.store, holder, need, ceiling=CEILING, tranche=tranche, now=self.now)
        assert total == had if need > free else total >= had + need
        assert left == max(0, free) - (total - had)
        if total:
            self.leased[holder] = total

    @rule(holder=st.sampled_from("abc"), most=st.integers(0, 80))
    def settle(self, holder, most):
        used = min(most, self.leased.get(holder, 0))
        assert self.store.settle("run", "r", holder, used) is (holder in self.leased)
        if self.leased.pop(holder, None) is not None:
            self.spent += used

    @rule(seconds=st.sampled_from((1.0, 11.0, -20.0, 1e8, -1e8)))
    def pass_time(self, seconds):
        self.now += seconds

    @invariant()
    def never_exceeds_the_ceiling(self):
        spent, alive, dead = self.store.balance("run", "r", self.now)
        assert (spent, alive + dead) == (self.spent, sum(self.leased.values()))
        assert spent + alive + dead <= CEILING


class ForgetsTheDead(SharedStore):
    """Takes back what was leased by those who gave no sign of life."""

    def lease(self, scope, key, holder, **more):
        with self._transaction() as store:
            store.execute("DELETE FROM leases WHERE expires <= ?", (more["now"],))
        return super().lease(scope, key, holder, **more)


class LastWriteWins(SharedStore):
    """Writes what it knows over what others wrote."""

    def settle(self, scope, key, holder, used):
        done = super().settle(scope, key, holder, used)
        with self._transaction() as store:
            store.execute("UPDATE ceilings SET spent = ?", (used,))
        return done


def run(store_class, examples=30):
    machine = type("Machine", (Machine,), {"store_class": store_class})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=15,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_shared_ceilings_hold_whatever_holders_do():
    run(SharedStore)


@pytest.mark.parametrize("bug", [ForgetsTheDead, LastWriteWins])
def test_the_machine_catches_a_planted_bug(bug):
    with pytest.raises(AssertionError):
        run(bug, examples=1000)
