"""Our tools as an MCP server. Every call goes through the door, with a capability for one folder."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.shared.exceptions import MCPError

from apex_framework import ToolService, __version__
from apex_framework.interfaces import Capability, ToolResult, ToolSpec

from .pages import RESULT_BYTES, Page, Pages

T = TypeVar("T")
Send = Callable[[float, float | None, str | None], Awaitable[None]]

PAGE_SIZE: Final = 50
"""Tools or resources in one answer to a list request."""
HEAD: Final = 2_000
"""Characters of a large result that are sent at once."""
AT_ONCE: Final = 8
"""Calls that run at the same time; further ones wait."""
DEADLINE_S: Final = 300.0

READ: Final = "resource.read"
"""The door's own tool, for results that are even too large to be kept here."""


class Served:
    """The tools of a capability for outside hosts."""

    def __init__(
        self,
        service: ToolService,
        capability: Capability,
        *,
        name: str = "apex",
        page_size: int = PAGE_SIZE,
        deadline_s: float = DEADLINE_S,
        pages: Pages | None = None,
    ) -> None:
        self._service, self._capability = service, capability
        self._name, self._page_size, self._deadline_s = name, page_size, deadline_s
        self._pages = pages or Pages()
        self._turns = asyncio.Semaphore(AT_ONCE)
        own = [spec for spec in service.specs if spec.name in capability.tools]
        if (read := service.spec(READ)) is not None and read not in own:
            own.append(read)
        self._specs = {outer_name(spec.name): spec for spec in own}

    def server(self) -> Server[Any]:
        """A server of the SDK, which speaks both eras of the protocol."""
        return Server(
            self._name,
            version=__version__,
            instructions=f"Tools over one folder. Tools: {', '.join(self._specs)}.",
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_read_resource=self._read_resource,
        )

    async def close(self) -> None:
        """Close the tool servers."""
        await self._service.close()

    async def _list_tools(
        self, _: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        some, more = _page([as_tool(spec) for spec in self._specs.values()], params, self._page_size)
        return types.ListToolsResult(tools=list(some), next_cursor=more)

    async def _list_resources(
        self, _: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        some, more = _page(self._pages.all(), params, self._page_size)
        return types.ListResourcesResult(resources=[types.Resource(**_described(p)) for p in some], next_cursor=more)

    async def _read_resource(
        self, _: ServerRequestContext[Any], params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        page = self._pages.find(str(params.uri))
        if page is None:
            raise MCPError(types.INVALID_PARAMS, "there is no such resource, or no longer")
        content = types.TextResourceContents(uri=page.uri, mime_type="text/plain", text=page.text)
        return types.ReadResourceResult(contents=[content])

    async def _call_tool(
        self, context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        spec = self._specs.get(params.name)
        if spec is None:
            raise MCPError(types.INVALID_PARAMS, f"there is no tool {params.name[:80]!r}")
        async with self._turns, _reporting(context.session.report_progress) as progress:
            result = await self._service.use(
                self._capability, spec.name, params.arguments or {}, self._deadline_s, progress=progress
            )
        return as_call_result(spec.name, result, self._pages)


def outer_name(tool: str) -> str:
    """A tool's name for hosts, some of which take no dots: ``fs.read`` is ``fs_read``."""
    return tool.replace(".", "_")


def as_tool(spec: ToolSpec) -> types.Tool:
    """A tool as hosts see it, with hints of what it may do."""
    return types.Tool(
        name=outer_name(spec.name),
        description=spec.description,
        input_schema={"type": "object", "properties": {}, **spec.schema},
        annotations=types.ToolAnnotations(
            read_only_hint=spec.read_only,
            destructive_hint=spec.destructive,
            idempotent_hint=spec.idempotent or spec.read_only,
            open_world_hint=spec.outward,
        ),
    )


def as_call_result(tool: str, result: ToolResult, pages: Pages) -> types.CallToolResult:
    """A result for a host: as text and structured; a large one as its head and links to resources."""
    if not result.ok:
        refusal = {"error": result.error, "detail": _sound(result.detail)}
        text = types.TextContent(text=f"{refusal['error']}: {refusal['detail']}")
        return types.CallToolResult(content=[text], structured_content=refusal, is_error=True)
    try:
        whole = json.dumps(_plain(result.value), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        return as_call_result(tool, ToolResult(False, error="E_TOOL", detail=f"{tool}: no JSON: {error}"), pages)
    sound = _sound(whole)
    if len(sound.encode()) <= RESULT_BYTES:
        return types.CallToolResult(content=[types.TextContent(text=sound)], structured_content=json.loads(sound))
    kept = pages.keep(tool, sound)
    structured = {"truncated": True, "size": len(sound), "head": sound[:HEAD], "resources": [p.uri for p in kept]}
    links = [types.ResourceLink(**_described(page)) for page in kept]
    head = types.TextContent(text=json.dumps(structured, ensure_ascii=False))
    return types.CallToolResult(content=[head, *links], structured_content=structured)


def _described(page: Page) -> dict[str, Any]:
    return {"uri": page.uri, "name": page.name, "mime_type": "text/plain", "size": len(page.text.encode())}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value


def _sound(text: str) -> str:
    """Text that UTF-8 can carry: a lone surrogate would end the connection."""
    return text.encode("utf-8", "replace").decode()


def _page(items: Sequence[T], params: types.PaginatedRequestParams | None, size: int) -> tuple[Sequence[T], str | None]:
    cursor = params.cursor if params is not None else None
    if cursor is None:
        start = 0
    elif cursor.isascii() and cursor.isdigit() and len(cursor) < 10:
        start = int(cursor)
    else:
        raise MCPError(types.INVALID_PARAMS, "this cursor is none of ours")
    return items[start : start + size], str(start + size) if start + size < len(items) else None


@contextlib.asynccontextmanager
async def _reporting(send: Send) -> AsyncIterator[Callable[[float, str], None]]:
    """Gives what a call reports to, while inside; where reports come faster than they go out, the latest counts."""
    news, latest, sent = asyncio.Event(), (0.0, ""), -1.0

    def report(share: float, words: str) -> None:
        nonlocal latest
        latest = (share, words)
        news.set()

    async def flush() -> None:
        nonlocal sent
        news.clear()
        share, words = latest
        if share > sent:  # the protocol wants it to grow
            sent = share
            await send(share, 1.0, words or None)

    async def pump() -> None:
        while True:
            await news.wait()
            await flush()

    async with asyncio.TaskGroup() as group:
        pumping = group.create_task(pump())
        yield report
        pumping.cancel()
    if news.is_set():
        await flush()
