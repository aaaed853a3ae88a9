"""The evil client: attacks on A2A servers and on those who believe cards, each with the code that refuses it.

For one's own tests: ``besieged`` builds a server on this machine, ``ATTACKS`` are tried on it; ``siege`` does all of it.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from apex_framework import Catalog, Router, RouteTable
from apex_framework.interfaces import AgentID, Member, Roster
from apex_framework.ports import LoopClock

from .bridge import A2ABridge, Outsider
from .envelope import EXTENSION
from .grpc_door import ANY_PORT
from .refusal import (
    CODES,
    E_ARG,
    E_AUTH,
    E_AUTHZ,
    E_DEPTH,
    E_EPOCH,
    E_NOTFOUND,
    E_POLICY,
    E_QUOTA,
    E_SIZE,
    E_SLOW,
    E_URL,
)
from .server import Running, serving
from .settings import Settings, settings_from, token_hash
from .work import Done, Job

TOKENS: Final = {"alice": "evil-alice", "bob": "evil-bob", "fuzz": "evil-fuzz"}
FILES: Final = {"m.py": "x = 1\n"}
PATIENCE_S: Final = 20.0


class HeldWork:
    """Jobs that never end, each with a real router and bridge: what gets through is in the router."""

    def __init__(self, catalog: Catalog, *, hold: bool = True) -> None:
        self._catalog, self._hold = catalog, hold
        self.routers: list[Router] = []
        self.begun = asyncio.Semaphore(0)

    @property
    def reached(self) -> int:
        """Messages in the routers."""
        return sum(router.open for router in self.routers)

    async def do(
        self,
        job: Job,
        report: Callable[[str], Awaitable[None]],
        deliver: Callable[[dict[str, Any]], Awaitable[None]],
        opened: Callable[[A2ABridge], None],
    ) -> Done:
        if not self._hold:
            return Done("finished", "", 0, 0, 0, 0, 0)
        clock, make = LoopClock(asyncio.get_running_loop()), self._catalog.make
        seats = (AgentID(f"{job.principal}_guest"),) if job.principal == "alice" else ()
        inner = tuple(Member(AgentID(name), name) for name in ("planner", "coder"))
        roster = Roster((*inner, *(Member(seat, "guest") for seat in seats)), AgentID("planner"))
        router = Router(
            RouteTable.compile(make("topology", "flat"), roster),
            lanes=make("lane", "drr_wred"),
            transport=make("transport", "inproc"),
            clock=clock,
            rng=random.Random(0),
        )
        self.routers.append(router)
        outsiders = {job.principal: Outsider(job.principal, seats, frozenset({"planner"}))}
        opened(A2ABridge(router, roster, job.id, outsiders, clock=clock))
        self.begun.release()
        await asyncio.Event().wait()
        raise AssertionError("never")

    async def close(self) -> None: ...


@dataclass
class Siege:
    """A server under attack, and a task of each principal that runs there."""

    running: Running
    held: HeldWork
    tasks: dict[str, str] = field(default_factory=dict)

    async def raw(self, request: bytes, *, more: bytes = b"", every_s: float = 0.0) -> str:
        """The code that answers raw bytes, dripping ``more`` a byte at a time."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.running.http_port)
        try:
            writer.write(request)
            for byte in more:
                if reader.at_eof() or reader._buffer:  # type: ignore[attr-defined]  # nothing public says that an answer has begun
                    break
                writer.write(bytes([byte]))
                await asyncio.sleep(every_s)
            async with asyncio.timeout(PATIENCE_S):
                answer = await reader.read(-1)
        except (ConnectionError, TimeoutError):
            return "none"
        finally:
            writer.close()
        head, _, body = answer.partition(b"\r\n\r\n")
        return _code(int(head[9:12] or b"0"), body)

    async def post(self, body: bytes, *, token: str = "alice", **headers: str) -> str:
        """The code that answers a body."""
        return await self.raw(self.head(len(body), token, **headers) + body)

    def head(self, size: int, token: str = "alice", **headers: str) -> bytes:
        """The head of a POST."""
        lines = {
            "Host": "127.0.0.1", "Content-Type": "application/json", "Content-Length": str(size), "A2A-Version": "1.0",
            "Connection": "close",
        }  # fmt: skip
        if token:
            lines["Authorization"] = token if " " in token else f"Bearer {TOKENS.get(token, token)}"
        lines.update({name.replace("_", "-"): value for name, value in headers.items()})
        return "".join(["POST / HTTP/1.1\r\n", *(f"{k}: {v}\r\n" for k, v in lines.items()), "\r\n"]).encode()

    async def call(self, method: str, params: Mapping[str, Any], token: str = "alice") -> str:
        """The code that answers a call."""
        return await self.post(call(method, params), token=token)

    async def envelope(self, token: str = "alice", message_id: str = "e1", **changes: Any) -> str:
        """The code that answers an envelope for the principal's own task."""
        table = {"episode": self.tasks[token], "epoch": 0, "audience": "planner", **changes}
        message = {
            "messageId": message_id, "role": "ROLE_USER", "taskId": self.tasks[token],
            "parts": [{"data": {"kind": "note"}}], "metadata": {EXTENSION: table},
        }  # fmt: skip
        return await self.call("SendMessage", {"message": message}, token)


