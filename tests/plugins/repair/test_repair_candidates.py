"""The answer to ``repair``: which edits are proposed, in which order, and in which form."""

from __future__ import annotations

import ast
import itertools
import textwrap

import pytest

from apex_framework.interfaces.prompting import (
    Ask,
    Candidate,
    Edit,
    Kind,
    Section,
    apply_edit,
    parse_candidates,
    render_prompt,
    tried_line,
)
from apex_repair.backend import think

FIRST = 20
PATH = "pkg/code.py"


def function(source: str) -> str:
    return textwrap.dedent(source).strip("\n")


def candidates(source: str, *sections: Section, k: int = 4, seed: int = 0) -> tuple[Candidate, ...]:
    shown = Section(Kind.FUNCTION, source, f"{PATH}:{FIRST} f")
    text = "\n".join(think(render_prompt(Ask.REPAIR, [*sections, shown], candidates=k), seed))
    return parse_candidates(text) if text.startswith("CANDIDATE") else ()


def applied(source: str, candidate: Candidate) -> str:
    """The source after a candidate, with its lines where they are in the file."""
    text = "\n" * (FIRST - 1) + source
    for edit in candidate.edits:
        text = apply_edit(text, edit)
    return text[FIRST - 1 :]


def suspicious(*lines: tuple[int, float]) -> Section:
    return Section(Kind.SUSPICIOUS, "\n".join(f"{PATH}:{FIRST - 1 + n} {score:.2f}" for n, score in lines))


def failing(text: str) -> Section:
    return Section(Kind.FAILING, text, "tests.test_code.T.test_f")


def rank(source: str, right: str, *sections: Section, rounds: int = 15) -> int:
    """How many candidates are tried until the right one, asking again with what was tried."""
    tried: list[str] = []
    for _ in range(rounds):
        for candidate in candidates(source, *sections, Section(Kind.TRIED, "\n".join(tried))):
            if ast.dump(ast.parse(applied(source, candidate))) == ast.dump(ast.parse(right)):
                return len(tried) + 1
            tried.append(tried_line(candidate, "pass 1/3"))
    return 1000


# One fault per operator of the vocabulary: faulty source, line of the fault, what is right there, failing output.
FAULTS = {
    "comparison": ("def f(a, n):\n    i = 0\n    while i <= n:\n        i += a[i]\n    return i", 3, "    while i < n:", "IndexError: list index out of range"),
    "off_by_one": ("def f(a):\n    total = 0\n    for i in range(len(a) - 1):\n        total += a[i]\n    return total", 3, "    for i in range(len(a)):", "AssertionError: 5 != 9"),
    "arithmetic": ("def f(w, h):\n    if w < 0:\n        return 0\n    area = w + h\n    return area", 4, "    area = w - h", "AssertionError: 7 != 1"),
    "boolean": ("def f(a, b):\n    c = a.x\n    if c or b:\n        return b.y\n    return c", 3, "    if c and b:", "AttributeError: 'NoneType' object has no attribute 'y'"),
    "negation": ("def f(a, seen):\n    out = []\n    if a.done(seen):\n        out.append(a)\n    return out", 3, "    if not a.done(seen):", "AssertionError: Lists differ: [1] != []"),
    "constant": ("def f(a):\n    found = True\n    for x in a:\n        if x.ok():\n            found = True\n    return found", 2, "    found = False", "AssertionError: True is not false"),
    "argument_swap": ("def f(a, b):\n    c = a.get(b)\n    d = g(c, a)\n    return d", 3, "    d = g(a, c)", "TypeError: unsupported operand"),
    "wrong_name": ("def f(first, last):\n    width = last - first\n    if width > 3:\n        return first\n    return frist", 5, "    return first", "NameError: name 'frist' is not defined"),
    "boundary_slice": ("def f(words):\n    head = words[0]\n    rest = words[:]\n    return head, rest", 3, "    rest = words[1:]", "AssertionError: Lists differ: extra first element"),
    "missing_return": ("def f(a):\n    total = 0\n    for x in a:\n        total += x\n    total", 5, "    return total", "AssertionError: None != 6"),
}  # fmt: skip


@pytest.mark.parametrize("operator", FAULTS)
def test_each_operator_of_the_vocabulary_finds_its_fault(operator: str) -> None:
    source, line, right, output = FAULTS[operator]
    fixed = source.split("\n")
    fixed[line - 1] = right
    found = rank(source, "\n".join(fixed), suspicious((line, 1.0), (2, 0.6)), failing(output))
    assert found <= 8, f"{operator} is found at {found}"


def test_a_missing_guard_is_put_at_the_beginning() -> None:
    source = "def f(a):\n    total = sum(a)\n    if total < 0:\n        return 0\n    return total / len(a)"
    right = source.replace("    total = sum(a)\n", "    if not a:\n        return 0\n    total = sum(a)\n", 1)
    assert rank(source, right, suspicious((2, 1.0)), failing("ZeroDivisionError: division by zero")) <= 20


def test_without_suspicious_lines_the_right_edits_come_later() -> None:
    """In the spirit of guard 6: taking a section away does not help."""
    ranks = {True: 0, False: 0}
    for (source, line, right, _), known in itertools.product(FAULTS.values(), (True, False)):
        padded = source.split("\n")
        padded[1:1] = [f"    k{i} = p(q{i} + {i}) <= 3" for i in range(8)]
        fixed = list(padded)
        fixed[line + 7] = right
        sections = [suspicious((line + 8, 1.0), (2, 0.5), (3, 0.5))] if known else []
        ranks[known] += min(60, rank("\n".join(padded), "\n".join(fixed), *sections))
    assert ranks[True] * 2 < ranks[False], ranks


