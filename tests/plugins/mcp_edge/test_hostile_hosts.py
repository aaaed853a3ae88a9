"""Hosts that misbehave: on stdin anything may come (A42), over HTTP from anywhere (A46); the session goes on."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="needs the extra [mcp]")

from hypothesis import given, settings
from hypothesis import strategies as st

from apex_framework.cli.boundary import run
from apex_mcp_edge.http import Guard, application, listen, runner
from apex_mcp_edge.lines import LINE_BYTES, Lines, Unreadable, parse
from apex_mcp_edge.serving import Served
from apex_mcp_edge.stdio import streams

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}
PING = {"jsonrpc": "2.0", "id": 99, "method": "ping"}
CALL = {"jsonrpc": "2.0", "id": 98, "method": "tools/call", "params": {"name": "fs_list", "arguments": {}}}

BAD_LINES = {
    "no_json": b"hello",
    "half": b'{"jsonrpc": "2.0", "id": 5, "method": "ping"',
    "empty_object": b"{}",
    "batch": json.dumps([PING] * 10_000).encode(),
    "deep": b'{"jsonrpc": "2.0", "id": 5, "method": "ping", "params": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "not_utf8": b'{"jsonrpc": "2.0", "id": 5, "method": "\xff\xfe"}',
    "nan": b'{"jsonrpc": "2.0", "id": 5, "method": "ping", "params": {"x": NaN}}',
    "infinity": b'{"jsonrpc": "2.0", "id": 5, "method": "ping", "params": {"x": -Infinity}}',
    "version": b'{"jsonrpc": "1.0", "id": 5, "method": "ping"}',
    "id_float": b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}',
    "id_true": b'{"jsonrpc": "2.0", "id": true, "method": "ping"}',
    "id_list": b'{"jsonrpc": "2.0", "id": [1], "method": "ping"}',
    "id_huge": b'{"jsonrpc": "2.0", "id": ' + b"9" * 5_000 + b', "method": "ping"}',
    "id_long": b'{"jsonrpc": "2.0", "id": "' + b"x" * 5_000 + b'", "method": "ping"}',
    "number": b"1e999",
    "too_long": b"x" * (LINE_BYTES + 1),
}
REFUSED_REQUESTS = {
    "unknown_method": {"method": "no/such"},
    "wrong_params": {"method": "tools/call", "params": {"name": ["x"]}},
    "unknown_tool": {"method": "tools/call", "params": {"name": "../fs_read"}},
}


@asynccontextmanager
async def session(served: Served) -> AsyncIterator[tuple[Callable[[bytes], None], Callable[[], Any]]]:
    """A server behind two pipes, past the handshake: how to write a line, and how to read the next answer."""
    host_out, server_in = os.pipe()
    server_out, host_in = os.pipe()
    reading = os.fdopen(server_out, "rb")
    server = served.server()

    def send(line: bytes) -> None:
        os.write(server_in, line + b"\n")

    async def answer() -> Any:
        return json.loads(await asyncio.wait_for(asyncio.to_thread(reading.readline), 20))

    async with asyncio.TaskGroup() as group:

        async def serve() -> None:
            try:
                async with streams(host_out, host_in) as (incoming, outgoing):
                    await server.run(incoming, outgoing, server.create_initialization_options())
            finally:
                os.close(host_in)  # whoever still waits for an answer sees the end

        group.create_task(serve())
        try:
            send(json.dumps(HELLO).encode())
            assert (await answer())["result"]["serverInfo"]["name"] == "apex"
            send(json.dumps(READY).encode())
            yield lambda line: threading.Thread(target=send, args=(line,)).start(), answer
        finally:
            os.close(server_in)
    reading.close()
    os.close(host_out)


@pytest.mark.parametrize("line", BAD_LINES.values(), ids=BAD_LINES)
def test_a_line_that_is_no_message_is_answered_and_the_session_lives(served: Served, line: bytes) -> None:
    async def work() -> None:
        async with session(served) as (send, answer):
            send(line)
            error = await answer()
            assert error["error"]["code"] in (-32700, -32600) and len(json.dumps(error)) < 6_000
            send(json.dumps(CALL).encode())
            assert (await answer())["result"]["structuredContent"]["paths"] == ["m.py"]

    asyncio.run(work())


@pytest.mark.parametrize("request_", REFUSED_REQUESTS.values(), ids=REFUSED_REQUESTS)
def test_a_request_that_cannot_be_is_an_error_and_the_session_lives(served: Served, request_: dict[str, Any]) -> None:
    async def work() -> None:
        async with session(served) as (send, answer):
            send(json.dumps({"jsonrpc": "2.0", "id": 7, **request_}).encode())
            refused = await answer()
            assert refused["id"] == 7 and refused["error"]["code"] in (-32601, -32602)
            send(json.dumps(PING).encode())
            assert await answer() == {"jsonrpc": "2.0", "id": 99, "result": {}}

    asyncio.run(work())


@given(st.lists(st.binary(max_size=40)), st.integers(1, 50))
def test_lines_are_the_same_however_they_are_cut(pieces: list[bytes], limit: int) -> None:
    whole = b"".join(pieces)
    made = Lines(limit)
    found = [line for piece in pieces for line in made.feed(piece)]
    assert found == [None if len(line) > limit else line for line in whole.split(b"\n")[:-1]]


@settings(max_examples=200)
@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_any_line_is_a_message_or_unreadable(line: bytes) -> None:
    try:
        parse(line)
    except Unreadable as error:
        assert error.answer().message.error.code == error.code  # type: ignore[union-attr]  # an answer is an error


def test_a_reader_without_a_bound_would_be_noticed() -> None:
    """The planted bug: a reader that keeps everything passes no line of the bound's length as too long."""

    class Greedy(Lines):
        def __init__(self, limit: int) -> None:
            super().__init__(1 << 40)

    def holds(kind: type[Lines]) -> bool:
        made = kind(10)
        list(made.feed(b"x" * 1_000))
        return made.too_long and list(made.feed(b"\n")) == [None]

    assert holds(Lines) and not holds(Greedy)


