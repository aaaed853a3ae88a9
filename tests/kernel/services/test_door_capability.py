"""What a capability allows: tools, scopes, its epoch; and that nothing on the way makes it wider."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from doors import NAMES, Server, at_door, capability

from apex_framework.interfaces import Capability, Point

SCOPES = ("network", "secrets", "other")


def test_a_scope_that_a_tool_needs_must_be_held() -> None:
    server = Server()

    async def scenario(door: Any) -> Any:
        return [
            await door.use(capability(scopes=frozenset(held)), tool, {})
            for held, tool in (((), "x.call"), (("network",), "x.call"), (("network",), "x.peek"), (SCOPES, "x.peek"))
        ]

    (without, held, half, all_), _ = at_door(scenario, server)
    assert (without.error, without.detail) == ("E_POLICY", "x.call needs the scope network")
    assert (half.error, half.detail) == ("E_POLICY", "x.peek needs the scope secrets")
    assert held.ok and all_.ok and [call.tool for call in server.calls] == ["x.call", "x.peek"]


@pytest.mark.parametrize("held", [-1, 0, 1, 3, 2**63])
def test_a_capability_of_another_epoch_changes_nothing_and_may_still_look(held: int) -> None:
    server = Server()

    async def scenario(door: Any) -> Any:
        stale = capability(epoch=held, scopes=frozenset(SCOPES))
        return [await door.use(stale, tool, {}) for tool in ("x.put", "x.call", "x.look")]

    (put, call, look), _ = at_door(scenario, server, epoch=lambda: 2)
    assert put.error == call.error == "E_EPOCH" and look.ok
    assert f"epoch {held}" in put.detail and "epoch 2 is in force" in put.detail
    assert [call.tool for call in server.calls] == ["x.look"]


def test_a_capability_of_the_epoch_in_force_works_until_the_epoch_ends() -> None:
    epoch = [1]

    async def scenario(door: Any) -> Any:
        held = capability(epoch=1)
        before = await door.use(held, "x.put", {})
        epoch[0] = 2
        return before, await door.use(held, "x.put", {}), await door.use(replace(held, epoch=2), "x.put", {})

    (before, after, anew), _ = at_door(scenario, epoch=lambda: epoch[0])
    assert (before.ok, after.error, anew.ok) == (True, "E_EPOCH", True)


class Changes:
    """An interceptor that hands another capability on."""

    name = "changes"
    points = frozenset({Point.TOOL_CALL})

    def __init__(self, change: Callable[[Capability], Capability]) -> None:
        self.change = change

    async def around(self, passing: Any, proceed: Any) -> Any:
        call = passing.subject
        return await proceed(replace(passing, subject=replace(call, capability=self.change(call.capability))))


WIDER: dict[str, Callable[[Capability], Capability]] = {
    "another tool": lambda c: replace(c, tools=c.tools | {"x.put"}),
    "another scope": lambda c: replace(c, scopes=c.scopes | {"network"}),
    "another workspace": lambda c: replace(c, workspace=object()),
    "another agent": lambda c: replace(c, agent_id="lead"),
    "another role": lambda c: replace(c, role="lead"),
    "another epoch": lambda c: replace(c, epoch=7),
}


@pytest.mark.parametrize("what", WIDER)
def test_an_interceptor_that_widens_a_capability_is_refused(what: str) -> None:
    server = Server()

    async def scenario(door: Any) -> Any:
        return await door.use(capability("x.look"), "x.look", {})

    result, _ = at_door(scenario, server, interceptors=[Changes(WIDER[what])])
    assert (result.error, result.detail) == ("E_POLICY", "an interceptor made the capability wider")
    assert server.calls == []


def test_an_interceptor_may_narrow() -> None:
    async def scenario(door: Any) -> Any:
        return await door.use(capability("x.look", "x.put"), "x.put", {})

    narrows = Changes(lambda c: c.narrowed(frozenset({"x.look"})))
    assert at_door(scenario, interceptors=[narrows])[0].error == "E_POLICY"


def widened(narrow: Callable[[Capability, Any, Any], Capability], seeds: int = 200) -> str:
    """What a chain of narrowings gave that was not there before; empty when nothing."""
    for seed in range(seeds):
        rng = random.Random(seed)
        some = lambda names: frozenset(n for n in names if rng.random() < 0.5)  # noqa: E731, B023 - used at once
        held = capability(scopes=some(SCOPES), epoch=rng.randrange(5))
        held = replace(held, tools=some(NAMES))
        for _ in range(4):
            asked, scopes = rng.choice((None, some((*NAMES, "y.z")))), rng.choice((None, some((*SCOPES, "more"))))
            less = narrow(held, asked, scopes)
            if not (less.tools <= held.tools and less.scopes <= held.scopes):
                return f"seed {seed}: {held.tools}/{held.scopes} asked for {asked}/{scopes} became {less}"
            if replace(less, tools=held.tools, scopes=held.scopes) != held:
                return f"seed {seed}: more than tools and scopes changed"
            held = less
    return ""


def test_narrowing_never_widens() -> None:
    assert widened(lambda c, tools, scopes: c.narrowed(tools, scopes)) == ""


PLANTED: dict[str, Callable[[Capability, Any, Any], Capability]] = {
    "union of tools": lambda c, tools, scopes: replace(c, tools=c.tools | (tools or frozenset())),
    "takes what is asked": lambda c, tools, scopes: replace(c, scopes=c.scopes if scopes is None else scopes),
    "a new epoch": lambda c, tools, scopes: replace(c.narrowed(tools, scopes), epoch=c.epoch + 1),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_planted_narrowing_that_widens_shows(bug: str) -> None:
    assert widened(PLANTED[bug]) != ""