def call(method: str, params: Mapping[str, Any], number: object = 1) -> bytes:
    """A JSON-RPC call."""
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()


def job_message(**changes: Any) -> dict[str, Any]:
    """A message that begins a task."""
    parts = [{"text": "it is broken"}, {"data": {"files": FILES}}]
    return {"messageId": "j1", "role": "ROLE_USER", "parts": parts, **changes}


def _code(status: int, body: bytes) -> str:
    try:
        answer = json.loads(body)
        error = answer["error"]
    except (ValueError, KeyError, TypeError):
        return {408: E_SLOW, 429: E_QUOTA}.get(status, f"http {status}")
    if error["code"] == -32001:
        return E_NOTFOUND
    word = str(error["message"]).partition(":")[0]
    return word if word in CODES else f"rpc {error['code']}"


async def _connections(siege: Siege) -> str:
    """More connections than are served: the one too many is turned away at once."""
    opened = []
    try:
        for _ in range(siege.running.settings.server.connections + 1):
            opened.append(await asyncio.open_connection("127.0.0.1", siege.running.http_port))  # noqa: PERF401 - what was opened is closed, also when the next one fails
        async with asyncio.timeout(PATIENCE_S):
            answer = await opened[-1][0].read(-1)
        return _code(int(answer[9:12] or b"0"), b"")
    finally:
        for _, writer in opened:
            writer.close()
        await asyncio.sleep(0.05)


def _push(url: str) -> Callable[[Siege], Awaitable[str]]:
    return lambda s: s.call("CreateTaskPushNotificationConfig", {"taskId": s.tasks["alice"], "id": "p", "url": url})


def _job(**changes: Any) -> Callable[[Siege], Awaitable[str]]:
    return lambda s: s.call("SendMessage", {"message": job_message(**changes)}, "fuzz")


def _nested(depth: int) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":' + b"[" * depth + b"]" * depth + b"}}"


Attack = tuple[str, Callable[[Siege], Awaitable[str]]]

