"""What agents remember: everything heard is paid for once, only useful facts are kept, windows are finite."""

from __future__ import annotations

import itertools

from apex_agents import speech
from apex_agents.memory import TRIED_LINES, WINDOW, Memory
from apex_framework.interfaces import AgentID, Epoch, Message
from apex_framework.interfaces.prompting import Kind, Section

numbers = itertools.count()


def message(*sections: Section) -> Message:
    return Message("e", f"m{next(numbers)}", AgentID("a"), AgentID("b"), Epoch(0), speech.payload("note", sections))


def test_what_was_heard_goes_into_the_next_prompt_once() -> None:
    memory = Memory(frozenset())
    note = Section(Kind.NOTE, "hello")
    memory.hear(message(note))
    assert memory.recall()[0] == (note,)
    assert memory.recall()[0] == ()


def test_kept_kinds_outlast_a_call_and_a_later_fact_replaces_an_earlier() -> None:
    memory = Memory(frozenset({Kind.SUSPICIOUS}))
    memory.hear(message(Section(Kind.SUSPICIOUS, "a.py:1 0.5")))
    memory.recall()
    memory.hear(message(Section(Kind.SUSPICIOUS, "a.py:2 0.9")))
    memory.recall()
    assert memory.recall()[0] == (Section(Kind.SUSPICIOUS, "a.py:2 0.9"),)


def test_own_facts_are_not_accounted_as_heard() -> None:
    memory = Memory(frozenset())
    memory.hear(message(Section(Kind.NOTE, "from a colleague")))
    sections, heard = memory.recall([Section(Kind.ISSUE, "mine")])
    assert [s.kind for s in sections] == [Kind.ISSUE, Kind.NOTE]
    assert "colleague" in heard and "mine" not in heard


def test_the_window_is_finite() -> None:
    memory = Memory(frozenset())
    for n in range(WINDOW + 3):
        memory.hear(message(Section(Kind.NOTE, f"note {n}")))
    assert len(memory.recall()[0]) == WINDOW


def test_tried_lines_are_merged_in_order_without_repetition_and_bounded() -> None:
    memory = Memory(frozenset({Kind.TRIED}))
    memory.hear(message(Section(Kind.TRIED, "one\ntwo")))
    memory.hear(message(Section(Kind.TRIED, "two\nthree")))
    assert memory.recall()[0] == (Section(Kind.TRIED, "one\ntwo\nthree"),)
    memory.note([Section(Kind.TRIED, "\n".join(str(n) for n in range(2 * TRIED_LINES)))])
    assert len(memory.tried) == TRIED_LINES


def test_a_payload_that_is_not_of_the_grammar_is_ignored() -> None:
    strange = message()
    strange.payload = {"kind": 3, "sections": [["NOPE", "", ""], "x", ["NOTE", "only two"]]}
    assert speech.kind_of(strange) == "" and speech.sections_of(strange) == ()
