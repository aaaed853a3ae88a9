"""Admission: tranches of shared ceilings, budgets of children, and closed whatever is broken."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from apex_budgets.episode import EpisodeScope
from apex_budgets.role import RoleScope
from apex_framework.budget import Grant, Guard, Ledger
from apex_framework.errors import BudgetStoreError, ConfigError
from apex_framework.interfaces import CallTags, Denied, Limits, Tranche
from apex_framework.ports import RealEffects, VirtualEffects
from apex_framework.testing.broken.budget_scope import Holder, Pool
from apex_framework.testing.scripted import ManualClock
from apex_framework.testing.virtual_time import interleavings, run

TAGS = CallTags("run1", "ep1", "coder1", "coder", 100_000)


def guard_of(*scopes, effects=None, **more):
    return Guard(Ledger(), scopes, clock=ManualClock(), effects=effects or VirtualEffects(), **more)


class Slow:
    """Effects that take a moment of virtual time, so that callers meet."""

    async def run(self, work, *, cost):
        await asyncio.sleep(0.01)
        result = work()
        await asyncio.sleep(0.01)
        return result


# --- tranches ---------------------------------------------------------------------------------


def test_a_tranche_is_leased_when_it_is_needed_and_the_rest_is_handed_back():
    pool = Pool(1_000)
    guard = guard_of(Holder(pool), EpisodeScope())

    async def work():
        assert guard.remaining(TAGS) == {"shared": 1_000, "episode": 100_000} and guard.headroom(TAGS)["shared"] == 1.0
        assert guard.reserve(TAGS, 50).reasons == {"shared": "tok_headroom"}, "without a tranche nothing is granted"
        grant = await guard.admit(TAGS, 50)
        assert pool.taken["ep1/coder"] == 100 and guard.remaining(TAGS)["shared"] == 950
        guard.settle(grant.id, 30)
        assert isinstance(guard.reserve(TAGS, 70), Grant), "the rest of the tranche needs nobody"
        assert (await guard.admit(TAGS, 901)).reasons == {"shared": "tok_headroom"}
        await guard.close()
        assert pool.taken["ep1/coder"] == 100, "30 spent, 70 still reserved"
        assert (await guard.admit(TAGS, 0)).reasons == {"guard": "policy:closed"}
        await guard.close()

    run(work())


def test_two_holders_and_many_callers_never_exceed_the_ceiling_in_any_interleaving():
    async def work(seed):
        pool, spent = Pool(1_000), []
        guards = [guard_of(Holder(pool), effects=Slow()) for _ in range(2)]

        async def call(guard, number):
            grant = await guard.admit(TAGS, 10 + number % 7)
            if isinstance(grant, Grant):
                await asyncio.sleep(0.005)
                guard.settle(grant.id, grant.tokens - number % 3)
                spent.append(grant.tokens - number % 3)
            assert sum(spent) <= pool.taken["ep1/coder"] <= 1_000

        async with asyncio.TaskGroup() as group:
            for number in range(200):
                group.create_task(call(guards[number % 2], number))
        for guard in guards:
            await guard.close()
        assert pool.taken["ep1/coder"] == sum(spent) > 900

    interleavings(work, range(20))


def test_many_callers_that_run_short_together_lease_once():
    class Counting(Holder):
        refills = 0

        def refill(self, key, tokens):
            self.refills += 1
            return super().refill(key, tokens)

    scope = Counting(Pool(100_000))
    guard = guard_of(scope, effects=Slow())

    async def work():
        grants = await asyncio.gather(*(guard.admit(TAGS, 10) for _ in range(100)))
        assert all(isinstance(grant, Grant) for grant in grants)

    run(work())
    assert scope.refills == 1


def test_a_cancelled_caller_loses_nothing():
    pool = Pool(1_000)
    guard = guard_of(Holder(pool), effects=Slow())

    async def work():
        caller = asyncio.create_task(guard.admit(TAGS, 50))
        await asyncio.sleep(0.015)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert pool.taken["ep1/coder"] == 100 and guard.ledger.open == ()
        assert isinstance(await guard.admit(TAGS, 150), Grant)
        assert guard.ledger.balance("shared:ep1/coder").limits.tokens == pool.taken["ep1/coder"]
        await guard.close()
        assert pool.taken["ep1/coder"] == 150

    run(work())


def test_no_lease_for_a_call_that_is_refused_anyway():
    pool = Pool(1_000)
    guard = guard_of(Holder(pool), EpisodeScope())
    answer = run(guard.admit(replace(TAGS, token_budget=10), 11))
    assert answer.reasons == {"shared": "tok_headroom", "episode": "tok_headroom"} and not pool.taken


def test_spending_more_than_reserved_is_leased_afterwards_and_blocks():
    pool = Pool(200)
    guard = guard_of(Holder(pool))

    async def work():
        grant = await guard.admit(TAGS, 20)
        guard.settle(grant.id, 190)
        assert (await guard.admit(TAGS, 11)).reasons == {"shared": "tok_headroom"}
        assert isinstance(await guard.admit(TAGS, 10), Grant) and pool.taken["ep1/coder"] == 200
        await guard.close()

    run(work())
    assert guard.ledger.violations


def test_default_scopes_await_nothing():
    guard = guard_of(EpisodeScope(), RoleScope())
    steps = guard.admit(TAGS, 5)
    with pytest.raises(StopIteration) as end:
        steps.send(None)
    assert isinstance(end.value.value, Grant)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (BudgetStoreError("locked", reason="store_locked"), "policy:store_locked"),
        (ConfigError("no"), "policy:refill_failed"),
        (KeyError("x"), "policy:refill_failed"),
        (None, "policy:refill_failed"),
        (Tranche(-1, 0), "policy:refill_failed"),
        (Tranche(10**9, True), "policy:refill_failed"),
    ],
)
def test_a_shared_ceiling_that_cannot_be_reached_denies(answer, reason):
    class Broken(Holder):
        def refill(self, key, tokens):
            if isinstance(answer, Exception):
                raise answer
            return answer

    denied = run(guard_of(EpisodeScope(), Broken(Pool())).admit(TAGS, 1))
    assert denied.reasons == {"shared": reason}


def test_a_refill_that_hangs_denies():
    class Hangs:
        async def run(self, work, *, cost):
            await asyncio.sleep(3600)

    denied = run(guard_of(Holder(Pool()), effects=Hangs()).admit(TAGS, 1))
    assert denied.reasons == {"shared": "policy:refill_timeout"}


def test_a_tranche_that_cannot_be_handed_back_stays_spent(caplog):
    class Stuck(Holder):
        def hand_back(self, key, used):
            raise BudgetStoreError("locked", reason="store_locked")

    pool = Pool()
    guard = guard_of(Stuck(pool))

    async def work():
        await guard.admit(TAGS, 1)
        await guard.close()

    run(work())
    assert pool.taken["ep1/coder"] == 100 and "counts as spent" in caplog.text


def test_leasing_off_the_loop_in_real_threads():
    pool = Pool(10_000)
    guard = guard_of(Holder(pool), effects=RealEffects())

    async def work():
        grants = await asyncio.gather(*(guard.admit(TAGS, 10) for _ in range(50)))
        assert sum(isinstance(grant, Grant) for grant in grants) == 50
        await guard.close()

    asyncio.run(work())


# --- budgets of children ------------------------------------------------------------------------


def test_a_members_budget_is_a_child_of_its_goals():
    root = guard_of(EpisodeScope())
    goal = root.child("goal", "g1", Limits(5_000), TAGS, parent="episode")
    coder = goal.child("member", "m1", Limits(3_000), TAGS, parent="goal")
    critic = goal.child("member", "m2", Limits(3_000), TAGS, parent="goal")
    assert isinstance(coder, Guard) and isinstance(critic, Guard), "ceilings, not shares"
    assert isinstance(coder.reserve(TAGS, 3_000), Grant)
    assert coder.reserve(TAGS, 1).reasons == {"member": "tok_headroom"}
    assert critic.remaining(TAGS) == {"episode": 97_000, "goal": 2_000, "member": 2_000}
    assert critic.reserve(TAGS, 2_001).reasons == {"goal": "tok_headroom"}
    assert isinstance(critic.reserve(TAGS, 2_000), Grant)
    assert root.ledger.reserved("episode:ep1") == root.ledger.reserved("goal:g1") == 5_000


def test_a_child_never_gets_more_than_its_parent_has_left():
    goal = guard_of(EpisodeScope()).child("goal", "g1", Limits(5_000), TAGS, parent="episode")
    goal.settle(goal.reserve(TAGS, 4_000).id, 4_000)
    denied = goal.child("member", "m1", Limits(1_001), TAGS, parent="goal")
    assert denied == Denied({"goal": "tok_headroom"}, {"episode": 96_000, "goal": 1_000}, 1_001)
    assert isinstance(goal.child("member", "m1", Limits(1_000), TAGS, parent="goal"), Guard)


def test_a_child_draws_on_its_parents_tranche_and_ends_with_it():
    pool = Pool(1_000)
    root = guard_of(Holder(pool))
    child = root.child("goal", "g", Limits(500), TAGS, parent="shared")

    async def work():
        child.settle((await child.admit(TAGS, 60)).id, 60)
        await root.close()
        assert (await child.admit(TAGS, 1)).reasons == {"guard": "policy:closed"}

    run(work())
    assert pool.taken["ep1/coder"] == 60


@pytest.mark.parametrize("tokens", [None, float("nan"), -1, 0, 1.5, True, "5", 10**13])
def test_a_child_without_a_sound_ceiling_is_refused(tokens):
    with pytest.raises(ConfigError, match="budget of goal"):
        guard_of(EpisodeScope()).child("goal", "g", Limits(tokens), TAGS, parent="episode")


def test_a_child_of_nobody_is_refused():
    with pytest.raises(ConfigError, match="needs its parent 'nobody'"):
        guard_of(EpisodeScope()).child("goal", "g", Limits(5), TAGS, parent="nobody")


# --- closed when in doubt -------------------------------------------------------------------------


class NoClock(ManualClock):
    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def monotonic(self):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class NoLedger(Ledger):
    def reserve(self, *args, **more):
        raise MemoryError


BROKEN = {
    "estimate None": (lambda g: g.reserve(TAGS, None), {"estimate": "policy:no_estimate"}),
    "estimate NaN": (lambda g: g.reserve(TAGS, float("nan")), {"estimate": "policy:no_estimate"}),
    "estimate negative": (lambda g: g.reserve(TAGS, -1), {"estimate": "policy:no_estimate"}),
    "output None": (lambda g: g.reserve(TAGS, 1, max_tokens=None), {"estimate": "policy:no_estimate"}),
    "milliseconds NaN": (lambda g: g.reserve(TAGS, 1, float("nan")), {"estimate": "policy:no_estimate"}),
    "margin NaN": (lambda g: g.reserve(TAGS, 1, margin=float("nan")), {"estimate": "policy:no_estimate"}),
    "budget None": (
        lambda g: g.reserve(replace(TAGS, episode_id="x", token_budget=None), 1),
        {"episode": "policy:scope_error"},
    ),
    "budget NaN": (
        lambda g: g.reserve(replace(TAGS, episode_id="x", token_budget=float("nan")), 1),
        {"episode": "policy:scope_error"},
    ),
    "budget absurd": (
        lambda g: g.reserve(replace(TAGS, episode_id="x", token_budget=10**15), 1),
        {"episode": "policy:scope_error"},
    ),
    "no episode": (lambda g: g.reserve(replace(TAGS, episode_id=""), 1), {"episode": "policy:scope_error"}),
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_is_broken_denies_with_a_named_reason(what):
    ask, reasons = BROKEN[what]
    guard = guard_of(EpisodeScope())
    assert ask(guard).reasons == reasons and guard.ledger.open == ()


@pytest.mark.parametrize("answer", [float("nan"), float("inf"), None, OSError("no clock")])
def test_without_a_clock_nothing_is_granted(answer):
    guard = Guard(Ledger(), [EpisodeScope()], clock=NoClock(answer))
    assert guard.reserve(TAGS, 1).reasons == {"clock": "policy:no_clock"}
    assert not guard.renew("r1")


def test_without_a_ledger_nothing_is_granted():
    guard = Guard(NoLedger(), [EpisodeScope()], clock=ManualClock())
    assert guard.reserve(TAGS, 1).reasons == {"ledger": "policy:no_ledger"}


def test_a_clock_that_goes_back_expires_nothing_early_and_nothing_late():
    clock = NoClock(100.0)
    guard = Guard(Ledger(), [EpisodeScope()], clock=clock)
    grant = guard.reserve(TAGS, 5)
    clock.answer = 50.0
    assert guard.renew(grant.id)
    clock.answer = 110.0
    assert guard.ledger.expire(guard._now()) == (grant.id,)


@pytest.mark.parametrize("safety", [None, float("nan"), float("inf"), 0.9, -1, True, "1.2", 1e309, 101])
def test_no_sound_margin_no_guard(safety):
    with pytest.raises(ConfigError, match="safety must be a number from 1 to 100"):
        guard_of(EpisodeScope(), safety=safety)


# --- the one margin -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("safety", "margin", "tokens"), [(1.2, 1.0, 1_320), (1.2, 1.1, 1_200), (1.1, 1.1, 1_100), (1.0, 1.1, 1_100)]
)
def test_margins_never_multiply(safety, margin, tokens):
    """X-22: an estimate of 1,000 raw tokens by a tokenizer that adds 10 %, or 1,100 by one that adds nothing."""
    assert guard_of(EpisodeScope(), safety=safety).reserve(TAGS, 1_100, margin=margin).tokens == tokens


def test_output_cap_is_what_would_be_granted():
    guard = guard_of(EpisodeScope(), safety=1.2)
    tags = replace(TAGS, token_budget=2_000)
    assert guard.output_cap(tags, 1_000, 5_000) == 800 and guard.output_cap(tags, 1_000, 100) == 100
    assert guard.output_cap(tags, 1_700, 100) == guard.output_cap(tags, None, 100) == 0
    assert guard.output_cap(tags, 1_100, 5_000, margin=1.1) == 800
    assert isinstance(guard.reserve(tags, 1_000, max_tokens=801), Denied)
    grant = guard.reserve(tags, 1_000, max_tokens=800)
    assert guard.output_cap(tags, 0, 5) == 0
    guard.release(grant.id)
    assert guard.remaining(tags) == {"episode": 2_000}
