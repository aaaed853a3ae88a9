"""Every role: its model's answer changes what it sends; without a usable answer it takes the next scripted action."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from desk import ADD, BAD, DENIED, FAILED, GOOD, HALF, WRONG, Desk, message

from apex_agents import speech
from apex_agents.coder import Coder
from apex_agents.critic import MOST_REJECTIONS, Critic
from apex_agents.manager import MESSAGES_PER_BRIEFING, Employee, Manager
from apex_agents.planner import Planner
from apex_agents.runner import Runner
from apex_agents.solo import Solo
from apex_agents.summarizer import RESULTS_PER_SUMMARY, Summarizer
from apex_framework.interfaces import Agent, AgentID, Message, MessagePriority
from apex_framework.interfaces.prompting import Ask, Kind, Section, parse_prompt

UNUSABLE: dict[str, Any] = {"malformed": "I do not know.", "denied": DENIED, "failed": FAILED}

SUSPECT = Section(Kind.SUSPICIOUS, "app.py:2 1.00")


def handle(agent: Agent, desk: Desk, *messages: Message) -> Desk:
    async def work() -> None:
        for each in messages:
            await agent.handle(each, desk)

    asyncio.run(work())
    return desk


def planner() -> Planner:
    return Planner(AgentID("planner"), "add(1, 2) gives -1")


def coder() -> Coder:
    return Coder(AgentID("coder"), "runner", 8)


TASK = message(speech.TASK, sender="user")
FAILURES = message(speech.FAILURES, SUSPECT, sender="runner")
PASSING = message(
    speech.PASSING,
    Section(Kind.DIFF, GOOD),
    Section(Kind.PASSING, "t0\nt1"),
    sender="runner",
    candidate=GOOD,
    coder="coder",
    reviewed=True,
)


# --- planner ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [ADD, HALF])
def test_the_planner_points_where_its_model_says(name: str) -> None:
    desk = handle(planner(), Desk({Ask.LOCATE: [f"FOCUS {name} | looks odd"]}), TASK)
    assert desk.said() == [("coder+runner", speech.FOCUS)] and desk.text() == f"{name} | looks odd"


@pytest.mark.parametrize("answer", UNUSABLE.values(), ids=UNUSABLE)
def test_the_planner_without_an_answer_goes_by_the_words_of_the_issue(answer: Any) -> None:
    desk = handle(planner(), Desk({Ask.LOCATE: [answer]}), TASK)
    assert desk.text().splitlines()[0] == ADD and len(desk.prompts) == (2 if isinstance(answer, str) else 1)


def test_a_malformed_answer_is_repaired_once() -> None:
    desk = handle(planner(), Desk({Ask.LOCATE: ["nonsense", f"FOCUS {HALF}"]}), TASK)
    assert len(desk.prompts) == 2 and "malformed" in desk.prompts[1] and "malformed" not in desk.prompts[0]
    assert desk.text() == HALF


def test_the_planner_answers_a_dead_end_to_who_is_stuck_and_ends_when_nothing_is_left() -> None:
    desk = Desk({Ask.LOCATE: [f"FOCUS {ADD}", f"FOCUS {HALF}"]})
    stuck = message(speech.STUCK, Section(Kind.NOTE, "No progress", "stuck"), sender="coder2", looked_at=[ADD])
    handle(boss := planner(), desk, TASK, stuck)
    assert desk.said()[-1] == ("coder2", speech.FOCUS) and desk.text() == HALF
    assert ADD not in "\n".join(s.body for s in parse_prompt(desk.prompts[1]).of(Kind.MAP))
    handle(boss, desk, message(speech.STUCK, sender="coder2", looked_at=[HALF]))
    assert desk.finished == "nothing left to look at"


# --- runner -----------------------------------------------------------------------------------


def test_the_runner_reports_failures_with_the_diagnosed_lines_first() -> None:
    runner = Runner(AgentID("runner"), "critic", "summarizer")
    desk = handle(runner, Desk({Ask.DIAGNOSE: ["CAUSE app.py:6 | halves"]}), message(speech.FOCUS))
    assert desk.said() == [("coder", speech.FAILURES)]
    suspicious = next(body for kind, _, body in desk.sent[0][1]["sections"] if kind == "SUSPICIOUS")
    assert suspicious.splitlines() == ["app.py:6 1.00", "app.py:2 1.00"]


@pytest.mark.parametrize("answer", UNUSABLE.values(), ids=UNUSABLE)
def test_the_runner_without_a_diagnosis_sends_the_bare_facts(answer: Any) -> None:
    runner = Runner(AgentID("runner"))
    desk = handle(runner, Desk({Ask.DIAGNOSE: [answer]}), message(speech.FOCUS))
    assert desk.said() == [("coder", speech.FAILURES)]
    assert "app.py:2 1.00" in desk.text() and "AssertionError" in desk.text() and "app.py:6" not in desk.text()


def candidates(text: str) -> Message:
    return message(speech.CANDIDATES, Section(Kind.NOTE, text, "candidates"), sender="coder2")


def runner_at_work(critic: str = "critic", summarizer: str = "summarizer") -> tuple[Runner, Desk]:
    runner, desk = Runner(AgentID("runner"), critic, summarizer), Desk({Ask.DIAGNOSE: ["CAUSE app.py:2 | minus"]})
    handle(runner, desk, message(speech.FOCUS))
    return runner, desk


def test_the_runner_tries_candidates_without_touching_the_workspace_and_answers_who_asked() -> None:
    runner, desk = runner_at_work()
    handle(runner, desk, candidates(BAD))
    assert desk.said()[-1] == ("coder2+summarizer", speech.RESULTS)
    assert desk.text().splitlines()[0] == "app.py:2 | return a - b | return a * b | pass 1/2"
    assert "a - b" in desk.files["app.py"]


def test_the_runner_stops_at_the_first_candidate_that_passes_and_asks_the_critic() -> None:
    runner, desk = runner_at_work()
    handle(runner, desk, candidates(f"{BAD}\n{GOOD}\n{WRONG}"))
    assert desk.said()[-1] == ("coder2+critic", speech.PASSING)
    payload = desk.sent[-1][1]
    assert payload["coder"] == "coder2" and payload["reviewed"] and "a + b" in payload["candidate"]
    assert "a // b" not in desk.text()
    alone, desk = runner_at_work("", "")
    handle(alone, desk, candidates(GOOD))
    assert desk.said()[-1] == ("coder2", speech.PASSING) and not desk.sent[-1][1]["reviewed"]


def test_the_runner_survives_candidates_that_are_none_or_do_not_apply() -> None:
    runner, desk = runner_at_work()
    handle(runner, desk, candidates("no candidates"), candidates(GOOD.replace("a - b", "c - d")))
    assert [kind for _, kind in desk.said()[-2:]] == [speech.RESULTS] * 2
    assert "not run: E_ARG" in desk.text()


# --- coder ------------------------------------------------------------------------------------


def test_the_coder_sends_the_candidates_of_its_model_and_shows_it_the_suspicious_function() -> None:
    desk = handle(coder(), Desk({Ask.REPAIR: [GOOD]}), FAILURES)
    assert desk.said() == [("runner", speech.CANDIDATES)] and "return a + b" in desk.text()
    shown = parse_prompt(desk.prompts[0])
    assert [s.label for s in shown.of(Kind.FUNCTION)] == ["app.py:1 add"] and shown.candidates == 8


def test_a_focus_waits_for_the_failures() -> None:
    desk = Desk({Ask.REPAIR: [GOOD]})
    focus = message(speech.FOCUS, Section(Kind.FOCUS, f"{HALF} | odd"))
    handle(worker := coder(), desk, focus)
    assert desk.sent == [] and desk.prompts == []
    handle(worker, desk, message(speech.FAILURES, sender="runner"))
    assert "half" in desk.prompts[0] and desk.said() == [("runner", speech.CANDIDATES)]


def test_a_denied_repair_leads_to_a_cheaper_one() -> None:
    desk = handle(coder(), Desk({Ask.REPAIR: [DENIED, GOOD]}), FAILURES)
    assert [parse_prompt(p).candidates for p in desk.prompts] == [8, 1]
    assert desk.said() == [("runner", speech.CANDIDATES)]


@pytest.mark.parametrize("answer", UNUSABLE.values(), ids=UNUSABLE)
def test_a_coder_without_any_answer_gives_up_in_order(answer: Any) -> None:
    desk = handle(coder(), Desk({Ask.REPAIR: [answer]}), FAILURES)
    assert desk.sent == [] and desk.finished == "no budget for another repair"


def test_what_was_tried_is_not_sent_again_and_without_anything_new_the_coder_asks_for_help() -> None:
    desk = Desk({Ask.REPAIR: [BAD, BAD, BAD]})
    tried = Section(Kind.TRIED, "app.py:2 | return a - b | return a * b | pass 1/2")
    handle(coder(), desk, FAILURES, message(speech.RESULTS, tried, sender="runner", improved=False))
    assert desk.said()[-1] == ("planner", speech.STUCK) and desk.sent[-1][1]["looked_at"] == [ADD]
    assert sum(kind == speech.CANDIDATES for _, kind in desk.said()) == 1


def test_a_change_that_passes_is_applied_and_without_a_critic_that_is_the_end() -> None:
    desk = handle(coder(), Desk(), PASSING)
    assert "a + b" in desk.files["app.py"] and not desk.finished
    unreviewed = message(speech.PASSING, sender="runner", candidate=GOOD, coder="coder", reviewed=False)
    assert handle(coder(), Desk(), unreviewed).finished == "visible tests pass"


def test_an_accepted_change_stays() -> None:
    desk = handle(coder(), Desk(), PASSING, message(speech.ACCEPT, sender="critic", candidate=GOOD))
    assert desk.finished == "change accepted" and "a + b" in desk.files["app.py"]
    assert desk.used.count("fs.patch") == 1


def test_a_rejected_change_is_undone_and_work_goes_on() -> None:
    desk = Desk({Ask.REPAIR: [BAD]})
    reject = message(speech.REJECT, Section(Kind.NOTE, "only pleases the tests", "review"), sender="critic")
    handle(coder(), desk, FAILURES, PASSING, reject)
    assert "a - b" in desk.files["app.py"] and not desk.finished
    assert desk.said()[-1] in [("runner", speech.CANDIDATES), ("planner", speech.STUCK)]


def test_a_verdict_that_overtakes_its_change_still_applies_it() -> None:
    desk = handle(coder(), Desk(), message(speech.ACCEPT, sender="critic", candidate=GOOD))
    assert "a + b" in desk.files["app.py"] and desk.finished == "change accepted"


# --- critic -----------------------------------------------------------------------------------


def test_the_critic_accepts_or_rejects_as_its_model_says() -> None:
    accepted = handle(Critic(AgentID("critic")), Desk({Ask.REVIEW: ["VERDICT accept | fine"]}), PASSING)
    assert accepted.said() == [("coder", speech.ACCEPT)] and accepted.sent[0][2] is MessagePriority.FINAL
    rejected = handle(Critic(AgentID("critic")), Desk({Ask.REVIEW: ["VERDICT reject | a special case"]}), PASSING)
    assert rejected.said() == [("coder", speech.REJECT)] and rejected.text() == "a special case"


@pytest.mark.parametrize("answer", [*UNUSABLE.values(), "VERDICT perhaps | hm"], ids=[*UNUSABLE, "neither"])
def test_the_critic_without_a_verdict_goes_by_its_own_run(answer: Any) -> None:
    desk = handle(Critic(AgentID("critic")), Desk({Ask.REVIEW: [answer]}), PASSING)
    assert desk.said() == [("coder", speech.ACCEPT)]
    flaky = Desk({Ask.REVIEW: [answer]}, passes=lambda source: (True, False))
    assert handle(Critic(AgentID("critic")), flaky, PASSING).said() == [("coder", speech.REJECT)]


def test_the_critic_does_not_reject_for_ever() -> None:
    desk = Desk({Ask.REVIEW: ["VERDICT reject | no"]})
    handle(Critic(AgentID("critic")), desk, *[PASSING] * (MOST_REJECTIONS + 1))
    assert [kind for _, kind in desk.said()] == [speech.REJECT] * MOST_REJECTIONS + [speech.ACCEPT]


# --- summarizer, manager, single agent ----------------------------------------------------------


def results(number: int) -> Message:
    return message(speech.RESULTS, Section(Kind.TRIED, f"app.py:2 | x | {number} | pass 1/2"), sender="runner")


def test_the_summarizer_sums_up_after_a_few_fruitless_results() -> None:
    desk = Desk({Ask.SUMMARIZE: ["SUMMARY app.py:2 | is worn out"]})
    summarizer = Summarizer(AgentID("summarizer"))
    handle(summarizer, desk, *[results(n) for n in range(RESULTS_PER_SUMMARY - 1)])
    assert desk.sent == []
    handle(summarizer, desk, results(99))
    assert desk.said() == [("planner", speech.SUMMARY)] and desk.text() == "app.py:2 | is worn out"


@pytest.mark.parametrize("answer", UNUSABLE.values(), ids=UNUSABLE)
def test_the_summarizer_without_an_answer_keeps_silent(answer: Any) -> None:
    desk = Desk({Ask.SUMMARIZE: [answer]})
    handle(Summarizer(AgentID("summarizer")), desk, *[results(n) for n in range(RESULTS_PER_SUMMARY)])
    assert desk.sent == []


def test_the_manager_passes_every_message_on_and_the_author_stays_known() -> None:
    desk = Desk({Ask.SUMMARIZE: ["SUMMARY nothing works"]})
    manager, worker = Manager(AgentID("manager")), Employee(planner(), "manager")
    office = handle(worker, Desk({Ask.LOCATE: [f"FOCUS {ADD}"]}), TASK)
    assert [audience for audience, _ in office.said()] == ["manager"]
    letter = Message("e", "m", AgentID("planner"), AgentID("manager"), TASK.topo_epoch, office.sent[0][1])
    handle(manager, desk, letter)
    assert desk.said() == [("coder+runner", speech.FOCUS)] and desk.sent[0][1]["from"] == "planner"
    runner = Employee(Runner(AgentID("runner"), "critic", "summarizer"), "manager")
    asked = message(speech.CANDIDATES, Section(Kind.NOTE, BAD, "candidates"), sender="manager")
    asked.payload["from"] = "coder7"
    answered = handle(runner, Desk(), asked)
    assert answered.sent[0][0] == "manager" and answered.sent[0][1]["for"] == "coder7+summarizer"


def test_the_manager_adds_a_briefing_now_and_then() -> None:
    desk = Desk({Ask.SUMMARIZE: ["SUMMARY nothing works"]})
    handle(Manager(AgentID("manager")), desk, *[results(n) for n in range(MESSAGES_PER_BRIEFING)])
    assert len(desk.sent) == MESSAGES_PER_BRIEFING and len(desk.prompts) == 1
    assert "nothing works" in desk.text() and "nothing works" not in desk.text(0)


def solo() -> Solo:
    return Solo(AgentID("solo"), "add(1, 2) gives -1", 8)


def test_the_single_agent_goes_where_its_model_says_and_keeps_what_passes() -> None:
    desk = handle(solo(), Desk({Ask.LOCATE: [f"FOCUS {ADD}"], Ask.REPAIR: [BAD, GOOD]}), TASK)
    assert desk.finished == "visible tests pass" and "a + b" in desk.files["app.py"]
    assert "a * b" in desk.prompts[-1], "its history is sent again"
    lost = handle(solo(), Desk({Ask.LOCATE: [f"FOCUS {HALF}"], Ask.REPAIR: [BAD]}), TASK)
    assert lost.finished == "nothing left to look at" and lost.files == Desk().files


def test_the_single_agent_without_answers_ends_in_order() -> None:
    desk = handle(solo(), Desk({Ask.LOCATE: [DENIED], Ask.REPAIR: [DENIED]}), TASK)
    assert desk.finished == "no budget for another repair" and desk.files == Desk().files
    cheaper = handle(solo(), Desk({Ask.LOCATE: [DENIED], Ask.REPAIR: [DENIED, GOOD]}), TASK)
    assert cheaper.finished == "visible tests pass"
