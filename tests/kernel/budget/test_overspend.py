"""A thousand callers at the edge of four ceilings never spend more than one of them; and what the judge catches."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from apex_framework.budget import Grant, Guard, Ledger
from apex_framework.budget.entries import Expired
from apex_framework.interfaces import CallTags
from apex_framework.ports import SystemClock
from apex_framework.testing.overspend import TTL_S, Ceiling, Guarded, Naive, ceilings, simulate_callers


def blame(contender, seeds=range(5), callers=300):
    """What the judge has to say against a contender: overspent, exposed, wrong books."""
    found = set()
    for seed in seeds:
        judge = simulate_callers(contender, callers=callers, seed=seed)
        found |= {"overspent"} if judge.overspent else set()
        found |= {"exposed"} if judge.exposed > 0 else set()
        found |= {"books"} if judge.wrong else set()
    return found


@pytest.mark.simulation
def test_f39_a_thousand_callers_at_the_edge_of_four_ceilings_never_exceed_one():
    for seed in range(20):
        judge = simulate_callers(Guarded, callers=1_000, seed=seed)
        assert judge.exposed <= 0 and judge.wrong == [] and judge.overspent == {}, f"seed {seed}"
        assert judge.calls > 300 and judge.refused > 300, "the ceilings do not bind"


def test_same_seed_same_crowd():
    one, two = (simulate_callers(Guarded, callers=200, seed=7) for _ in range(2))
    assert (one.burned, one.steps, one.calls) == (two.burned, two.steps, two.calls)


class Books(Guarded):
    """Ours with a ledger of another class."""

    kind: type[Ledger] = Ledger

    def __init__(self, scopes, clock):
        self.ledger = self.kind(ttl_ms=int(TTL_S * 1000))
        self.guard = Guard(self.ledger, self.chosen(scopes), safety=self.safety(), clock=clock)

    def chosen(self, scopes):
        return scopes

    def safety(self):
        return 1.2


class AsksTwice(Guarded):
    """Looks whether it fits, awaits, and then takes without looking."""

    async def ask(self, tags, estimate, output):
        fits = all(left >= estimate + output for left in self.guard.remaining(tags).values())
        await asyncio.sleep(0.01)
        if not fits:
            return None
        instances = self.guard._resolver.instances(tags)
        for scope in instances:
            self.ledger.knows(scope.id) or self.ledger._opened(scope)
        accounts = [self.ledger._accounts[scope.id] for scope in instances]
        kept = [(a, a.limits) for a in accounts]
        for account in accounts:
            account.lease(10**9)
        answer = self.guard.reserve(tags, estimate, max_tokens=output)
        for account, limits in kept:
            account.limits = limits
        return answer.id if isinstance(answer, Grant) else None


class NoMargin(Books):
    """Takes estimates for exact."""

    def safety(self):
        return 1.0


class ForgetsTheRole(Books):
    """Leaves out the innermost scope."""

    def chosen(self, scopes):
        return [scope for scope in scopes if scope.name != "role"]


class ExpiryFrees(Books):
    """An expired reservation costs nothing."""

    class kind(Ledger):
        def _write(self, entry):
            super()._write(entry)
            if isinstance(entry, Expired):
                self._spend(self._expired[entry.id], -self._expired[entry.id].tokens, 0)


class RenewsNothing(Books):
    """Lets reservations of calls that live expire, and forgets them then."""

    class kind(Ledger):
        def expire(self, now_ms):
            gone = super().expire(now_ms)
            for name in gone:
                self.settle(name, 0)
            return gone

    def renew(self, ticket):
        pass


class SettlesAgain(Books):
    """Pays back twice when it is told twice."""

    def settle(self, ticket, tokens):
        if ticket in self.ledger._settled:
            self.ledger._accounts["day:today"].used -= tokens
            return
        super().settle(ticket, tokens)


@pytest.mark.simulation
@pytest.mark.parametrize(
    ("bug", "sign"),
    [
        (Naive, "overspent"),
        (AsksTwice, "books"),
        (NoMargin, "books"),
        (ForgetsTheRole, "exposed"),
        (ExpiryFrees, "books"),
        (RenewsNothing, "books"),
        (SettlesAgain, "books"),
    ],
)
def test_the_judge_catches_a_planted_bug(bug, sign):
    assert sign in blame(bug)
    assert blame(Books) == set()


def test_f39_two_hundred_threads_never_exceed_a_ceiling():
    scopes = ceilings(100)
    ledger = Ledger()
    guard = Guard(ledger, scopes, clock=SystemClock())
    together = threading.Barrier(20)

    def work(number):
        together.wait()
        spent = 0
        for turn in range(10):
            tags = CallTags("r", f"e{(number + turn) % 5}", "a", "coder", 0)
            answer = guard.reserve(tags, 100, max_tokens=100)
            if isinstance(answer, Grant):
                guard.settle(answer.id, 150)
                spent += 150
        return spent

    with ThreadPoolExecutor(20) as pool:
        spent = sum(pool.map(work, range(20)))
    assert spent == ledger.used("day:today") == ledger.used("run:r") and ledger.open == ()
    for scope in ledger.scopes:
        balance = ledger.balance(scope)
        assert balance.used <= balance.limits.tokens and balance.reserved == 0
    assert Ledger.replay(ledger.entries).state() == ledger.state()


@pytest.mark.parametrize("outer", ["day", "run", "episode"])
def test_the_tightest_of_nested_ceilings_decides(outer):
    scopes = [Ceiling(name, 500 if name == outer else 10_000) for name in ("day", "run", "episode", "role")]
    guard = Guard(Ledger(), scopes, clock=SystemClock())
    tags = CallTags("r", "e1", "a", "coder", 0)
    assert guard.reserve(tags, 501).reasons == {outer: "tok_headroom"}
    assert guard.remaining(tags)["role"] == 500, "a child has no more than what is around it"
    assert isinstance(guard.reserve(tags, 500), Grant)