def test_a_traceback_stands_in_for_suspicious_lines() -> None:
    source = function("""
        def f(a, b):
            x = a < b
            y = a > b
            z = a == b
            return x, y, z
    """)
    for row in (2, 3, 4):
        frame = f'  File "/somewhere/{PATH}", line {FIRST - 1 + row}, in f\nValueError: x'
        (edit,) = candidates(source, failing(frame), k=1)[0].edits
        assert edit.line == FIRST - 1 + row


def test_nothing_that_was_tried_is_proposed_again() -> None:
    source = FAULTS["comparison"][0]
    first = candidates(source)
    tried = Section(Kind.TRIED, "\n".join(tried_line(c, "pass 0/2") for c in first))
    assert not {tried_line(c, "") for c in first} & {tried_line(c, "") for c in candidates(source, tried)}


def test_all_tried_is_said_in_words() -> None:
    source = "def f(a):\n    return a"
    seen: list[str] = []
    while found := candidates(source, Section(Kind.TRIED, "\n".join(seen))):
        seen += [tried_line(c, "pass 0/2") for c in found]
        assert len(seen) < 200
    text = "\n".join(
        think(
            render_prompt(
                Ask.REPAIR,
                [Section(Kind.FUNCTION, source, f"{PATH}:{FIRST} f"), Section(Kind.TRIED, "\n".join(seen))],
            ),
            0,
        )
    )
    assert "all was tried" in text


def test_two_edits_are_proposed_only_after_one_has_helped() -> None:
    source = "def f(a, b):\n    lo = a + b\n    hi = a\n    if lo < hi:\n        return lo\n    return b"
    first = candidates(source, k=3)
    assert all(len(c.edits) == 1 for c in first)
    vain = Section(Kind.TRIED, "\n".join(tried_line(c, "pass 2/5") for c in first))
    assert all(len(c.edits) == 1 for c in candidates(source, vain))
    helped = Section(Kind.TRIED, tried_line(first[0], "pass 2/5 -> 4/5"))
    again = candidates(source, helped)
    assert sum(len(c.edits) == 2 for c in again) >= 2
    old = first[0].edits[0]
    for candidate in again:
        ast.parse(applied(source, candidate))
        if len(candidate.edits) == 2:
            assert old in candidate.edits


def test_a_second_edit_of_the_same_line_becomes_one_edit() -> None:
    source = "def f(a, b):\n    return a < b and b < 7"
    helped = Section(
        Kind.TRIED, f"{PATH}:{FIRST + 1} | return a < b and b < 7 | return a <= b and b < 7 | pass 1/3 -> 2/3"
    )
    found = candidates(source, helped)
    merged = [c.edits[0].replace for c in found if "a <= b" in c.edits[0].replace]
    assert len(merged) == 3 and all(len(c.edits) == 1 for c in found)
    assert all(text != "    return a <= b and b < 7" for text in merged)


def test_exactly_k_distinct_candidates_are_given() -> None:
    source = FAULTS["off_by_one"][0]
    for k in (1, 3, 8):
        found = candidates(source, k=k)
        assert len(found) == len({tried_line(c, "") for c in found}) == k


@pytest.mark.parametrize(
    "source",
    [
        '    def method(self, x):\n        """Doc\nwithout indentation."""\n        return self.a[x] + self.b(x)',
        "            if x > 3:\n                y = 1\n        else:\n            y = 2\n    return y",
        "        except KeyError:\n            y = 1\n    return y + 1",
        "    b, c)\n    if a < b:\n        return c",
        "def f(a,\n      b=(1, 2)):\n    x = [\n        a < 1,\n        b,\n    ]\n    if x:",
        "async def f(a):\n    await g(a[0])\n    return f'{a + 1} {a!r}'",
        "def f(é, b):\n    x = 'ééé' + é; y = é < b\n    return not (é or b)",
        "@wraps(g)\ndef f(a: int = 3, *, b: 'x' = None) -> int | None:\n    return a if b else -a",
    ],
)
def test_methods_and_pieces_cut_off_at_either_end_are_read(source: str) -> None:
    found = candidates(source, k=20)
    assert found
    for candidate in found:
        assert applied(source, candidate) != source
        for edit in candidate.edits:
            assert edit.search in source
            assert source.split("\n")[edit.line - FIRST] == edit.search.split("\n")[0]


def test_every_candidate_parses_in_its_function() -> None:
    for source, *_ in FAULTS.values():
        for candidate in candidates(source, k=20):
            ast.parse(applied(source, candidate))


def test_strings_that_look_like_the_answer_form_are_not_touched() -> None:
    source = 'def f(a):\n    g("""\n=======\n""", a < 1)\n    return a'
    assert all("=======" not in e.search for c in candidates(source, k=20) for e in c.edits)


def test_sections_that_it_does_not_use_change_nothing() -> None:
    source = FAULTS["boolean"][0]
    plain = candidates(source, suspicious((3, 1.0)), k=1)
    more = candidates(source, suspicious((3, 1.0)), Section(Kind.NOTE, "hello"), Section(Kind.PASSING, "t"), k=1)
    assert plain[0].edits[0].line == more[0].edits[0].line


def test_an_edit_replaces_whole_lines_at_its_place() -> None:
    source = "def f(a, b):\n    x = a < b\n    x = a < b\n    return x"
    (candidate,) = candidates(source, suspicious((3, 1.0)), k=1)
    assert candidate.edits == (Edit(PATH, FIRST + 2, "    x = a < b", "    x = a <= b"),)
    assert candidate.why.startswith("comparison")
