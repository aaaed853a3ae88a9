"""Server-sent events are read as the standard says, however the bytes are cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apex_framework.errors import BackendError, Failure
from apex_llm.sse import EventParser, ServerEvent

TEXT = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=12)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(p % (len(data) + 1) for p in places), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


def read(*parts: bytes) -> list[ServerEvent]:
    parser = EventParser()
    return [event for part in parts for event in parser.feed(part)]


@given(
    events=st.lists(st.lists(TEXT, min_size=1, max_size=3), max_size=4),
    end=ENDS,
    places=st.lists(st.integers(0), max_size=8),
)
def test_any_text_comes_through_any_line_ends_and_any_cuts(events, end, places) -> None:
    stream = "".join("".join(f"data: {line}{end}" for line in lines) + end for lines in events)
    assert [e.data for e in read(*cut(stream.encode(), places))] == ["\n".join(lines) for lines in events]


@given(st.binary(max_size=60), st.lists(st.integers(0), max_size=6))
def test_how_the_bytes_are_cut_changes_nothing(data: bytes, places: list[int]) -> None:
    def outcome(parts: list[bytes]) -> object:
        found, parser = [], EventParser(limit=40)
        try:
            for part in parts:
                found += parser.feed(part)
        except BackendError as error:
            return error.kind
        return found

    whole, parts = outcome([data]), outcome(cut(data, places))
    assert whole == parts


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b": keep-alive\n\n: again\n\n", []),
        (b"\n\n\n", []),
        (b"data: cut off", []),
        (b"data: cut off\n", []),
        (b"data\n\n", [ServerEvent("", "")]),
        (b"data:a\ndata:  b\n\n", [ServerEvent("", "a\n b")]),
        (b"event: error\ndata: x\n\ndata: y\n\n", [ServerEvent("error", "x"), ServerEvent("", "y")]),
        (b"event: nothing\n\n", []),
        (b"id: 7\nretry: 10\nwhat: ever\ndata: x\n\n", [ServerEvent("", "x")]),
        (b"\xef\xbb\xbfdata: x\n\n", [ServerEvent("", "x")]),
        (b"data: {: not a comment}\n\n", [ServerEvent("", "{: not a comment}")]),
    ],
)
def test_the_standard_s_cases(stream: bytes, expected: list[ServerEvent]) -> None:
    assert read(stream) == read(*[bytes([b]) for b in stream]) == expected


@pytest.mark.parametrize("stream", [b"data: \xff\n\n", b"data: \xc3\ndata: \xa9\n\n", b"data: " + b"x" * 2_000_000])
def test_what_is_no_text_and_what_has_no_end_is_malformed(stream: bytes) -> None:
    with pytest.raises(BackendError) as caught:
        read(stream)
    assert caught.value.kind is Failure.MALFORMED


def test_an_event_of_many_lines_is_bounded_too() -> None:
    parser = EventParser(limit=1000)
    with pytest.raises(BackendError):
        for _ in range(100):
            parser.feed(b"data: " + b"x" * 50 + b"\n")
