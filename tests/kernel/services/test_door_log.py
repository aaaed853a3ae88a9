"""The log of operations: one row per call, short, the same for the same calls, and without secrets; and progress."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest
from doors import Server, at_door, capability, of

from apex_framework.events import OperationLogged, ToolProgressed
from apex_framework.interfaces import ToolCall, ToolResult
from apex_framework.services.tools import oplog
from apex_framework.services.tools.oplog import HIDDEN, known_secrets

KEY = "sk-proj-abcdefghijklmnop1234"
SECRETS: dict[str, Any] = {
    "by name": {"password": "hunter22", "path": "a"},
    "by name below": {"options": [{"API_KEY": "hunter22"}]},
    "a whole table": {"credentials": {"user": "u", "value": "hunter22"}},
    "a key in a text": {"text": f"OPENAI = '{KEY}' # hunter22-free"},
    "a bearer": {"text": "Authorization: Bearer hunter22hunter22"},
    "a private key": {"text": "-----BEGIN RSA PRIVATE KEY-----\nhunter22\n-----END RSA PRIVATE KEY-----"},
    "an address": {"url": "https://user:hunter22@host/x"},
    "known from outside": {"text": "the word is tr0ub4dor-hunter"},
}


def rows(*calls: dict[str, Any], act: Any = None, **options: Any) -> list[OperationLogged]:
    async def scenario(door: Any) -> None:
        for arguments in calls:
            await door.use(capability(epoch=3), "x.put", arguments, episode_id="e")

    return of(at_door(scenario, Server(act), **options)[1], OperationLogged)


def test_a_row_says_who_did_what_with_which_result() -> None:
    async def works(call: ToolCall) -> ToolResult:
        await asyncio.sleep(0.25)
        return ToolResult(True, {"n": 1})

    one, two, other = rows({"b": 1, "a": "x"}, {"a": "x", "b": 1}, {"a": "y"}, act=works)
    assert (one.n, two.n, one.agent_id, one.role, one.tool, one.epoch) == (1, 2, "coder1", "coder", "x.put", 3)
    assert (one.decision, one.arguments, one.result_bytes) == ("ok", '{"a": "x", "b": 1}', len('{"n": 1}'))
    assert one.arguments_digest == two.arguments_digest != other.arguments_digest
    assert one.result_digest == other.result_digest
    assert (one.ts, two.ts, one.elapsed_ms) == (0.0, 0.25, 250)


def test_the_same_calls_leave_the_same_rows() -> None:
    calls = [{"text": "ä" * n, "n": n, "deep": {"list": [n]}} for n in range(20)]
    assert rows(*calls) == rows(*calls)


@pytest.mark.parametrize("where", SECRETS)
def test_secrets_are_not_in_a_row(where: str) -> None:
    async def echoes(call: ToolCall) -> ToolResult:
        return ToolResult(False, error="E_ARG", detail=f"cannot take {call.arguments.get('text', '')}")

    (row,) = rows(SECRETS[where], act=echoes, secrets=("tr0ub4dor-hunter",))
    text = f"{row.arguments} {row.detail}"
    assert HIDDEN in row.arguments and "hunter22hunter22" not in text and KEY not in text and "tr0ub4dor" not in text
    assert "hunter22" not in text.replace("hunter22-free", "")


def test_what_is_not_secret_stays() -> None:
    plain = {"path": "src/tokens.py", "max_tokens": 5, "text": "passes the test; a key = b; http://host:80/x@y"}
    (row,) = rows(plain)
    assert json.loads(row.arguments) == plain


def test_values_of_secret_variables_are_known() -> None:
    found = known_secrets({"GITHUB_TOKEN": "abcdefgh1", "HOME": "/tmp", "MY_PASSWORD": "short", "API_KEY": "k" * 20})
    assert found == ("k" * 20, "abcdefgh1")


def test_planted_a_log_without_redaction_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oplog, "redacted", lambda value, text, secrets=(): text or "")
    assert "hunter22" in rows(SECRETS["by name"])[0].arguments


def test_rows_are_bounded_and_printable_whatever_the_call() -> None:
    circle: dict[str, Any] = {}
    circle["self"] = circle
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"d": deep}
    strange = [
        {"text": "x" * 10**6},
        circle,
        deep,
        {"a": b"bytes"},
        {"t": "\x1b]0;boo\x07\ud800\u202e"},
        {1: 2, "a": 3},
    ]

    async def talks(call: ToolCall) -> ToolResult:
        return ToolResult(False, error="E_TOOL", detail="\x1b[31m" + "y" * 10**6)

    for row in rows(*strange, act=talks):
        assert len(row.arguments) <= oplog.SHORT and len(row.detail) <= oplog.DETAIL
        assert row.arguments.isprintable() and row.detail.isprintable()
        json.dumps(row.arguments).encode()


def test_a_cancelled_call_is_a_row_too() -> None:
    async def hangs(call: ToolCall) -> ToolResult:
        await asyncio.sleep(100.0)
        return ToolResult(True)

    async def scenario(door: Any) -> None:
        task = asyncio.create_task(door.use(capability(), "x.put", {}))
        await asyncio.sleep(1.0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    (row,) = of(at_door(scenario, Server(hangs))[1], OperationLogged)
    assert (row.decision, row.elapsed_ms, row.result_bytes) == ("cancelled", 1000, 2)


# --- progress -----------------------------------------------------------------------------------


def told(act: Any, progress: Any = None) -> tuple[ToolResult, list[ToolProgressed]]:
    async def scenario(door: Any) -> Any:
        result = await door.use(capability(), "x.look", {}, episode_id="e", progress=progress)
        await asyncio.sleep(5.0)
        return result

    result, events = at_door(scenario, Server(act))
    return result, of(events, ToolProgressed)


def test_progress_is_told_at_most_once_in_a_second() -> None:
    async def works(call: ToolCall) -> ToolResult:
        for n in range(100):
            await asyncio.sleep(0.1)
            call.progress(n / 50, "at " + str(n) * 200)
        return ToolResult(True)

    heard: list[float] = []
    result, events = told(works, lambda share, text: heard.append(share))
    assert result.ok and 8 <= len(events) <= 10 and heard == [event.share for event in events]
    assert all(0 <= event.share <= 1 and len(event.text) <= 200 for event in events)
    assert (events[0].episode_id, events[0].agent_id, events[0].tool) == ("e", "coder1", "x.look")


def test_progress_of_a_call_that_is_over_and_nonsense_do_nothing() -> None:
    kept: list[Any] = []

    async def works(call: ToolCall) -> ToolResult:
        await asyncio.sleep(2.0)
        kept.append(call.progress)
        call.progress("much", None)
        call.progress(float("nan"), "nobody knows")
        asyncio.get_running_loop().call_later(2.0, call.progress, 0.5, "too late")
        return ToolResult(True)

    result, events = told(works)
    assert result.ok and [(event.share, event.text) for event in events] == [(0.0, "nobody knows")]


def test_a_listener_that_breaks_fails_no_call() -> None:
    async def works(call: ToolCall) -> ToolResult:
        await asyncio.sleep(2.0)
        call.progress(0.5, "half")
        return ToolResult(True)

    def breaks(share: float, text: str) -> None:
        raise ValueError(text)

    assert told(works, breaks)[0].ok


def test_progress_from_another_thread_is_told_in_the_loop() -> None:
    async def works(call: ToolCall) -> ToolResult:
        await asyncio.sleep(2.0)
        thread = threading.Thread(target=call.progress, args=(0.5, "half"))
        thread.start()
        thread.join()
        await asyncio.sleep(0.1)
        return ToolResult(True)

    assert [event.text for event in told(works)[1]] == ["half"]
