"""Conformance kit of budget scopes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from ..interfaces.budget import BudgetScope, CallTags, Limits
from .conformance import run_checks

KIND: Final = "budget_scope"
TAGS: Final = CallTags("run1", "ep1", "coder1", "coder", 10_000)

Make = Callable[[], BudgetScope]


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