# --- HTTP ---------------------------------------------------------------------------------------

TOKEN = "token-of-the-tests-0123456789"


@pytest.fixture
def port(served: Served) -> Iterator[int]:
    with listen("127.0.0.1", 0) as listening:
        number = listening.getsockname()[1]
        names = [f"127.0.0.1:{number}", f"localhost:{number}"]
        web = runner(application(served.server(), names, TOKEN, body_s=1.0), head_s=1.0)
        thread = threading.Thread(target=lambda: asyncio.run(web._serve([listening])))
        thread.start()
        yield number
        web.should_exit = True
        thread.join(10)


def post(port: int, body: bytes = b"", **headers: str) -> int:
    given = {
        "Host": f"127.0.0.1:{port}",
        "Authorization": f"Bearer {TOKEN}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("POST", "/mcp", body or json.dumps(HELLO).encode(), {k: v for k, v in given.items() if v})
        return connection.getresponse().status
    finally:
        connection.close()


def test_only_our_host_our_origin_and_the_token_come_through(port: int) -> None:
    assert post(port) == 200
    assert post(port, Host=f"localhost:{port}") == 200
    assert post(port, Origin=f"http://127.0.0.1:{port}") == 200
    for host in ("evil.example", f"evil.example:{port}", f"127.0.0.1:{port}.evil.example", "127.0.0.1", "127.0.0.1:1"):
        assert post(port, Host=host) == 403
    for origin in ("http://evil.example", "null", f"https://127.0.0.1:{port}", f"http://127.0.0.1:{port}0", "file://"):
        assert post(port, Origin=origin) == 403
    for token in ("", "Bearer", "Bearer ", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN):
        assert post(port, Authorization=token) == 401


def test_guessed_sessions_and_bodies_that_cannot_be_are_refused(port: int) -> None:
    assert post(port, json.dumps(PING).encode(), Mcp_Session_Id="0" * 32, Mcp_Protocol_Version="2025-11-25") == 404
    assert post(port, b"x" * (4 * 1024**2 + 1)) == 413
    for body in (b"nope", b"[" * 100_000, b'{"x": NaN}', b"\xff\xfe", b"[]"):
        assert 400 <= post(port, body) < 500
    assert post(port) == 200


def drip(port: int, request: bytes) -> bytes:
    """The answer to a request of which no more comes; empty when the connection is ended without one."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(request)
        return connection.recv(4096)


def test_a_client_that_does_not_finish_what_it_says_is_not_waited_for(port: int) -> None:
    assert drip(port, b"POST /mcp HTTP/1.1\r\nX: y").startswith(b"HTTP/1.1 408")
    assert drip(port, b"").startswith(b"HTTP/1.1 408")
    head = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 9\r\n"
    head += "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\r\n"
    for version in ("", "Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n"):
        slow = head.replace("Content-Length", f"{version}Content-Length").encode() + b"{"
        answer = drip(port, slow)
        assert answer.startswith(b"HTTP/1.1 408") and b"connection: close" in answer
    assert post(port) == 200


def test_answers_are_not_held_back_for_the_one_before(served: Served) -> None:
    """Nagle's algorithm and delayed acknowledgements together cost 40 ms a call."""

    async def main() -> int:
        seen: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            held = writer.get_extra_info("socket")
            seen.set_result(held.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        with listen("127.0.0.1", 0) as listening:
            server = await asyncio.start_server(connected, sock=listening)
            async with server:
                _, writer = await asyncio.open_connection(*listening.getsockname())
                found = await seen
                writer.close()
                return found

    assert asyncio.run(main()) != 0


def test_a_guard_that_does_not_look_at_the_origin_would_be_noticed() -> None:
    """The planted bug: DNS rebinding, where the token is known but the page is somebody else's."""

    class Blind(Guard):
        def _refusal(self, headers: dict[bytes, list[bytes]]) -> tuple[int, str] | None:
            return super()._refusal({name: values for name, values in headers.items() if name != b"origin"})

    def status(kind: type[Guard]) -> int:
        sent: list[dict[str, Any]] = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 200})

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        async def receive() -> dict[str, Any]:
            return {"type": "http.request"}

        guard = kind(app, hosts=frozenset({"h:1"}), origins=frozenset({"http://h:1"}), token=TOKEN)
        headers = [(b"host", b"h:1"), (b"origin", b"http://evil"), (b"authorization", f"Bearer {TOKEN}".encode())]
        asyncio.run(guard({"type": "http", "headers": headers}, receive, send))
        return int(sent[0]["status"])

    assert status(Guard) == 403 and status(Blind) == 200


