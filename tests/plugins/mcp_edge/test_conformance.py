"""The official client, in both eras of the protocol, against what we serve: in the process, over stdio, over HTTP."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="needs the extra [mcp]")

from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from apex_framework import ToolService
from apex_framework.interfaces import Capability, ToolCall, ToolResult, ToolSpec
from apex_framework.testing.tool import FolderWorkspace
from apex_mcp_edge.http import application, listen, runner
from apex_mcp_edge.pages import Pages
from apex_mcp_edge.serving import Served, as_call_result

ERAS = ("auto", "legacy")
WAYS = ("process", "stdio", "http")
TOKEN = "token-of-the-tests-0123456789"

Speak = Callable[[str, str, Served, Path], Any]


@asynccontextmanager
async def speaking(way: str, era: str, served: Served, root: Path) -> AsyncIterator[Client]:
    """The official client, connected."""
    if way == "process":
        async with Client(served.server(), mode=era) as client:
            yield client
    elif way == "stdio":
        argv = ["-m", "apex_framework", "mcp", "serve", "fs", "--root", str(root)]
        async with Client(StdioServerParameters(command=sys.executable, args=argv), mode=era) as client:
            yield client
    else:
        async with (
            over_http(served) as url,
            create_mcp_http_client(headers={"authorization": f"Bearer {TOKEN}"}) as web,
            Client(streamable_http_client(url, http_client=web), mode=era) as client,
        ):
            yield client


@asynccontextmanager
async def over_http(served: Served) -> AsyncIterator[str]:
    """The address of the served tools over HTTP."""
    with listen("127.0.0.1", 0) as socket:
        name = f"127.0.0.1:{socket.getsockname()[1]}"
        web = runner(application(served.server(), [name], TOKEN))
        async with asyncio.TaskGroup() as group:
            group.create_task(web._serve([socket]))
            while not web.started:  # noqa: ASYNC110 - the server has no event of it
                await asyncio.sleep(0.01)
            yield f"http://{name}/mcp"
            web.should_exit = True


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("way", WAYS)
def test_the_official_client_lists_calls_and_is_refused(way: str, era: str, served: Served, root: Path) -> None:
    async def work() -> None:
        async with speaking(way, era, served, root) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert {"fs_read", "fs_write", "fs_list"} <= set(tools)
            read, write = tools["fs_read"].annotations, tools["fs_write"].annotations
            assert read is not None and read.read_only_hint and not read.destructive_hint and read.idempotent_hint
            assert write is not None and not write.read_only_hint and write.destructive_hint
            result = await client.call_tool("fs_read", {"path": "m.py"})
            assert not result.is_error and result.structured_content["text"].startswith("def add")
            assert json.loads(result.content[0].text) == result.structured_content
            refused = await client.call_tool("fs_read", {"path": "../outside.txt"})
            assert refused.is_error and refused.structured_content["error"] == "E_PATH"
            wrong = await client.call_tool("fs_read", {"path": 7})
            assert wrong.is_error and wrong.structured_content["error"] == "E_ARG"
            with pytest.raises(MCPError, match="there is no tool"):
                await client.call_tool("no_such", {})
            assert not (await client.call_tool("fs_write", {"path": "new.txt", "text": "written"})).is_error

    asyncio.run(work())
    assert (root / "new.txt").read_text() == "written"


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("way", WAYS)
def test_a_large_result_is_a_resource_read_in_pages(way: str, era: str, served: Served, root: Path) -> None:
    text = "".join(f"line {i} é\n" for i in range(30_000))
    (root / "large.txt").write_text(text)

    async def work() -> None:
        async with speaking(way, era, served, root) as client:
            result = await client.call_tool("fs_read", {"path": "large.txt"})
            assert not result.is_error and result.structured_content["truncated"]
            links = [block.uri for block in result.content if block.type == "resource_link"]
            assert links == result.structured_content["resources"] and len(links) > 1
            assert [r.uri for r in (await client.list_resources()).resources] == links
            pages = [(await client.read_resource(uri)).contents[0].text for uri in links]
            assert json.loads("".join(pages))["text"] == text
            with pytest.raises(MCPError, match="no such resource"):
                await client.read_resource("apex://result/guessed/1")

    asyncio.run(work())


class Slow:
    """A tool server that says how far it is, and whose call lasts until it is told to end."""

    tools = tuple(
        ToolSpec(f"slow.{name}", "Takes its time.", {"type": "object", "properties": {}}) for name in ("work", "wait")
    )

    def __init__(self) -> None:
        self.begun, self.cancelled = asyncio.Event(), asyncio.Event()

    async def call(self, call: ToolCall) -> ToolResult:
        self.begun.set()
        if call.tool == "slow.work":
            assert call.progress is not None
            for step in range(1, 4):
                thread = threading.Thread(target=call.progress, args=(step / 4, f"step {step}"))
                thread.start()
                thread.join()
                await asyncio.sleep(0.01)
            return ToolResult(True, {"done": True})
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return ToolResult(True)

    async def close(self) -> None:
        return None


class Hasty:
    """A clock by which two seconds pass between any two looks."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        self._now += 2.0
        return self._now

    def wall(self) -> float:
        return self._now


