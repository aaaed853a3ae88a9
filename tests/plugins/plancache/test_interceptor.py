"""The interceptor: a hit only for equal key and equal question; nothing that is not whole is ever kept."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prompts_of_a_team import ANSWER, ISSUE, KEY, SPANS, Door, locate, review

import apex_plancache.interceptor as module
from apex_framework.errors import ConfigError
from apex_framework.interfaces import Denied, LLMRequest, LLMResult, LLMStatus, PlanKey
from apex_framework.interfaces.prompting import Kind, Section
from apex_framework.testing.interceptor import check_interceptor
from apex_framework.testing.scripted import ManualClock
from apex_plancache.interceptor import PlanCacheInterceptor
from apex_plancache.question import Asked, asked
from apex_plancache.settings import CacheSettings, settings_of


def test_it_passes_the_kit() -> None:
    check_interceptor(PlanCacheInterceptor)


def test_a_second_look_takes_the_steps_that_are_left_and_makes_no_call() -> None:
    door = Door(PlanCacheInterceptor(clock=ManualClock()))
    first = door.ask(locate())
    assert first.text == ANSWER
    left = ["b.py::Till.open", "b.py::Till.close"]
    again = door.ask(locate(Section(Kind.NOTE, "No progress in: a.py::pay, a.py::cart", "stuck"), offered=left))
    assert again == LLMResult("FOCUS b.py::Till.open | near", 0, 0)
    assert len(door.calls) == 1
    assert door.told == ["miss", "put", "hit"]


def test_without_a_step_that_is_left_the_model_is_asked_and_its_plan_replaces_the_old_one() -> None:
    door = Door(PlanCacheInterceptor(clock=ManualClock()))
    door.ask(locate())
    door.answer = {"planner": "FOCUS b.py::Till.close | what is left"}
    assert door.ask(locate(offered=["b.py::Till.close"])).text == "FOCUS b.py::Till.close | what is left"
    assert door.ask(locate()).text == "FOCUS b.py::Till.close | what is left"
    assert len(door.calls) == 2


@pytest.mark.parametrize(
    "news",
    [
        Section(Kind.SUSPICIOUS, "b.py:12 1.00"),
        Section(Kind.CAUSE, "b.py:3 | it opens twice"),
        Section(Kind.TRIED, "b.py:12 | a | b | pass 1/2"),
        Section(Kind.FOCUS, "b.py::Till.close | look"),
        Section(Kind.SUMMARY, "ruled out b.py::Till.close"),
        Section(Kind.FAILING, '  File "repo/b.py", line 11, in other\nTypeError', "tests/t.py::T.test_1"),
        Section(Kind.FAILING, "AssertionError: close() gave None", "tests/t.py::T.test_1"),
        Section(Kind.NOTE, "perhaps Till.close is wrong"),
    ],
)
def test_news_of_a_function_on_offer_is_another_question(news: Section) -> None:
    door = Door(PlanCacheInterceptor(clock=ManualClock()))
    door.ask(locate())
    left = ["b.py::Till.open", "b.py::Till.close"]
    door.ask(locate(news, offered=left))
    assert len(door.calls) == 2
    door.ask(locate(news, offered=left))
    assert len(door.calls) == 2, "the same news twice is the same question"


@pytest.mark.parametrize(
    "news",
    [
        Section(Kind.SUSPICIOUS, "a.py:3 1.00\na.py:12 0.70"),
        Section(Kind.TRIED, "a.py:3 | x | y | pass 1/2"),
        Section(Kind.FAILING, '  File "repo/a.py", line 3, in pay\nTypeError', "tests/t.py::T.test_1"),
    ],
)
def test_news_of_functions_that_are_gone_changes_nothing(news: Section) -> None:
    door = Door(PlanCacheInterceptor(clock=ManualClock()))
    door.ask(locate())
    door.ask(locate(news, offered=["b.py::Till.open", "b.py::Till.close"]))
    assert len(door.calls) == 1


def test_matched_by_key_alone_news_do_not_matter_but_issue_and_draft_do() -> None:
    door = Door(PlanCacheInterceptor(CacheSettings(match="key"), clock=ManualClock()))
    door.ask(locate())
    door.ask(locate(Section(Kind.SUSPICIOUS, "b.py:3 1.00")))
    assert len(door.calls) == 1
    door.ask(locate(issue="Another issue"))
    door.ask(review("+ a"), "critic")
    door.ask(review("+ b"), "critic")
    assert len(door.calls) == 4


def test_a_verdict_is_served_for_the_same_draft_only() -> None:
    door = Door(PlanCacheInterceptor(clock=ManualClock()))
    door.ask(review("+ a"), "critic")
    assert door.ask(review("+ a", Section(Kind.TRIED, "a.py:1 | x | y | pass 1/2")), "critic").text.startswith(
        "VERDICT"
    )
    assert len(door.calls) == 1
    door.ask(review("+ b"), "critic")
    door.ask(review("+ a", Section(Kind.NOTE, "A second run does not pass.", "regression")), "critic")
    door.ask(review("+ a", Section(Kind.FAILING, "TypeError", "t")), "critic")
    assert len(door.calls) == 4


@pytest.mark.parametrize(("later", "calls"), [("planning", 1), ("implementation", 1), ("debug", 1), ("elsewhere", 2)])
def test_a_plan_serves_its_phase_and_later_ones(later: str, calls: int) -> None:
    door = Door(PlanCacheInterceptor(clock=ManualClock()))
    door.ask(locate())
    door.ask(locate(), key=replace(KEY, phase=later))
    assert len(door.calls) == calls


def test_a_plan_does_not_serve_an_earlier_phase() -> None:
    door = Door(PlanCacheInterceptor(clock=ManualClock()))
    door.ask(locate(), key=replace(KEY, phase="debug"))
    door.ask(locate(), key=replace(KEY, phase="implementation"))
    door.ask(locate())
    assert len(door.calls) == 3


def test_a_plan_ends_with_its_time() -> None:
    clock = ManualClock()
    door = Door(PlanCacheInterceptor(CacheSettings(ttl_s=60.0), clock=clock))
    door.ask(locate())
    clock.advance(59.9)
    door.ask(locate())
    assert len(door.calls) == 1
    clock.advance(0.1)
    door.ask(locate())
    assert len(door.calls) == 2


@pytest.mark.parametrize(
    "answer",
    [
        Denied({"episode": "tok_headroom"}, {"episode": 1}, 100),
        LLMResult(ANSWER, 1, 1, LLMStatus.LENGTH),
        LLMResult(ANSWER, 1, 1, LLMStatus.ERROR, "broken"),
        LLMResult(ANSWER, 1, 1, LLMStatus.TIMEOUT),
        LLMResult(ANSWER, 1, 1, LLMStatus.CANCELLED),
        LLMResult(ANSWER, 1, 1, failure="truncated"),
        LLMResult(ANSWER, 1, 1, error="half of it"),
        LLMResult("", 1, 1),
        LLMResult("There is no map of functions that I can read.", 1, 1),
        LLMResult("FOCUS nowhere.py::nothing | a guess", 1, 1),
    ],
    ids=lambda answer: str(getattr(answer, "status", "denied")),
)
def test_what_is_no_whole_answer_is_never_kept(answer: LLMResult | Denied) -> None:
    door = Door(PlanCacheInterceptor(clock=ManualClock()), answer)
    assert door.ask(locate()) == answer
    assert door.ask(locate()) == answer
    assert len(door.calls) == 2 and door.told == ["miss", "miss"]


@pytest.mark.parametrize("text", ["VERDICT maybe | hm", "accept", "VERDICT accept | a\nVERDICT reject | b"])
def test_a_verdict_that_is_none_is_never_kept(text: str) -> None:
    door = Door(PlanCacheInterceptor(clock=ManualClock()), LLMResult(text, 1, 1))
    door.ask(review("+ a"), "critic")
    door.ask(review("+ a"), "critic")
    assert len(door.calls) == 2


def test_lines_that_are_no_steps_are_left_out_of_a_plan() -> None:
    door = Door(PlanCacheInterceptor(clock=ManualClock()), {"planner": f"I think:\n{ANSWER}\nFOCUS x.py::none"})
    door.ask(locate())
    assert door.ask(locate()).text == ANSWER


@pytest.mark.parametrize(
    ("request_", "role", "key"),
    [
        (locate(), "coder", KEY),
        (locate(), "planner", None),
        (locate(), "critic", KEY),
        (locate(temperature=0.7), "planner", KEY),
        (locate(offered=[]), "planner", KEY),
        (LLMRequest("Where is it?", 50), "planner", KEY),
        (review("+ a"), "planner", KEY),
    ],
)
def test_other_calls_pass_untouched(request_: LLMRequest, role: str, key: PlanKey | None) -> None:
    door = Door(PlanCacheInterceptor(clock=ManualClock()), LLMResult(ANSWER, 3, 4))
    assert door.ask(request_, role, key) == door.ask(request_, role, key) == LLMResult(ANSWER, 3, 4)
    assert door.calls == [request_, request_] and door.told == []


# --- the property, and a bug that breaks it -------------------------------------------------


keys = st.builds(
    PlanKey,
    st.sampled_from(["shop", "bank"]),
    st.sampled_from(["error:typeerror", "vague:none"]),
    st.sampled_from(["planning", "debug"]),
)
evidence = st.sampled_from(
    [
        Section(Kind.SUSPICIOUS, "a.py:3 1.00"),
        Section(Kind.SUSPICIOUS, "b.py:12 1.00"),
        Section(Kind.CAUSE, "a.py:12 | x"),
        Section(Kind.FAILING, "cart() gave 1", "t"),
    ]
)
calls = st.tuples(
    keys,
    st.sampled_from([ISSUE, "Another issue"]),
    st.lists(evidence, max_size=2, unique_by=lambda s: (s.kind, s.body)),
    st.sets(st.sampled_from(sorted(SPANS)), min_size=1),
    st.sampled_from([100, 120]),
)


def bearing(sections: list[Section], offered: set[str]) -> set[tuple[str, str]]:
    """What of the evidence above is about a function on offer, worked out by hand."""
    about = {"a.py:3 1.00": "a.py::pay", "b.py:12 1.00": "b.py::Till.close", "a.py:12 | x": "a.py::cart"}
    return {(s.kind.value, s.body) for s in sections if about.get(s.body, "a.py::cart") in offered}


def served_right(history: list[tuple[PlanKey, str, list[Section], set[str], int]]) -> None:
    """Every hit repeats steps of an answer to an equal question of the same or an earlier phase, all on offer."""
    door = Door(PlanCacheInterceptor(clock=ManualClock()))
    answered: list[tuple[object, list[str]]] = []
    for number, (key, issue, news, offered, most) in enumerate(history):
        door.answer = {"planner": "\n".join(f"FOCUS {name} | answer {number}" for name in sorted(offered))}
        before = len(door.calls)
        request = locate(*news, issue=issue, offered=sorted(offered), max_tokens=most)
        steps = door.ask(request, key=key).text.splitlines()
        question = (key.repo_id, key.issue_cluster, issue, frozenset(bearing(news, offered)), most)
        if len(door.calls) > before:
            answered += [((question, phase), steps) for phase in {key.phase, "debug"}]
            continue
        assert steps and all(step.split(" | ")[0][len("FOCUS ") :] in offered for step in steps)
        same = [old for asked_, old in answered if asked_ == (question, key.phase)]
        assert same and set(steps) <= set(same[-1]), "served what was answered to another question"


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=80)
@given(st.lists(calls, max_size=8))
def test_a_hit_is_served_only_for_an_equal_key_and_an_equal_question(
    history: list[tuple[PlanKey, str, list[Section], set[str], int]],
) -> None:
    served_right(history)


@pytest.mark.parametrize("forgotten", ["key", "news", "issue"])
def test_a_planted_cache_that_forgets_a_part_is_caught(forgotten: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = (KEY, ISSUE, [], set(SPANS), 120)
    other = {
        "key": (replace(KEY, repo_id="bank"), ISSUE, [], set(SPANS), 120),
        "news": (KEY, ISSUE, [Section(Kind.SUSPICIOUS, "b.py:12 1.00")], set(SPANS), 120),
        "issue": (KEY, "Another issue", [], set(SPANS), 120),
    }[forgotten]

    def forgetful(request: LLMRequest, role: str, key: PlanKey, match: str = "evidence") -> Asked | None:
        found = asked(request, role, KEY if forgotten == "key" else key, "key" if forgotten == "news" else match)
        if found is None or forgotten != "issue":
            return found
        return replace(found, question=replace(found.question, digest="always"))

    served_right([first, other])
    monkeypatch.setattr(module, "asked", forgetful)
    with pytest.raises(AssertionError, match="another question"):
        served_right([first, other])


# --- settings -------------------------------------------------------------------------------


def test_settings_are_read() -> None:
    assert settings_of("") == CacheSettings()
    assert settings_of("match=key; capacity=2;ttl_s=0.5;") == CacheSettings("key", 2, 0.5)


@pytest.mark.parametrize(
    "spec",
    [
        *(
            "x",
            "match=",
            "match=loose",
            "match=key;match=key",
            "colour=red",
            "fitted=a.json",
            "fitted=a.json;suite=abc",
        ),
        *("capacity=0", "capacity=x", f"capacity={'9' * 5000}", "ttl_s=x", "ttl_s=nan", "ttl_s=-1"),
    ],
)
def test_wrong_settings_are_refused_in_one_line(spec: str) -> None:
    with pytest.raises(ConfigError, match=r"^plan_cache: [^\n]*$") as caught:
        settings_of(spec)
    assert caught.value.remedy