# --- the command --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["fs"], 2, "no folder is given"),
        (["fs", "--root", "nowhere"], 2, "no such folder"),
        (["fs", "--root", "/"], 2, "whole machine"),
        (["nope", "--root", "."], 2, "unknown tool"),
        (["fs", "--root", ".", "--http", "0.0.0.0:0"], 2, "reached from outside"),
        (["fs", "--root", ".", "--http", "127.0.0.1"], 2, "not HOST:PORT"),
        (["fs", "--root", ".", "--http", "127.0.0.1:99999"], 2, "not HOST:PORT"),
        (["fs", "--root", ".", "--token-file", "open"], 2, "belong to --http"),
        (["fs", "--root", ".", "--http", "127.0.0.1:0", "--token-file", "none"], 3, "cannot be read"),
        (["fs", "--root", ".", "--http", "127.0.0.1:0", "--token-file", "open"], 3, "read by others"),
        (["fs", "--root", ".", "--http", "127.0.0.1:0", "--token-file", "short"], 2, "16 or more"),
    ],
)
def test_serve_refuses_what_is_not_safe_or_not_there(
    arguments: list[str],
    status: int,
    said: str,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(root)
    for name, text, mode in (("open", TOKEN, 0o644), ("short", "short", 0o600)):
        (root / name).write_text(text)
        (root / name).chmod(mode)
    assert run(["mcp", "serve", *arguments]) == status
    assert said in capsys.readouterr().err


def test_read_only_serves_nothing_that_writes(make: Callable[..., Any], root: Path) -> None:
    from mcp import Client

    from apex_mcp_edge.launch import Offer, door

    async def work() -> None:
        service, capability = door(make, Offer(("fs",), root, read_only=True))
        async with Client(Served(service, capability).server()) as client:
            assert all(t.annotations and t.annotations.read_only_hint for t in (await client.list_tools()).tools)
        refused = await service.use(capability, "fs.write", {"path": "x", "text": ""})
        assert refused.error == "E_POLICY" and not (root / "x").exists()

    asyncio.run(work())


def test_what_a_tool_prints_never_comes_between_the_messages(root: Path) -> None:
    code = (
        "import asyncio, os, sys\nfrom apex_mcp_edge.stdio import stdio\n"
        "async def work():\n async with stdio() as (incoming, outgoing):\n"
        "  print('printed'); os.system('echo shouted; cat'); sys.stdout.flush()\n"
        "  async with incoming:\n   async for message in incoming: print(message.message.method)\n"
        "asyncio.run(work())\n"
    )
    import subprocess

    line = json.dumps(PING) + "\n"
    done = subprocess.run([sys.executable, "-c", code], input=line, capture_output=True, text=True, timeout=30)
    assert done.stdout == "" and all(word in done.stderr for word in ("printed", "shouted", "ping"))
