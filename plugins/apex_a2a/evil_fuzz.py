"""Spoilt bodies: well-formed calls with bytes and structure gone wrong, straight into a server's application."""

from __future__ import annotations

import asyncio
import copy
import json
import random
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from apex_framework import Catalog

from .envelope import EXTENSION
from .evil import PATIENCE_S, TOKENS, HeldWork, call, evil_settings, job_message
from .server import Running, serving


def seeds() -> list[bytes]:
    """Calls that are well formed, to be spoilt."""
    envelope = job_message(metadata={EXTENSION: {"episode": "x", "epoch": 0, "audience": "planner"}}, taskId="t")
    return [
        call("SendMessage", {"message": job_message()}),
        call("SendStreamingMessage", {"message": job_message()}, "s"),
        call("SendMessage", {"message": envelope, "configuration": {"historyLength": 3}}),
        call("GetTask", {"id": "t", "historyLength": 1}),
        call("ListTasks", {"pageSize": 3, "pageToken": "x", "status": "TASK_STATE_WORKING"}, None),
        call("CancelTask", {"id": "t"}),
        call("SubscribeToTask", {"id": "t"}),
        call("CreateTaskPushNotificationConfig", {"taskId": "t", "url": "http://127.0.0.1/", "token": "x"}),
        call("GetTaskPushNotificationConfig", {"taskId": "t", "id": "p"}),
        call("DeleteTaskPushNotificationConfig", {"taskId": "t", "id": "p"}),
        call("GetExtendedAgentCard", {}),
    ]


_ODD: Final[tuple[Any, ...]] = (
    None,
    True,
    -1,
    0,
    2**31,
    2**63,
    2**70,
    1e308,
    0.5,
    "",
    "\x00",
    "\ud83d",
    "x" * 5000,
    [],
    {},
    [[]],
    "t",
)


def fuzzed_bodies(count: int, seed: int) -> list[bytes]:
    """Bodies spoilt by bytes and by structure."""
    rng, good = random.Random(seed), seeds()
    bodies = []
    for _ in range(count):
        body = rng.choice(good)
        bodies.append(spoilt(json.loads(body), rng) if rng.random() < 0.6 else torn(body, rng))
    return bodies


def torn(body: bytes, rng: random.Random) -> bytes:
    """Bytes changed, dropped, put in and repeated."""
    raw = bytearray(body or b" ")
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(raw))
        match rng.randrange(4):
            case 0:
                raw[at] = rng.randrange(256)
            case 1:
                del raw[at : at + rng.randint(1, 20)]
                raw = raw or bytearray(b" ")
            case 2:
                raw[at:at] = rng.choice((b"{", b"[", b'"', b"\\u0000", b"NaN", b"9" * 400, b"\xff", b",", b":"))
            case _:
                raw[at:at] = raw[at : at + rng.randint(1, 200)]
    return bytes(raw)


def spoilt(value: Any, rng: random.Random) -> bytes:
    """A call with a field or a few gone, or of another kind."""
    for _ in range(rng.randint(1, 3)):
        place = value
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = rng.choice(keys)
            if isinstance(place[key], dict | list) and rng.random() < 0.75:
                place = place[key]
                continue
            match rng.randrange(4):
                case 0 if isinstance(place, dict):
                    del place[key]
                case 1 if isinstance(place, dict):
                    place[rng.choice(("id", "task_id", "parts", "role", "tenant", "x", "metadata"))] = copy.deepcopy(
                        rng.choice(_ODD)
                    )
                case _:
                    place[key] = copy.deepcopy(rng.choice(_ODD))
            break
    return json.dumps(value).encode()


async def fuzz(catalog: Catalog, count: int, seed: int) -> dict[str, Any]:
    """Spoilt bodies, straight into the application. ``broken``: answers of 5xx or "internal error", and exceptions."""
    broken, first, grown, started = 0, "", 0, perf_counter()
    async with serving(evil_settings(), catalog, work=HeldWork(catalog, hold=False)) as running:
        warm = min(count // 10, 1000)
        before = resident()
        for number, body in enumerate(fuzzed_bodies(count, seed)):
            if number == warm:
                before = resident()
            try:
                status, answer = await inject(running, body)
                bad = status >= 500 or b'"code":-32603' in answer.replace(b" ", b"")
            except Exception as error:  # noqa: BLE001 - what a server raises is what this looks for
                bad, answer = True, repr(error).encode()
            broken += bad
            if bad and not first:
                first = f"{body[:300]!r} -> {answer[:300]!r}"
        grown = resident() - before
    seconds = perf_counter() - started
    return {
        "broken": broken, "first": first, "bodies": count, "per_s": count / max(seconds, 1e-9),
        "grown_mib": grown / 2**20,
    }  # fmt: skip


async def inject(running: Running, body: bytes) -> tuple[int, bytes]:
    """Status and answer of a body, given to the application without a socket."""
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "path": "/", "raw_path": b"/",
        "query_string": b"", "root_path": "", "scheme": "http", "server": ("127.0.0.1", 1), "client": ("127.0.0.1", 2),
        "headers": [
            (b"authorization", f"Bearer {TOKENS['fuzz']}".encode()), (b"a2a-version", b"1.0"),
            (b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()),
        ],
    }  # fmt: skip
    told, status, answer = False, 0, bytearray()
    gone = asyncio.Event()

    async def receive() -> dict[str, Any]:
        nonlocal told
        if told:
            await gone.wait()
            return {"type": "http.disconnect"}
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(event: Any) -> None:
        nonlocal status
        if event["type"] == "http.response.start":
            status = event["status"]
        else:
            answer.extend(event.get("body", b""))

    async with asyncio.timeout(PATIENCE_S):
        await running.threshold(scope, receive, send)
    return status, bytes(answer)


def resident() -> int:
    """Bytes of this process in memory; 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
    except (OSError, ValueError, IndexError):
        return 0
