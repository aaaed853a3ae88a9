"""Outside servers over HTTP: answers without end, or that unpack to one, are cut off; events may go on for ever."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="needs the extra [mcp]")

import httpx2
from hypothesis import given
from hypothesis import strategies as st

from apex_framework.errors import EnvironmentProblem
from apex_mcp_edge import bodies
from apex_mcp_edge.bodies import MOST, Counted
from apex_mcp_edge.outside import OutsideTools

REQUEST = httpx2.Request("POST", "http://x/")


class Pouring:
    """A server whose every answer has no end."""

    def __init__(self, head: bytes) -> None:
        self.sent, self.port = 0, 0
        self._head, self._ready = head, threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    async def _serve(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()

        async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await reader.readuntil(b"\r\n\r\n")
                writer.write(b"HTTP/1.1 200 OK\r\n" + self._head + b"\r\n")
                while self.sent < 256 * 2**20:
                    writer.write(b"[" * 65_536)
                    self.sent += 65_536
                    await writer.drain()
            writer.close()

        server = await asyncio.start_server(pour, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._over.wait()
        server.close()

    def __enter__(self) -> Pouring:
        self._thread.start()
        self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10)


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Type: application/json\r\n",
        b"Content-Type: text/event-stream\r\n",
        b"Content-Type: application/json\r\nContent-Encoding: gzip\r\n",
    ],
    ids=["json", "events", "gzip"],
)
def test_an_answer_without_end_is_not_read_into_memory(tmp_path: Path, head: bytes) -> None:
    with Pouring(head) as server:
        file = tmp_path / "servers.json"
        url = f"http://127.0.0.1:{server.port}/mcp"
        file.write_text(json.dumps({"mcpServers": {"far": {"url": url, "apex": {"start_s": 15}}}}))
        with pytest.raises(EnvironmentProblem, match="MCP server 'far'") as raised:
            OutsideTools(spec=str(file))
        assert "\n" not in str(raised.value)
        assert server.sent < 16 * MOST


def counted(pieces: list[bytes], *, events: bool) -> int:
    """Bytes that come through."""

    class Given(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            for piece in pieces:
                yield piece

    async def main() -> int:
        return sum([len(piece) async for piece in Counted(Given(), REQUEST, events=events)])

    return asyncio.run(main())


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(bodies, "MOST", 64)
    yield 64


def test_a_stream_of_events_may_be_longer_than_one_answer(small: int) -> None:
    event = b"data: " + b"x" * 40 + b"\r\n\r\n"
    assert counted([event] * 50, events=True) == 50 * len(event)
    with pytest.raises(httpx2.ReadError, match="too long"):
        counted([event] * 50, events=False)
    with pytest.raises(httpx2.ReadError, match="too long"):
        counted([b"data: x\n"] * 50, events=True)


@given(st.lists(st.integers(0, 20), max_size=12), st.integers(1, 7))
def test_events_are_counted_alike_however_they_are_cut(sizes: list[int], cut: int) -> None:
    """However the bytes come, what is left after the last blank line is what counts."""
    whole = b"".join(b"data: " + b"x" * size + b"\n\n" for size in sizes) + b"tail"
    stream = Counted(httpx2.AsyncByteStream(), REQUEST, events=True)
    for start in range(0, len(whole), cut):
        stream._count(whole[start : start + cut])
    assert stream._size == len(b"tail")
