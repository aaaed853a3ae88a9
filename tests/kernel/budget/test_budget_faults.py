"""The rows of the fault catalogue that are about budgets, on one ledger. The day's are with its scope."""

from __future__ import annotations

import pytest

from apex_budgets.episode import EpisodeScope
from apex_budgets.role import CEILINGS, RoleScope
from apex_framework.budget import Grant, Guard, Ledger, open_ledger
from apex_framework.errors import LedgerError
from apex_framework.interfaces import CallTags, Denied
from apex_framework.testing.scripted import ManualClock

TAGS = CallTags("run1", "ep1", "coder1", "coder", 10_000)


def test_f35_holder_dies_and_its_estimate_is_debited_a_late_settlement_corrects_once():
    clock = ManualClock()
    guard = Guard(Ledger(), [EpisodeScope()], clock=clock)
    dead = guard.reserve(TAGS, 4_000)
    clock.advance(9.999)
    assert guard.ledger.expire(guard._now()) == ()
    clock.advance(0.001)
    assert isinstance(guard.reserve(TAGS, 6_001), Denied), "the debit counts"
    assert (guard.ledger.used("episode:ep1"), guard.ledger.expired, guard.ledger.open) == (4_000, 1, ())
    assert guard.settle(dead.id, 1_500).late
    assert guard.settle(dead.id, 9_999).tokens == 1_500, "by id, once"
    assert guard.ledger.used("episode:ep1") == 1_500 and guard.remaining(TAGS) == {"episode": 8_500}


def test_f35_process_dies_and_the_log_debits_what_it_had_reserved(tmp_path):
    ledger = open_ledger(tmp_path / "ledger.jsonl")
    guard = Guard(ledger, [EpisodeScope()], clock=ManualClock())
    guard.settle(guard.reserve(TAGS, 1_000).id, 700)
    orphan = guard.reserve(TAGS, 2_000)
    ledger.close()  # what the system does for a process that dies
    again = open_ledger(tmp_path / "ledger.jsonl")
    assert again.used("episode:ep1") == 2_700 and again.open == ()
    assert again.settle(orphan.id, 100).late and again.used("episode:ep1") == 800
    again.close()


def test_f36_settled_twice_after_expiry_or_never_reserved():
    clock = ManualClock()
    guard = Guard(Ledger(), [EpisodeScope(), RoleScope()], clock=clock)
    one, two = guard.reserve(TAGS, 1_000), guard.reserve(TAGS, 2_000)
    guard.settle(one.id, 900)
    guard.settle(one.id, 900)
    clock.advance(60)
    guard.ledger.expire(guard._now())
    for _ in range(3):
        guard.settle(two.id, 1_200)
    with pytest.raises(LedgerError, match="unknown reservation or scope 'r77'"):
        guard.settle("r77", 5)
    assert guard.ledger.used("episode:ep1") == guard.ledger.used("role:ep1/coder") == 2_100


def test_f37_torn_log_is_rebuilt_and_nothing_is_granted_meanwhile(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger = open_ledger(path)
    guard = Guard(ledger, [EpisodeScope()], clock=ManualClock())
    for tokens in (1_000, 2_000, 3_000):
        guard.settle(guard.reserve(TAGS, tokens).id, tokens)
    ledger.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    again = open_ledger(path)
    assert again.used("episode:ep1") == 6_000, "the torn settlement is a reservation again, and debited"
    again.close()

    rebuilt = Ledger()
    asked = Guard(rebuilt, [EpisodeScope()], clock=ManualClock())
    seen = []

    def slowly():
        for entry in ledger.entries:
            seen.append(asked.reserve(TAGS, 1))
            with pytest.raises(LedgerError, match="being rebuilt"):
                rebuilt.settle("r1", 1)
            yield entry

    rebuilt.rebuild(slowly())
    assert seen and all(a.reasons == {"ledger": "policy:ledger_recovering"} for a in seen)
    assert isinstance(asked.reserve(TAGS, 4_000), Grant) and isinstance(asked.reserve(TAGS, 1), Denied)


def test_f37_what_cannot_be_rebuilt_grants_nothing_for_good():
    source = Ledger()
    guard = Guard(source, [EpisodeScope()], clock=ManualClock())
    guard.reserve(TAGS, 1)
    ledger = Ledger()
    with pytest.raises(LedgerError):
        ledger.rebuild(source.entries[1:])
    with pytest.raises(LedgerError, match="only an empty ledger"):
        ledger.rebuild(source.entries)
    answer = Guard(ledger, [EpisodeScope()], clock=ManualClock()).reserve(TAGS, 1)
    assert answer.reasons == {"ledger": "policy:ledger_damaged"}


def test_f38_role_ceilings_add_up_to_more_than_the_episode_and_the_tightest_wins_without_a_partial_hold():
    assert sum(CEILINGS.values()) > TAGS.token_budget
    guard = Guard(Ledger(), [EpisodeScope(), RoleScope()], clock=ManualClock())
    for role in ("coder", "planner"):
        tags = CallTags("run1", "ep1", role, role, 10_000)
        assert isinstance(guard.reserve(tags, CEILINGS[role]), Grant)
    runner = CallTags("run1", "ep1", "runner", "runner", 10_000)
    before = guard.ledger.reserved("episode:ep1")
    denied = guard.reserve(runner, 1_001)
    assert denied.reasons == {"episode": "tok_headroom"} and denied.remaining == {"episode": 1_000, "role": 1_000}
    assert guard.ledger.reserved("role:ep1/runner") == 0 and guard.ledger.reserved("episode:ep1") == before
    assert isinstance(guard.reserve(runner, 1_000), Grant)
