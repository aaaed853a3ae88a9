"""Stop sequences in pieces, and frames from a process that may be out of its mind."""

from __future__ import annotations

import asyncio
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apex_framework.workers import StopCutter
from apex_framework.workers.counting import CountCache
from apex_framework.workers.frames import LIMIT, FrameError, Line, decode, encode, read

texts = st.text("abc\n", max_size=30)


@given(st.lists(texts, max_size=10), st.lists(st.text("abc\n", min_size=1, max_size=4), max_size=3))
def test_however_a_text_is_cut_it_ends_before_its_first_stop(pieces: list[str], stops: list[str]) -> None:
    cutter = StopCutter(stops)
    passed = "".join(map(cutter.feed, pieces)) + cutter.rest()
    text = "".join(pieces)
    # What a reader sees who looks after every piece: the first piece at whose end a stop is complete decides.
    seen = ""
    for piece in pieces:
        seen += piece
        if any(stop in seen for stop in stops):
            break
    ends = [seen.find(stop) for stop in stops if stop in seen]
    assert passed == (seen[: min(ends)] if ends else text)
    assert cutter.stopped == bool(ends)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_frame_an_end_or_an_error(data: bytes) -> None:
    async def main() -> None:
        stream = asyncio.StreamReader()
        stream.feed_data(data)
        stream.feed_eof()
        try:
            while (frame := await read(stream)) is not None:
                assert isinstance(frame, dict)
        except FrameError:
            pass

    asyncio.run(main())


def test_a_frame_survives_the_way() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        frame = {"text": "\ud800 ü \U0001f40d \0", "n": 3}
        ours.sendall(encode(frame))
        ours.shutdown(socket.SHUT_WR)
        line = Line(theirs)
        assert line.read() == frame and line.read() is None
        line.close()


def test_a_frame_has_a_limit() -> None:
    with pytest.raises(FrameError):
        encode({"text": "x" * LIMIT})
    with pytest.raises(FrameError):
        decode(b"[]")


def test_counts_are_remembered_least_recently_used_first_to_go() -> None:
    cache = CountCache(2)
    cache.put("a", 1)
    cache.put(("a", ""), 7)
    assert cache.get("a") == 1 and cache.get(("a", "")) == 7, "a bare text and a prompt are not the same"
    cache.get("a")
    cache.put("b", 3)
    assert cache.get(("a", "")) is None and cache.get("a") == 1 and cache.get("b") == 3
    assert cache.get(("", "a")) is None
