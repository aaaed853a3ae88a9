"""The answers to ``locate``, ``diagnose``, ``review`` and ``summarize``."""

from __future__ import annotations

import pytest

from apex_framework.interfaces.prompting import (
    Ask,
    Candidate,
    Edit,
    Kind,
    Section,
    parse_lines,
    render_candidates,
    render_prompt,
    tried_line,
)
from apex_repair.backend import think
from apex_repair.locate import name_parts

MAP = Section(
    Kind.MAP,
    "pkg/text.py::wrap_words 1-20\npkg/text.py::Writer.fill 22-40\npkg/dates.py::parse_date 1-30\n"
    "pkg/dates.py::format_date 32-50\npkg/dates.py::leap 52-60\ntests/test_dates.py::test_leap 1-5",
)


def answer(ask: Ask, *sections: Section) -> str:
    return "\n".join(think(render_prompt(ask, sections), 0))


def focus(*sections: Section) -> list[str]:
    return [name for name, _ in parse_lines(answer(Ask.LOCATE, MAP, *sections), "FOCUS")]


def tried(path: str, line: int, outcome: str = "pass 1/3") -> str:
    return tried_line(Candidate((Edit(path, line, f"old{line}", "new"),)), outcome)


# --- locate ----------------------------------------------------------------------------------


def test_names_are_split_into_words() -> None:
    assert name_parts("parseHTTPLine_of.Text2") == ["parse", "http", "line", "of", "text", "2"]


def test_words_of_the_issue_point_to_a_function_and_at_most_three_are_named() -> None:
    found = focus(Section(Kind.ISSUE, "Parsing is wrong: parse of a date gives the wrong day."))
    assert found[0] == "pkg/dates.py::parse_date"
    assert len(found) == 3


def test_a_traceback_outweighs_words() -> None:
    output = (
        'File "tests/test_dates.py", line 3, in test_leap\n  File "/tmp/w/pkg/dates.py", line 55, in leap\nTypeError: x'
    )
    found = focus(Section(Kind.ISSUE, "format of text"), Section(Kind.FAILING, output, "tests.test_dates.test_leap"))
    assert found[0] == "pkg/dates.py::leap"


def test_suspicious_lines_point_to_their_function() -> None:
    assert focus(Section(Kind.SUSPICIOUS, "pkg/text.py:30 1.00\npkg/dates.py:3 0.40"))[0] == "pkg/text.py::Writer.fill"


def test_functions_where_edits_were_in_vain_fall_behind() -> None:
    suspicious = Section(Kind.SUSPICIOUS, "pkg/text.py:30 0.90\npkg/dates.py:3 0.80")
    vain = Section(Kind.TRIED, "\n".join(tried("pkg/text.py", line) for line in range(24, 32)))
    assert focus(suspicious)[0] == "pkg/text.py::Writer.fill"
    assert focus(suspicious, vain)[0] == "pkg/dates.py::parse_date"


def test_a_summary_of_vain_edits_counts_like_the_edits() -> None:
    suspicious = Section(Kind.SUSPICIOUS, "pkg/text.py:30 0.90\npkg/dates.py:3 0.80")
    vain = Section(Kind.TRIED, "\n".join(tried("pkg/text.py", 30) for _ in range(8)))
    lines = parse_lines(answer(Ask.SUMMARIZE, vain, MAP), "SUMMARY")
    summary = Section(Kind.SUMMARY, "\n".join(what for what, _ in lines))
    assert focus(suspicious, summary)[0] == "pkg/dates.py::parse_date"


def test_without_a_map_it_says_so() -> None:
    assert "no map" in answer(Ask.LOCATE, Section(Kind.ISSUE, "x"))


# --- diagnose --------------------------------------------------------------------------------


