"""The ledger by example: two phases, nested scopes, expiry, overspending, wrong use."""

from __future__ import annotations

import pytest

from apex_framework.budget import Balance, Ledger, Reservation, ScopeInstance, Settlement, Violation
from apex_framework.budget.entries import Opened, Renewed, Reserved, Settled
from apex_framework.errors import LedgerError
from apex_framework.interfaces import Denied, Limits

EPISODE = ScopeInstance("episode", "e", Limits(100))
CODER = ScopeInstance("role", "e/coder", Limits(60), "episode:e")


def reserved(ledger, tokens, scopes=(EPISODE,), **more) -> Reservation:
    answer = ledger.reserve(scopes, tokens, **more)
    assert isinstance(answer, Reservation)
    return answer


def test_two_phases():
    ledger = Ledger()
    held = reserved(ledger, 40)
    assert ledger.balance("episode:e") == Balance(Limits(100), 0, 40, 0, 0)
    assert ledger.settle(held.id, 25) == Settlement(held.id, 25, 0)
    assert (ledger.used("episode:e"), ledger.reserved("episode:e"), ledger.remaining("episode:e")) == (25, 0, 75)
    assert ledger.headroom("episode:e") == 0.75


def test_to_the_last_token_and_not_beyond():
    ledger = Ledger()
    reserved(ledger, 60)
    reserved(ledger, 40)
    assert ledger.reserve([EPISODE], 1) == Denied({"episode": "tok_headroom"}, {"episode": 0}, 1)
    reserved(ledger, 0)


def test_all_scopes_or_none():
    ledger = Ledger()
    denied = ledger.reserve([EPISODE, CODER], 61)
    assert denied == Denied({"role": "tok_headroom"}, {"episode": 100, "role": 60}, 61)
    assert ledger.open == () and ledger.reserved("episode:e") == 0
    reserved(ledger, 60, [CODER, EPISODE])
    assert ledger.reserved("episode:e") == ledger.reserved("role:e/coder") == 60
    both = ledger.reserve([EPISODE, CODER], 41)
    assert isinstance(both, Denied) and set(both.reasons) == {"episode", "role"}


def test_time_is_bounded_where_a_limit_says_so():
    ledger = Ledger()
    scope = ScopeInstance("episode", "e", Limits(None, 1_000))
    reserved(ledger, 10**9, [scope], ms=900)
    assert ledger.reserve([scope], 1, 101) == Denied({"episode": "ms_headroom"}, {}, 1)
    assert ledger.remaining("episode:e") is None and ledger.headroom("episode:e") == 1.0


def test_second_settlement_is_the_first():
    ledger = Ledger()
    held = reserved(ledger, 40)
    first = ledger.settle(held.id, 10)
    before = ledger.entries
    assert ledger.settle(held.id, 40) is first and ledger.release(held.id) is first
    assert ledger.used("episode:e") == 10 and ledger.entries == before


def test_release_gives_everything_back():
    ledger = Ledger()
    ledger.release(reserved(ledger, 40).id)
    assert ledger.remaining("episode:e") == 100


def test_expiry_debits_and_a_late_settlement_replaces_the_debit_once():
    ledger = Ledger(ttl_ms=10_000)
    held = reserved(ledger, 40, now_ms=0)
    assert ledger.expire(9_999) == () and ledger.expire(10_000) == (held.id,)
    assert (ledger.used("episode:e"), ledger.reserved("episode:e"), ledger.expired) == (40, 0, 1)
    assert ledger.settle(held.id, 15) == Settlement(held.id, 15, 0, 0, late=True)
    ledger.settle(held.id, 15)
    assert ledger.used("episode:e") == 15


def test_reserving_expires_what_is_due():
    ledger = Ledger(ttl_ms=1_000)
    reserved(ledger, 100, now_ms=0)
    denied = ledger.reserve([EPISODE], 1, now_ms=5_000)
    assert isinstance(denied, Denied) and ledger.used("episode:e") == 100


def test_renewal_keeps_a_reservation_alive_until_it_ends():
    ledger = Ledger(ttl_ms=1_000)
    held = reserved(ledger, 40)
    assert ledger.renew(held.id, 900) and ledger.expire(1_800) == ()
    assert ledger.expire(1_900) == (held.id,)
    assert not ledger.renew(held.id, 1_900)
    ledger.settle(held.id, 1)
    assert not ledger.renew(held.id, 1_900)


def test_overspending_is_counted_listed_and_blocks():
    ledger = Ledger()
    held = reserved(ledger, 50, [EPISODE, CODER])
    assert ledger.settle(held.id, 70).overspent == 20
    assert ledger.violations == (
        Violation(held.id, "episode:e", 20, 0, 0),
        Violation(held.id, "role:e/coder", 20, 0, 10),
    )
    assert ledger.used("role:e/coder") == 70 and ledger.remaining("role:e/coder") == 0
    assert isinstance(ledger.reserve([EPISODE, CODER], 0), Denied)
    assert isinstance(ledger.reserve([EPISODE], 30), Reservation)


def test_time_above_the_reservation_counts_only_where_time_is_bounded():
    ledger = Ledger()
    ledger.settle(reserved(ledger, 10).id, 10, 500)
    assert ledger.violations == ()
    timed = ScopeInstance("timed", "t", Limits(None, 1_000))
    held = reserved(ledger, 10, [timed], ms=100)
    ledger.settle(held.id, 99, 150)
    assert ledger.violations == (Violation(held.id, "timed:t", 0, 50, 0),)


def test_entries_tell_the_story():
    ledger = Ledger(ttl_ms=1_000)
    held = reserved(ledger, 40)
    ledger.renew(held.id, 500)
    ledger.settle(held.id, 30, 7)
    assert ledger.entries == (Opened(EPISODE), Reserved(held), Renewed(held.id, 1_500), Settled(held.id, 30, 7))


def test_entries_that_do_not_fit_are_refused():
    with pytest.raises(LedgerError, match="unknown reservation"):
        Ledger.replay([Opened(EPISODE), Settled("r1", 1, 1)])
    with pytest.raises(LedgerError, match="unknown"):
        Ledger.replay([Reserved(Reservation("r1", ("episode:e",), 1, 0, 9))])


@pytest.mark.parametrize("tokens", [-1, 1.0, True, None, "1"])
def test_only_whole_numbers(tokens):
    ledger = Ledger()
    held = reserved(ledger, 1)
    for wrong in (lambda: ledger.reserve([EPISODE], tokens), lambda: ledger.settle(held.id, tokens)):
        with pytest.raises(LedgerError, match="integer >= 0"):
            wrong()
    assert ledger.open == (held,)


def test_wrong_use_is_refused_by_name():
    ledger = Ledger()
    with pytest.raises(LedgerError, match="'r7'"):
        ledger.settle("r7", 1)
    with pytest.raises(LedgerError, match="'r7'"):
        ledger.renew("r7", 1)
    with pytest.raises(LedgerError, match="without its parent episode:e"):
        ledger.reserve([CODER], 1)
    with pytest.raises(LedgerError, match="twice"):
        ledger.reserve([EPISODE, EPISODE], 1)
    with pytest.raises(LedgerError, match="'role:x'"):
        ledger.balance("role:x")
    with pytest.raises(LedgerError, match="limit of tokens"):
        ledger.reserve([ScopeInstance("s", "k", Limits(-1))], 1)
