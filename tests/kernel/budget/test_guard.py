"""The guard: one margin, reasons per scope, closed when in doubt."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apex_budgets.episode import EpisodeScope
from apex_budgets.role import CEILINGS, RoleScope
from apex_framework.budget import Estimate, Grant, Guard, Ledger, estimate
from apex_framework.errors import BackendError, ConfigError
from apex_framework.interfaces import CallTags, Denied, Limits, LLMRequest
from apex_framework.testing.scripted import ManualClock, ScriptedBackend, rule_of_four

TAGS = CallTags("run1", "ep1", "coder1", "coder", 10_000)


def guard(*scopes, safety=1.0, clock=None) -> Guard:
    return Guard(Ledger(), scopes or (EpisodeScope(),), safety=safety, clock=clock or ManualClock())


def granted(answer) -> Grant:
    assert isinstance(answer, Grant), answer
    return answer


@pytest.mark.parametrize(
    ("safety", "used", "prompt", "output", "allowed"),
    [
        (1.0, 9_000, 800, 200, True),
        (1.0, 9_000, 801, 200, False),
        (1.2, 8_800, 1_000, 0, True),
        (1.2, 8_801, 1_000, 0, False),
        (1.2, 8_600, 1_000, 200, True),
        (1.2, 8_601, 1_000, 200, False),
    ],
)
def test_i4_allows_iff_it_fits(safety, used, prompt, output, allowed):
    g = guard(safety=safety)
    g.settle(granted(g.reserve(TAGS, 0, max_tokens=used)).id, used)
    assert isinstance(g.reserve(TAGS, prompt, max_tokens=output), Grant) is allowed


@given(prompt=st.integers(0, 10**6), output=st.integers(0, 10**6), percent=st.integers(100, 300))
def test_margin_is_applied_once_and_to_the_estimate_only(prompt, output, percent):
    g = guard(safety=percent / 100)
    tags = replace(TAGS, token_budget=10**9)
    grant = granted(g.reserve(tags, prompt, max_tokens=output))
    assert grant.tokens == -(-percent * prompt // 100) + output and grant.max_tokens == output


def test_specified_names():
    g = guard(RoleScope(), EpisodeScope(), safety=1.2)
    allowed, reservation_id, reasons = g.check_and_reserve(TAGS, 5_000, 0)
    assert allowed and reservation_id and reasons == {}
    assert g.check_and_reserve(TAGS, 1, 0) == (False, None, {"role": "tok_headroom"})
    g.settle(reservation_id, 100, 0)
    assert g.check_and_reserve(TAGS, 1, 0)[0]


def test_denial_names_every_scope_that_refuses_and_what_is_left():
    g = guard(EpisodeScope(ms=1_000), RoleScope())
    assert g.reserve(TAGS, 6_500, 2_000) == Denied(
        {"episode": "ms_headroom", "role": "tok_headroom"}, {"episode": 10_000, "role": 6_000}, 6_500
    )


@pytest.mark.parametrize("role", [*CEILINGS, "solo", "PLANNER"])
def test_role_ceilings_lie_within_the_episode(role):
    g = guard(RoleScope(), EpisodeScope())
    tags = replace(TAGS, role=role)
    assert g.remaining(tags) == {"episode": 10_000, "role": CEILINGS.get(role.lower(), 10_000)}
    assert isinstance(g.reserve(tags, CEILINGS.get(role.lower(), 10_000) + 1), Denied)
    assert isinstance(g.reserve(tags, CEILINGS.get(role.lower(), 10_000)), Grant)


def test_ceilings_are_no_shares():
    g = guard(RoleScope(), EpisodeScope())
    for role in ("coder", "planner"):
        granted(g.reserve(replace(TAGS, role=role), CEILINGS[role]))
    denied = g.reserve(replace(TAGS, role="runner"), 1_001)
    assert isinstance(denied, Denied) and denied.reasons == {"episode": "tok_headroom"}


def test_ceilings_can_be_set():
    assert RoleScope({"Coder": 10}).limits(TAGS) == Limits(10)
    with pytest.raises(ConfigError, match="'coder'"):
        RoleScope({"coder": -1})


def test_roles_of_another_episode_have_their_own_budget():
    g = guard(RoleScope(), EpisodeScope())
    granted(g.reserve(TAGS, 6_000))
    granted(g.reserve(replace(TAGS, episode_id="ep2"), 6_000))


def test_headroom_and_remaining_before_and_after():
    g = guard(RoleScope(), EpisodeScope())
    assert g.headroom(TAGS) == {"episode": 1.0, "role": 1.0}
    g.settle(granted(g.reserve(TAGS, 3_000)).id, 1_500)
    granted(g.reserve(TAGS, 1_500))
    assert g.headroom(TAGS) == {"episode": 0.7, "role": 0.5}
    assert g.remaining(TAGS) == {"episode": 7_000, "role": 3_000}
    assert g.headroom(replace(TAGS, episode_id="none", token_budget=0)) == {"episode": 0.0, "role": 1.0}


def test_reservations_expire_by_the_guards_clock_unless_renewed():
    clock = ManualClock()
    g = guard(clock=clock)
    kept, left = granted(g.reserve(TAGS, 100)), granted(g.reserve(TAGS, 50))
    clock.advance(6.0)
    assert g.renew(kept.id)
    clock.advance(6.0)
    assert g.renew(kept.id) and not g.renew(left.id)
    assert (g.ledger.used("episode:ep1"), g.ledger.reserved("episode:ep1")) == (50, 100)


FIVE = Limits(5)


class Odd(EpisodeScope):
    """A scope of a stranger."""

    name = "odd"

    def __init__(self, key="k", limits=FIVE):
        super().__init__()
        self.answers = key, limits

    def key(self, tags):
        return self._say(self.answers[0])

    def limits(self, tags):
        return self._say(self.answers[1])

    @staticmethod
    def _say(answer):
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.mark.parametrize(
    "odd",
    [
        Odd(key=KeyError("role")),
        Odd(limits=ValueError("no")),
        Odd(key=""),
        Odd(key=7),
        Odd(key=[]),
        Odd(limits=None),
        Odd(limits=5_000),
        Odd(limits=Limits(-1)),
        Odd(limits=Limits(1.5)),
        Odd(limits=Limits(None, True)),
    ],
)
def test_a_broken_scope_denies(odd):
    g = guard(odd, EpisodeScope())
    denied = g.reserve(TAGS, 1)
    assert isinstance(denied, Denied) and denied.reasons == {"odd": "policy:scope_error"}
    assert denied.remaining == {"odd": 0, "episode": 10_000}
    assert g.headroom(TAGS)["odd"] == 0.0
    assert g.ledger.entries == ()


def test_a_scope_is_asked_for_its_limits_once():
    odd = Odd()
    g = guard(odd)
    granted(g.reserve(TAGS, 5))
    odd.answers = "k", Limits(10**6)
    assert isinstance(g.reserve(TAGS, 1), Denied)


def test_a_child_follows_its_parent_into_a_new_day():
    day = Odd(key="monday", limits=Limits(100))
    day.name = "day"
    child = EpisodeScope()
    child.parent = "day"
    g = guard(child, day)
    granted(g.reserve(TAGS, 90))
    day.answers = "tuesday", Limits(100)
    granted(g.reserve(TAGS, 90))
    assert g.ledger.reserved("episode:ep1") == 180 and g.ledger.reserved("day:tuesday") == 90


def test_impossible_settings_are_named():
    with pytest.raises(ConfigError, match="needs its parent 'episode'"):
        guard(RoleScope())
    with pytest.raises(ConfigError, match="twice"):
        guard(EpisodeScope(), EpisodeScope())
    with pytest.raises(ConfigError, match="safety"):
        guard(safety=0.9)
    one, two = Odd(), Odd()
    one.name, one.parent, two.name, two.parent = "one", "two", "two", "one"
    with pytest.raises(ConfigError, match="nest in each other"):
        guard(one, two)
    assert guard(RoleScope(), EpisodeScope()).scopes == ("episode", "role")


def test_estimate_is_the_backends_own_count_and_the_whole_allowance():
    backend = ScriptedBackend()
    request = LLMRequest("prompt", 50, system="system ")
    assert estimate(backend, request) == Estimate(rule_of_four("system prompt"), 50)
    assert estimate(backend, request).total == rule_of_four("system prompt") + 50


@pytest.mark.parametrize("answer", [-1, 1.5, None, True])
def test_a_backend_that_cannot_count_is_a_failed_backend(answer):
    class Wrong(ScriptedBackend):
        def count_tokens(self, text):
            return answer

    with pytest.raises(BackendError, match="count_tokens answered"):
        estimate(Wrong(), LLMRequest("p", 1))