def test_causes_merge_suspicion_and_traceback_most_suspicious_first() -> None:
    output = 'File "tests/test_a.py", line 9, in test\n  File "/w/pkg/a.py", line 4, in g\n  File "/w/pkg/a.py", line 7, in f\nKeyError: 1'
    text = answer(
        Ask.DIAGNOSE,
        Section(Kind.FAILING, output, "tests.test_a.test"),
        Section(Kind.SUSPICIOUS, "\n".join(f"pkg/a.py:{n} 0.{n}0" for n in range(9, 2, -1))),
    )
    causes = parse_lines(text, "CAUSE")
    assert [place for place, _ in causes] == ["pkg/a.py:7", "pkg/a.py:9", "pkg/a.py:8", "pkg/a.py:4", "pkg/a.py:6"]
    assert causes[0][1] == "suspicion 0.70, raised here"


def test_without_evidence_there_is_no_cause() -> None:
    assert "CAUSE" not in answer(Ask.DIAGNOSE, Section(Kind.FAILING, "boom", "t"))


# --- review ----------------------------------------------------------------------------------

PASSED = Section(Kind.PASSING, "tests.test_a.T.test_f\ntests.test_a.T.test_g")
FAILED_BEFORE = Section(Kind.FAILING, "AssertionError: f(37) gave 'aa'", "tests.test_a.T.test_f")


def verdict(search: str, replace: str, *sections: Section) -> tuple[str, str]:
    blocks = render_candidates([Candidate((Edit("pkg/a.py", 3, search, replace),))])
    text = answer(Ask.REVIEW, Section(Kind.DIFF, blocks), FAILED_BEFORE, *(sections or (PASSED,)))
    return parse_lines(text, "VERDICT")[0]


def test_a_plain_change_with_passing_tests_is_accepted() -> None:
    assert verdict("    if x < 3:", "    if x <= 3:")[0] == "accept"


@pytest.mark.parametrize(
    ("search", "replace", "why"),
    [
        ("    x = g(y)\n    check(x)", "    x = g(y)", "deletes code"),
        ("    x = g(y)", "    pass", "deletes code"),
        ("    x = g(y)", "    try:\n        x = g(y)\n    except Exception:\n        x = 0", "swallows an exception"),
        ("    x = g(y)", "    if y == 37:\n        return 'aa'\n    x = g(y)", "singles out 37"),
    ],
)
def test_changes_that_please_only_the_tests_are_rejected(search: str, replace: str, why: str) -> None:
    word, reason = verdict(search, replace)
    assert word == "reject"
    assert why in reason


def test_a_failing_test_or_a_regression_is_rejected_with_a_focus() -> None:
    other = Section(Kind.FAILING, "AssertionError", "tests.test_b.T.test_h")
    assert verdict("    a < b", "    a > b", PASSED, other) == ("reject", "tests.test_b.T.test_h fails")
    again = Section(Kind.NOTE, "A second run does not pass.", "regression")
    assert verdict("    a < b", "    a > b", PASSED, again)[0] == "reject"
    text = answer(Ask.REVIEW, MAP, other, Section(Kind.SUSPICIOUS, "pkg/dates.py:55 1.00"))
    assert parse_lines(text, "FOCUS")[0][0] == "pkg/dates.py::leap"


def test_a_unified_diff_is_read_too() -> None:
    diff = "--- a/pkg/a.py\n+++ b/pkg/a.py\n@@ -1,2 +1,4 @@\n def f(y):\n+    if y == 37:\n+        return 0\n     return g(y)"
    assert "singles out 37" in answer(Ask.REVIEW, Section(Kind.DIFF, diff), PASSED, FAILED_BEFORE)


# --- summarize -------------------------------------------------------------------------------


def test_a_summary_names_the_best_result_and_where_nothing_helped() -> None:
    lines = [tried("pkg/dates.py", 5) for _ in range(4)] + [tried("pkg/text.py", 9, "pass 1/3 -> 2/3")]
    text = answer(Ask.SUMMARIZE, MAP, Section(Kind.TRIED, "\n".join(lines)))
    found = [what for what, _ in parse_lines(text, "SUMMARY")]
    assert found[0] == "best so far pkg/text.py:9, old9, new, pass 1/3 -> 2/3"
    assert found[1] == "4 edits without progress at pkg/dates.py:5 (4)"
    assert found[2] == "ruled out pkg/dates.py::parse_date"
    assert len(found) <= 8


def test_an_empty_history_has_a_summary_too() -> None:
    assert parse_lines(answer(Ask.SUMMARIZE), "SUMMARY")
