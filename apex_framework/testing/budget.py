"""Conformance kits of budget scopes, and of those that share a ceiling with other processes."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from ..interfaces.budget import BudgetScope, CallTags, Limits, Refills, TellsRoom
from .conformance import run_checks

KIND: Final = "budget_scope"
TAGS: Final = CallTags("run1", "ep1", "coder1", "coder", 10_000)

Make = Callable[[], BudgetScope]
NewCeiling = Callable[[], Make]
"""Makes a new shared ceiling, and returns what makes holders of it, each as another process would."""


def check_budget_scope(make: Make) -> None:
    """Run every check on fresh scopes. Raises ConformanceError."""
    run_checks(
        KIND,
        {
            "has_a_name": lambda: check_has_a_name(make),
            "nests_in_another": lambda: check_nests_in_another(make),
            "key_is_a_text": lambda: check_key_is_a_text(make),
            "key_is_pure": lambda: check_key_is_pure(make),
            "limits_are_whole_numbers": lambda: check_limits_are_whole_numbers(make),
            "limits_are_pure": lambda: check_limits_are_pure(make),
            "same_key_same_limits": lambda: check_same_key_same_limits(make),
            "admits_a_call": lambda: check_admits_a_call(make),
        },
    )


def check_has_a_name(make: Make) -> None:
    """It has a name, always the same."""
    scope = make()
    name = scope.name
    assert isinstance(name, str) and name, f"name is {name!r}"
    assert ":" not in name, f"name {name!r} holds a colon, which separates name and key"
    assert name == scope.name == make().name, "the name changes"


def check_nests_in_another(make: Make) -> None:
    """Its parent is None or the name of another scope, always the same."""
    scope = make()
    parent = scope.parent
    assert parent is None or (isinstance(parent, str) and parent), f"parent is {parent!r}"
    assert parent is None or parent != scope.name, "it nests in itself"
    assert parent == scope.parent == make().parent, "the parent changes"


def check_key_is_a_text(make: Make) -> None:
    """Every call belongs to an instance."""
    for tags in _calls():
        key = make().key(tags)
        assert isinstance(key, str) and key, f"key of {tags} is {key!r}"


def check_key_is_pure(make: Make) -> None:
    """The same call belongs to the same instance, whatever was asked before."""
    scope = make()
    first = [scope.key(tags) for tags in _calls()]
    again = [scope.key(tags) for tags in _calls()]
    assert first == again, f"keys change from {first} to {again}"
    assert first == [make().key(tags) for tags in _calls()], "another object has other keys"


def check_limits_are_whole_numbers(make: Make) -> None:
    """Limits are integers >= 0, or None for what is not bounded."""
    for tags in _calls():
        limits = make().limits(tags)
        assert isinstance(limits, Limits), f"limits are {limits!r}"
        for what, value in (("tokens", limits.tokens), ("ms", limits.ms)):
            assert value is None or (type(value) is int and value >= 0), f"limit of {what} is {value!r}"


def check_limits_are_pure(make: Make) -> None:
    """The same call has the same limits, whatever was asked before."""
    scope = make()
    first = [scope.limits(tags) for tags in _calls()]
    again = [scope.limits(tags) for tags in _calls()]
    assert first == again, f"limits change from {first} to {again}"


def check_same_key_same_limits(make: Make) -> None:
    """Calls of one episode and budget that share an instance agree on its limits."""
    seen: dict[str, Limits] = {}
    for tags in _calls():
        if tags.token_budget == TAGS.token_budget:
            scope = make()
            key, limits = scope.key(tags), scope.limits(tags)
            assert seen.setdefault(key, limits) == limits, f"instance {key!r} has {seen[key]} and {limits}"


def check_admits_a_call(make: Make) -> None:
    """With a budget of 10,000 tokens, something can be done: no limit is 0."""
    limits = make().limits(TAGS)
    assert limits.tokens != 0 and limits.ms != 0, f"{limits} admits nothing"


def _calls() -> Iterator[CallTags]:
    for episode in ("ep1", "ep2"):
        for role in ("planner", "coder", "runner", "critic", "summarizer", "stranger"):
            yield replace(TAGS, episode_id=episode, role=role, agent_id=f"{role}1")
    yield replace(TAGS, agent_id="coder2")
    yield replace(TAGS, run_id="run2", episode_id="ep9", token_budget=500)


def check_refills(new_ceiling: NewCeiling) -> None:
    """Run every check of scopes that share a ceiling, each on a ceiling of its own. Raises ConformanceError."""
    run_checks(
        KIND,
        {
            "leases_what_is_needed": lambda: check_leases_what_is_needed(new_ceiling),
            "answers_with_the_total": lambda: check_answers_with_the_total(new_ceiling),
            "all_or_nothing": lambda: check_all_or_nothing(new_ceiling),
            "two_holders_never_exceed": lambda: check_two_holders_never_exceed(new_ceiling),
            "instances_are_apart": lambda: check_instances_are_apart(new_ceiling),
            "hand_back_frees_the_rest": lambda: check_hand_back_frees_the_rest(new_ceiling),
            "hand_back_counts_once": lambda: check_hand_back_counts_once(new_ceiling),
            "overspending_counts_in_full": lambda: check_overspending_counts_in_full(new_ceiling),
            "the_dead_keep_their_tranche": lambda: check_the_dead_keep_their_tranche(new_ceiling),
            "room_is_what_is_free": lambda: check_room_is_what_is_free(new_ceiling),
        },
    )


def check_leases_what_is_needed(new_ceiling: NewCeiling) -> None:
    """What is asked for and free is leased."""
    _, holder, key, whole = _holders(new_ceiling)
    tranche = holder.refill(key, whole // 2)
    assert tranche.leased >= whole // 2, f"{whole // 2} of {whole} were needed, and {tranche} came"


def check_answers_with_the_total(new_ceiling: NewCeiling) -> None:
    """The answer is all that was leased so far, so that one which was lost does no harm."""
    _, holder, key, _ = _holders(new_ceiling)
    first, second = holder.refill(key, 2).leased, holder.refill(key, 2).leased
    assert second >= first + 2, f"after {first}, 2 more make {second}"


def check_all_or_nothing(new_ceiling: NewCeiling) -> None:
    """Of what is not free in whole, nothing is taken from those who need less."""
    _, holder, key, whole = _holders(new_ceiling)
    tranche = holder.refill(key, whole + 1)
    assert tranche.leased == 0, f"{whole + 1} were asked for, and {tranche} came"


def check_two_holders_never_exceed(new_ceiling: NewCeiling) -> None:
    """Two holders that draw in turns to the last token never hold more than the ceiling."""
    make, one, key, whole = _holders(new_ceiling)
    two = _refills(make())
    held, grown = {id(one): 0, id(two): 0}, True
    while grown:
        grown = False
        for holder in (one, two):
            leased = holder.refill(key, 1).leased
            grown |= leased > held[id(holder)]
            held[id(holder)] = max(leased, held[id(holder)])
            assert sum(held.values()) <= whole, f"{list(held.values())} exceed {whole}"


def check_instances_are_apart(new_ceiling: NewCeiling) -> None:
    """Another instance has a ceiling of its own."""
    make, holder, key, whole = _holders(new_ceiling)
    other = make().key(replace(TAGS, run_id="run2", episode_id="ep9"))
    if other != key:
        holder.refill(key, whole)
        assert _refills(make()).refill(other, whole).leased == whole, f"{key!r} takes from {other!r}"


def check_hand_back_frees_the_rest(new_ceiling: NewCeiling) -> None:
    """What was not spent can be leased again."""
    make, one, key, whole = _holders(new_ceiling)
    one.refill(key, whole // 2)
    one.hand_back(key, 4)
    tranche = _refills(make()).refill(key, whole - 4)
    assert tranche.leased == whole - 4, f"4 of {whole} were spent, and {tranche} came"


def check_hand_back_counts_once(new_ceiling: NewCeiling) -> None:
    """Handed back again, nothing more is free."""
    make, one, key, whole = _holders(new_ceiling)
    one.refill(key, whole // 4)
    two = _refills(make())
    two.refill(key, whole // 4)
    for _ in range(2):
        one.hand_back(key, 4)
    tranche = _refills(make()).refill(key, whole - whole // 4 - 3)
    assert tranche.leased == 0, f"a lease was freed twice: {tranche}"


def check_overspending_counts_in_full(new_ceiling: NewCeiling) -> None:
    """A holder that spent more than it had leased leaves so much less to the others."""
    make, one, key, whole = _holders(new_ceiling)
    leased = one.refill(key, 1).leased
    one.hand_back(key, leased + 5)
    tranche = _refills(make()).refill(key, whole - leased - 4)
    assert tranche.leased == 0, f"{leased + 5} of {whole} were spent, and {tranche} came"


def check_the_dead_keep_their_tranche(new_ceiling: NewCeiling) -> None:
    """What a holder leased that was never heard of again counts as spent."""
    make, one, key, whole = _holders(new_ceiling)
    leased = one.refill(key, 10).leased
    del one
    gc.collect()
    tranche = _refills(make()).refill(key, whole - leased + 1)
    assert tranche.leased == 0, f"{leased} of {whole} were leased, and {tranche} came"


def check_room_is_what_is_free(new_ceiling: NewCeiling) -> None:
    """Where it tells what is free, nothing is leased for the answer, and so much can be had."""
    make, one, key, whole = _holders(new_ceiling)
    if not isinstance(one, TellsRoom):
        return
    assert one.room(key).tokens == whole == one.room(key).tokens, f"nothing of {whole} was leased: {one.room(key)}"
    leased = one.refill(key, whole // 4).leased
    room = one.room(key).tokens
    assert room == whole - leased, f"{leased} of {whole} were leased, and {room} should be free"
    tranche = _refills(make()).refill(key, room)
    assert tranche.leased == room, f"{room} should have been free, and {tranche} came"


def _holders(new_ceiling: NewCeiling) -> tuple[Make, Refills, str, int]:
    """What makes holders, a first one, the key of an instance, and its ceiling."""
    make = new_ceiling()
    scope = make()
    whole = scope.limits(TAGS).tokens
    assert whole is not None and whole >= 100, f"a shared ceiling of {whole} tokens cannot be checked"
    return make, _refills(scope), scope.key(TAGS), whole


def _refills(scope: BudgetScope) -> Refills:
    assert isinstance(scope, Refills), f"{type(scope).__name__} has not all of check, refill and hand_back"
    scope.check()
    return scope
