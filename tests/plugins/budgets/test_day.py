"""The day's ceiling: one window at a time, never opened again, whatever the clocks and however many processes."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

import pytest

from apex_budgets.day import DayScope, default_store
from apex_framework.budget import Grant, Guard, Ledger
from apex_framework.interfaces import CallTags
from apex_framework.ports import RealEffects, VirtualEffects
from apex_framework.testing.scripted import ManualClock
from apex_framework.testing.virtual_time import run

TAGS = CallTags("run1", "ep1", "coder1", "coder", 10_000)
DAY = 86_400.0
NOON = 1_750_000_000 // 86_400 * 86_400 + DAY / 2
"""Noon, UTC, of 2025-06-15."""


class Wall(ManualClock):
    """A wall clock that is set by hand, both ways."""

    def __init__(self, wall=NOON):
        super().__init__()
        self.time = wall

    def wall(self):
        return self.time


def guard(tmp_path, clock, tokens=1_000, effects=None, **more):
    scope = DayScope(tokens, tmp_path / "store", clock=clock, **more)
    return Guard(Ledger(), [scope], clock=clock, effects=effects or VirtualEffects())


def test_a_day_is_a_day_of_utc_and_of_a_group(tmp_path):
    clock = Wall()
    assert DayScope(clock=clock, store=tmp_path / "s").key(TAGS) == "default/2025-06-15"
    clock.time = NOON + DAY / 2
    assert DayScope(clock=clock, store=tmp_path / "s", group="eval").key(TAGS) == "eval/2025-06-16"


def test_the_next_day_has_its_own_ceiling_and_the_last_one_is_closed(tmp_path):
    clock = Wall()
    g = guard(tmp_path, clock)

    async def work():
        assert isinstance(await g.admit(TAGS, 900), Grant)
        assert not isinstance(await g.admit(TAGS, 101), Grant)
        clock.time += DAY
        assert isinstance(await g.admit(TAGS, 1_000), Grant)
        clock.time -= DAY
        assert not isinstance(await g.admit(TAGS, 1), Grant), "yesterday's rest is gone"
        await g.close()

    run(work())


@pytest.mark.parametrize("jump", [-1, -3_600, -DAY, -10 * 365 * DAY])
def test_f40_a_clock_that_goes_back_opens_no_window_again_in_any_process(tmp_path, jump):
    async def work():
        clock = Wall(NOON + DAY / 2)
        first = guard(tmp_path, clock)
        assert isinstance(await first.admit(TAGS, 1_000), Grant)
        clock.time += jump
        assert not isinstance(await first.admit(TAGS, 1), Grant)
        late = guard(tmp_path, Wall(NOON + DAY / 2 + jump))  # a process that never saw the later day
        denied = await late.admit(TAGS, 1)
        assert denied.reasons == {"day": "tok_headroom"}
        assert late.ledger.scopes[-1] == "day:default/2025-06-16"

    run(work())


def test_f40_rollover_under_load_loses_no_update(tmp_path):
    """Twenty threads, each a process of its own to the store, cross midnight and back at different moments."""
    tokens, calls = 5_000, 12

    def work(number):
        clock = Wall(NOON + DAY / 2 - 5)
        g = guard(tmp_path, clock, tokens, effects=RealEffects(), tranche=100)
        spent = {}

        async def calling():
            for turn in range(calls):
                clock.time += (3, 1, -2)[(number + turn) % 3]
                grant = await g.admit(TAGS, 37)
                if isinstance(grant, Grant):
                    day = next(r.scopes[0] for r in g.ledger.open if r.id == grant.id)
                    g.settle(grant.id, 37 - number)
                    spent[day] = spent.get(day, 0) + 37 - number
            await g.close()

        asyncio.run(calling())
        return spent

    with ThreadPoolExecutor(20) as pool:
        spent = list(pool.map(work, range(20)))
    store = DayScope(tokens, tmp_path / "store")._shared.store
    days = {day for each in spent for day in each}
    assert days == {"day:default/2025-06-15", "day:default/2025-06-16"}
    for day in days:
        total = sum(each.get(day, 0) for each in spent)
        assert store.balance("day", day.removeprefix("day:"), 0.0) == (total, 0, 0)
        assert 0 < total <= tokens


def test_days_of_different_groups_do_not_meet(tmp_path):
    async def work():
        for group in ("train", "eval"):
            assert isinstance(await guard(tmp_path, Wall(), group=group).admit(TAGS, 1_000), Grant)

    run(work())


def test_a_call_across_midnight_belongs_to_the_day_it_began(tmp_path):
    clock = Wall(NOON + DAY / 2 - 1)
    g = guard(tmp_path, clock)

    async def work():
        grant = await g.admit(TAGS, 1_000)
        clock.time += 2
        g.settle(grant.id, 900)
        assert isinstance(await g.admit(TAGS, 1_000), Grant)
        await g.close()

    run(work())
    store = DayScope(1_000, tmp_path / "store")._shared.store
    assert store.balance("day", "default/2025-06-15", 0) == (900, 0, 0)
    assert store.balance("day", "default/2025-06-16", 0) == (1_000, 0, 0)


@pytest.mark.parametrize("wall", [float("nan"), float("inf"), 1e18, -1e18])
def test_without_a_calendar_nothing_is_granted(tmp_path, wall, caplog):
    caplog.set_level(logging.CRITICAL)
    denied = run(guard(tmp_path, Wall(wall)).admit(TAGS, 1))
    assert denied.reasons == {"day": "policy:scope_error"}


def test_without_a_file_it_is_kept_in_the_users_state_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_store().name == "budget.sqlite3" and tmp_path in default_store().parents
    scope = DayScope()
    assert scope.limits(TAGS).tokens == 5_000_000 and not default_store().exists()
    scope.check()
    assert default_store().exists()