ATTACKS: Final[Mapping[str, Attack]] = {
    "no token": (E_AUTH, lambda s: s.post(call("ListTasks", {}), token="")),
    "unknown token": (E_AUTH, lambda s: s.post(call("ListTasks", {}), token="nobody")),
    "another scheme": (E_AUTH, lambda s: s.post(call("ListTasks", {}), token="Basic ZXZpbDpldmls")),
    "the hash as token": (E_AUTH, lambda s: s.post(call("ListTasks", {}), token=token_hash(TOKENS["alice"]))),
    "from a web page": (E_AUTHZ, lambda s: s.post(call("ListTasks", {}), Origin="http://evil.example")),
    "body too large": (E_SIZE, lambda s: s.post(b" " * 600_000)),
    "a gigabyte announced": (E_SIZE, lambda s: s.raw(s.head(10**9))),
    "compressed body": (E_ARG, lambda s: s.post(b"\x1f\x8b" + b"\0" * 50, Content_Encoding="gzip")),
    "nested ten thousand deep": (E_DEPTH, lambda s: s.post(_nested(10_000))),
    "a name given twice": (
        E_ARG,
        lambda s: s.post(b'{"jsonrpc":"2.0","id":1,"method":"ListTasks","method":"GetTask"}'),
    ),
    "not a number": (E_ARG, lambda s: s.post(b'{"jsonrpc":"2.0","id":NaN,"method":"ListTasks"}')),
    "a lone surrogate": (E_ARG, lambda s: s.post(b'{"jsonrpc":"2.0","id":"\\ud800","method":"ListTasks"}')),
    "an integer of 5,000 digits": (
        E_ARG,
        lambda s: s.post(b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"x"}'),
    ),
    "a batch": (E_ARG, lambda s: s.post(b"[" + call("ListTasks", {}) + b"]")),
    "no JSON": (E_ARG, lambda s: s.post(b"\xff\xfe{}")),
    "a tool called from outside": (E_POLICY, lambda s: s.call("tools/call", {"name": "fs.write"})),
    "a model called from outside": (E_POLICY, lambda s: s.call("llm/generate", {"prompt": "x"})),
    "head drips": (E_SLOW, lambda s: s.raw(b"POST / HTTP/1.1\r\nX: ", more=b"y" * 60, every_s=0.1)),
    "body drips": (E_SLOW, lambda s: s.raw(s.head(100), more=b" " * 60, every_s=0.1)),
    "too many connections": (E_QUOTA, _connections),
    "another's task, read": (E_NOTFOUND, lambda s: s.call("GetTask", {"id": s.tasks["alice"]}, "bob")),
    "another's task, cancelled": (E_NOTFOUND, lambda s: s.call("CancelTask", {"id": s.tasks["alice"]}, "bob")),
    "another's task, spoken to": (
        E_NOTFOUND,
        lambda s: s.call("SendMessage", {"message": job_message(taskId=s.tasks["alice"])}, "bob"),
    ),
    "too many tasks": (E_QUOTA, lambda s: s.call("SendMessage", {"message": job_message()}, "alice")),
    "a path out of the project": (E_ARG, _job(parts=[{"text": "x"}, {"data": {"files": {"../x.py": ""}}}])),
    "an address to fetch": (E_ARG, _job(parts=[{"text": "x"}, {"url": "http://169.254.169.254/", "filename": "a"}])),
    "claims an inside role": (E_AUTHZ, lambda s: s.envelope(sender="planner")),
    "speaks without a seat": (E_AUTHZ, lambda s: s.envelope("bob")),
    "broadcasts": (E_AUTHZ, lambda s: s.envelope(audience="BROADCAST")),
    "broadcasts in company": (E_AUTHZ, lambda s: s.envelope(audience="planner+BROADCAST")),
    "speaks to whom it may not": (E_AUTHZ, lambda s: s.envelope(audience="coder")),
    "speaks to nobody": (E_NOTFOUND, lambda s: s.envelope(audience="ghost")),
    "an epoch ahead": (E_EPOCH, lambda s: s.envelope(epoch=1)),
    "epoch -1": (E_ARG, lambda s: s.envelope(epoch=-1)),
    "epoch 2^63": (E_ARG, lambda s: s.envelope(epoch=2**63)),
    "half an epoch": (E_ARG, lambda s: s.envelope(epoch=0.5)),
    "of another episode": (E_EPOCH, lambda s: s.envelope(episode="yesterday")),
    "lives for ever": (E_ARG, lambda s: s.envelope(ttl_s=10**9)),
    "attempt -1": (E_ARG, lambda s: s.envelope(attempt=-1)),
    "a tool called by envelope": (E_POLICY, lambda s: s.envelope(operation="tool")),
    "a field that nobody knows": (E_ARG, lambda s: s.envelope(approved_by="planner")),
    "an id with a newline": (E_ARG, lambda s: s.envelope(message_id="e\n1")),
    "push to loopback": (E_URL, _push("http://127.0.0.1:9/")),
    "push to cloud metadata": (E_URL, _push("http://169.254.169.254/latest/")),
    "push to mapped loopback": (E_URL, _push("http://[::ffff:7f00:1]/")),
    "push to a decimal address": (E_URL, _push("http://2130706433/")),
    "push to a private network": (E_URL, _push("http://10.0.0.1/")),
    "push with a user's name": (E_URL, _push("http://a:b@127.0.0.1/")),
    "push to a file": (E_URL, _push("file:///etc/passwd")),
}
"""Name -> (code that must refuse it, the attack)."""


def evil_settings() -> Settings:
    """A server that offers the attacker as much as a server may: seats, push, short times."""
    principals: dict[str, Any] = {
        name: {"token_sha256": token_hash(token), "tasks": 1, "bytes_per_minute": 10**12}
        for name, token in TOKENS.items()
    }
    principals["fuzz"] |= {"tasks": 1000, "kept": 20}
    return settings_from(
        {
            "server": {"port": 0, "grpc_port": ANY_PORT, "header_s": 1.0, "body_s": 3.0, "connections": 24},
            "push": {"enabled": True, "plain_http": True, "deadline_s": 2.0},
            "work": {"tasks_at_once": 1000},
            "principals": principals,
        }
    )


@asynccontextmanager
async def besieged(catalog: Catalog) -> AsyncIterator[Siege]:
    """A server with a running task of alice, who has a seat, and one of bob, who has none."""
    held = HeldWork(catalog)
    async with serving(evil_settings(), catalog, work=held) as running:
        siege = Siege(running, held)
        for name in ("alice", "bob"):
            siege.tasks[name] = await _begin(siege, name)
        yield siege


async def _begin(siege: Siege, name: str) -> str:
    params = {"message": job_message(), "configuration": {"returnImmediately": True}}
    body = call("SendMessage", params)
    reader, writer = await asyncio.open_connection("127.0.0.1", siege.running.http_port)
    writer.write(siege.head(len(body), name) + body)
    answer = await reader.read(-1)
    writer.close()
    task = str(json.loads(answer.partition(b"\r\n\r\n")[2])["result"]["task"]["id"])
    await siege.held.begun.acquire()
    return task