def _slow(root: Path) -> tuple[Slow, Served]:
    slow = Slow()
    capability = Capability(FolderWorkspace(root), frozenset(t.name for t in slow.tools))
    return slow, Served(ToolService({"slow": slow}, clock=Hasty()), capability, page_size=1)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("way", ("process", "http"))
def test_progress_is_told_and_grows(way: str, era: str, root: Path) -> None:
    heard: list[tuple[float, float | None, str | None]] = []

    async def told(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    async def work() -> None:
        _, served = _slow(root)
        async with speaking(way, era, served, root) as client:
            result = await client.call_tool("slow_work", {}, progress_callback=told)
            assert result.structured_content == {"done": True}
            assert not (await client.call_tool("slow_work", {})).is_error

    asyncio.run(work())
    assert heard and heard[-1] == (0.75, 1.0, "step 3")
    assert [share for share, _, _ in heard] == sorted({share for share, _, _ in heard})


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("way", ("process", "http"))
def test_a_cancelled_call_is_cancelled_at_the_tool(way: str, era: str, root: Path) -> None:
    async def work() -> None:
        slow, served = _slow(root)
        async with speaking(way, era, served, root) as client:
            call = asyncio.ensure_future(client.call_tool("slow_wait", {}))
            await asyncio.wait_for(slow.begun.wait(), 10)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            await asyncio.wait_for(slow.cancelled.wait(), 10)
            assert not (await client.call_tool("slow_work", {})).is_error

    asyncio.run(work())


@pytest.mark.parametrize("era", ERAS)
def test_lists_come_in_pages_and_foreign_cursors_are_refused(era: str, root: Path) -> None:
    async def work() -> None:
        _, served = _slow(root)
        async with Client(served.server(), mode=era) as client:
            names, cursor = [], None
            while True:
                page = await client.list_tools(cursor=cursor)
                assert len(page.tools) == 1
                names += [tool.name for tool in page.tools]
                if (cursor := page.next_cursor) is None:
                    break
            assert names == ["slow_work", "slow_wait", "resource_read"]
            for wrong in ("x", "-1", "1e9", "9" * 30):
                with pytest.raises(MCPError, match="cursor"):
                    await client.list_tools(cursor=wrong)

    asyncio.run(work())


def test_results_that_no_connection_could_carry_are_made_sound() -> None:
    pages = Pages()
    assert as_call_result("t", ToolResult(True, {"x": "\udc80"}), pages).structured_content == {"x": "?"}
    broken = as_call_result("t", ToolResult(True, {"x": float("nan")}), pages)
    assert broken.is_error and broken.structured_content["error"] == "E_TOOL"
    assert as_call_result("t", ToolResult(False, error="E_X", detail="\udc80"), pages).is_error


def test_kept_results_are_bounded_and_the_oldest_goes_first() -> None:
    pages = Pages(page=10, kept=100)
    first = pages.keep("t", "a" * 60)
    second = pages.keep("t", "b" * 60)
    assert [p.text for p in second] == ["b" * 10] * 6
    assert pages.find(first[0].uri) is None and pages.find(second[5].uri) == second[5]
    assert pages.keep("t", "c" * 101) == () and pages.all() == list(second)
