"""Large results: kept by the door, read in pages by whom they were made for."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from doors import NAMES, SPECS, Nowhere, Server, at_door, capability

from apex_framework.errors import ConfigError
from apex_framework.interfaces import ToolCall, ToolResult, ToolSpec
from apex_framework.services.tools.resources import PAGE, Resources

LARGE = {"text": "zeile ä\n" * 4_000, "passed": 3, "name": "short", "tests": list(range(2_000))}
LIMITS = {"tool_result_bytes": 4_096}


async def gives(call: ToolCall) -> ToolResult:
    return ToolResult(True, {**LARGE, "for": call.capability.agent_id})


def reads(*asked: Any, limits: Any = LIMITS, first: Any = None) -> list[ToolResult]:
    """The answer of a large call, and what readings with (capability, arguments) of it give."""

    async def scenario(door: Any) -> Any:
        answer = await door.use(first or capability(), "x.look", {})
        found = [answer]
        for who, arguments in asked:
            found.append(await door.use(who, "resource.read", {"uri": answer.value.get("resource", ""), **arguments}))
        return found

    return at_door(scenario, Server(gives), limits=limits)[0]


def test_a_large_result_comes_with_its_short_fields_its_head_and_an_address() -> None:
    (answer,) = reads()
    value = answer.value
    assert answer.ok and (value["passed"], value["name"]) == (3, "short") and "tests" not in value
    assert value["resource"].startswith("apex://results/") and value["size"] > 30_000 and len(value["head"]) == 2_000
    assert reads(limits={})[0].value["text"] == LARGE["text"]


def test_what_stands_in_the_place_of_a_large_result_is_small_whatever_its_fields() -> None:
    async def floods(call: ToolCall) -> ToolResult:
        return ToolResult(True, {**{f"n{n}": n for n in range(50_000)}, "k" * 100_000: 1})

    async def scenario(door: Any) -> Any:
        return await door.use(capability(), "x.look", {})

    value = at_door(scenario, Server(floods), limits=LIMITS)[0].value
    assert value["resource"].startswith("apex://results/") and len(json.dumps(value)) < 8_000


@pytest.mark.parametrize("limit", [1_000, 7_777, PAGE])
def test_pages_are_the_whole(limit: int) -> None:
    async def scenario(door: Any) -> str:
        uri = (await door.use(capability(), "x.look", {})).value["resource"]
        text, offset = "", 0
        while offset is not None:
            page = (await door.use(capability(), "resource.read", {"uri": uri, "offset": offset, "limit": limit})).value
            text, offset = text + page["text"], page["next"]
        return text

    text, _ = at_door(scenario, Server(gives), limits={**LIMITS, "tool_loop_after": 0})
    assert json.loads(text) == {**LARGE, "for": "coder1"}


OTHERS: dict[str, Any] = {
    "another agent": capability(agent_id="coder2"),
    "another role": capability(role="critic"),
    "another workspace": replace(capability(), workspace=Nowhere()),
}


@pytest.mark.parametrize("who", OTHERS)
def test_nobody_else_can_tell_that_it_is_there(who: str) -> None:
    _, theirs, missing = reads((OTHERS[who], {}), (OTHERS[who], {"uri": "apex://results/none"}))
    assert theirs.error == missing.error == "E_NOTFOUND" and not theirs.value


def test_a_narrowed_capability_reads_what_it_could_still_call() -> None:
    held = capability("x.look", "x.put")
    results = reads((held.narrowed(frozenset({"x.look"})), {}), (held.narrowed(frozenset({"x.put"})), {}), first=held)
    assert [result.error for result in results] == ["", "", "E_POLICY"]


def test_past_the_end_and_wrong_arguments() -> None:
    me = capability()
    _, past, negative, much, kind = reads(
        (me, {"offset": 10**9}), (me, {"offset": -1}), (me, {"limit": PAGE + 1}), (me, {"uri": 7})
    )
    assert past.value["text"] == "" and past.value["next"] is None
    assert [result.error for result in (negative, much, kind)] == ["E_ARG"] * 3


def test_what_is_kept_is_bounded_and_the_oldest_goes_first() -> None:
    kept, spec = Resources(most=1_000), SPECS[0]
    values = [kept.keep(ToolCall("x.look", {}, capability()), spec, {}, f"{n}" + "x" * 400) for n in (1, 2, 2, 3)]
    assert [kept.is_gone(value) for value in values] == [True, False, False, False]
    assert values[1]["resource"] == values[2]["resource"]
    assert not kept.is_gone({}) and not kept.is_gone({"resource": "http://else"})


def test_the_name_of_the_doors_own_tool_is_taken() -> None:
    server = Server()
    server.tools = (ToolSpec("resource.read", "", {"type": "object"}),)

    async def scenario(door: Any) -> None:
        """Never gets here."""

    with pytest.raises(ConfigError, match=r"resource\.read"):
        at_door(scenario, server)


def test_planted_a_resource_for_everybody_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    from apex_framework.services.tools import resources

    monkeypatch.setattr(resources, "_same", lambda owner, asking: True)
    assert reads((OTHERS["another agent"], {}))[1].ok and NAMES
