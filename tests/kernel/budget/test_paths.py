"""Scopes of a call that are looked up again: what was found once is what would be found anew."""

from __future__ import annotations

import copy
import pickle
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apex_framework.budget import Guard, Ledger, ScopeInstance
from apex_framework.budget.books import Books
from apex_framework.budget.entries import Opened
from apex_framework.budget.scopes import Resolver
from apex_framework.errors import LedgerError
from apex_framework.interfaces import CallTags, Limits
from apex_framework.testing.scripted import ManualClock

KEYS = ("a", "b", "")
"""The last is no key."""


class Level:
    """A scope whose key is one part of the episode's name; a part that is missing makes it raise."""

    def __init__(self, place: int) -> None:
        self.name = f"level{place}"
        self.parent = f"level{place - 1}" if place else None
        self._place = place

    def key(self, tags: CallTags) -> str:
        return tags.episode_id.split("/")[self._place]

    def limits(self, tags: CallTags) -> Limits:
        return Limits(100 + self._place)


def tags(*parts: str) -> CallTags:
    return CallTags("r", "/".join(parts), "a", "coder", 10_000)


def resolver() -> Resolver:
    return Resolver([Level(place) for place in range(3)])


def same_as_anew(asked: list[list[str]], one: Resolver) -> None:
    for parts in asked:
        expected = resolver()
        assert one.instances(tags(*parts)) == expected.instances(tags(*parts))
        found, anew = one.each(tags(*parts)), expected.each(tags(*parts))
        assert [(r.scope.name, r.instance, r.whole) for r in found] == [
            (r.scope.name, r.instance, r.whole) for r in anew
        ]


calls = st.lists(st.lists(st.sampled_from(KEYS), min_size=1, max_size=3), max_size=12)


@given(calls)
def test_what_is_remembered_is_what_would_be_found(asked: list[list[str]]) -> None:
    same_as_anew(asked, resolver())


def test_the_property_sees_a_memory_that_forgets_parents() -> None:
    class Forgetful(Resolver):
        def _path(self, tags: CallTags):
            return next((path for keys, path in self._paths.items() if keys[-1] == tags.episode_id[-1]), None)

    with pytest.raises(AssertionError):
        same_as_anew([["a", "a", "a"], ["b", "a", "a"]], Forgetful([Level(place) for place in range(3)]))


def test_a_scope_that_breaks_later_denies_and_one_that_heals_admits() -> None:
    scopes = [Level(0)]
    guard = Guard(Ledger(), scopes, clock=ManualClock())
    assert guard.check_and_reserve(tags("a"), 1)[0]
    whole, scopes[0].key = scopes[0].key, lambda tags: 1 / 0  # type: ignore[method-assign]  # a scope that breaks
    assert guard.check_and_reserve(tags("a"), 1)[2] == {"level0": "policy:scope_error"}
    assert guard.headroom(tags("a")) == {"level0": 0.0}
    scopes[0].key = whole  # type: ignore[method-assign]  # and heals
    assert guard.check_and_reserve(tags("a"), 1)[0]


def test_an_instance_keeps_its_id_and_its_value() -> None:
    instance = ScopeInstance("role", "e/coder", Limits(5), "episode:e")
    assert instance.id == "role:e/coder"
    assert (
        repr(instance)
        == "ScopeInstance(name='role', key='e/coder', limits=Limits(tokens=5, ms=None), parent='episode:e')"
    )
    for other in (pickle.loads(pickle.dumps(instance)), copy.deepcopy(instance), copy.copy(instance)):
        assert other == instance and hash(other) == hash(instance) and other.id == instance.id
    assert set(asdict(instance)) == {"name", "key", "limits", "parent"}
    assert ScopeInstance("role", "e/coder", Limits(6), "episode:e") != instance


EPISODE, ROLE = ScopeInstance("episode", "e", Limits(100)), ScopeInstance("role", "c", Limits(50), "episode:e")


def test_scopes_that_went_well_together_are_still_checked() -> None:
    ledger = Ledger()
    ledger.reserve((EPISODE, ROLE), 1)
    with pytest.raises(LedgerError, match="named twice"):
        ledger.reserve((EPISODE, ROLE, ROLE), 1)
    with pytest.raises(LedgerError, match="without its parent"):
        ledger.reserve((ROLE,), 1)
    with pytest.raises(LedgerError, match="without its parent"):
        ledger.reserve((EPISODE, ScopeInstance("role", "c", Limits(50), "run:r")), 1)
    assert ledger.reserved("episode:e") == ledger.reserved("role:c") == 1


def opened_again(ledger: Ledger) -> None:
    ledger.reserve((EPISODE,), 10)
    ledger._write(Opened(EPISODE))
    ledger.reserve((EPISODE,), 20)
    assert ledger.reserved("episode:e") == 20


def test_an_account_that_is_opened_again_is_the_one_that_counts() -> None:
    opened_again(Ledger())


def test_the_check_sees_a_memory_of_the_old_account() -> None:
    class Sticky(dict[tuple[str, ...], object]):
        def clear(self) -> None:
            """Keeps everything."""

    ledger = Ledger()
    ledger._groups = Sticky()  # type: ignore[assignment]  # the planted bug
    assert isinstance(ledger, Books)
    with pytest.raises(AssertionError):
        opened_again(ledger)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=8))
def test_what_is_left_is_the_same_by_both_ways(calls: list[tuple[int, int]]) -> None:
    ledger = Ledger()
    ledger.reserve((EPISODE, ROLE), 0)
    for tokens, actual in calls:
        answer = ledger.reserve((EPISODE, ROLE), tokens)
        if hasattr(answer, "id"):
            ledger.settle(answer.id, actual)
        for scope in (EPISODE, ROLE):
            assert ledger.remaining(scope.id) == ledger.balance(scope.id).remaining
    assert Ledger.replay(ledger.entries).state() == ledger.state()
