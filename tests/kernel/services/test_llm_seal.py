"""Backends under seal: no attribute of an agent's context leads to one, and one that is called directly is told of."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping
from types import FunctionType, MethodType, ModuleType
from typing import Any

import pytest
from doors import Server

from apex_framework.budget import Guard, Ledger
from apex_framework.events import DirectCallBlocked
from apex_framework.interfaces import ChecksHealth, Health, LLMBackend, LLMRequest
from apex_framework.interfaces.budget import CallTags
from apex_framework.ports import LoopClock
from apex_framework.services import LLMService, ToolService, backends, llm
from apex_framework.services.breaker import Breakers
from apex_framework.testing.scripted import ScriptedBackend
from apex_framework.timeloop import run

TAGS = CallTags("r", "e", "coder1", "coder", 10_000)


class Healthy(ScriptedBackend):
    async def health(self) -> Health:
        return Health(True, "well")


def beneath(start: object) -> Iterator[object]:
    """Everything that attributes and items lead to, names of Python's own (``__…__``) and classes left out."""
    seen, todo = set[int](), deque([start])
    while todo:
        thing = todo.popleft()
        if id(thing) in seen or isinstance(thing, type | ModuleType | FunctionType | MethodType | str | bytes | int):
            continue
        seen.add(id(thing))
        yield thing
        if isinstance(thing, Mapping):
            todo.extend([*thing.keys(), *thing.values()])
        elif isinstance(thing, list | tuple | set | frozenset | deque):
            todo.extend(thing)
        todo.extend(vars(thing).values() if hasattr(thing, "__dict__") else ())
        for kind in type(thing).__mro__:
            names = kind.__dict__.get("__slots__", ())
            todo.extend(getattr(thing, n) for n in ([names] if isinstance(names, str) else names) if hasattr(thing, n))


def reached() -> list[str]:
    """Which real doors an agent that has both services in its hands, used and with breakers, finds."""

    async def work() -> list[str]:
        clock, backend, server = LoopClock(asyncio.get_running_loop()), Healthy("x"), Server()
        service = LLMService({"*": backend}, Guard(Ledger(), [], clock=clock), clock=clock, breakers=Breakers())
        tools = ToolService({"x": server}, clock=clock)
        await service.ask(TAGS, "hello", max_tokens=5)
        real = {id(backend): "backend", id(server): "server"}
        return [real[id(thing)] for thing in beneath([service, tools]) if id(thing) in real]

    return run(work())


def test_no_attribute_leads_to_a_backend_or_a_server() -> None:
    assert reached() == []


def test_planted_a_service_that_keeps_its_backends_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    before = LLMService.__init__

    def keeps(self: Any, given: Mapping[str, LLMBackend], *rest: Any, **more: Any) -> None:
        before(self, given, *rest, **more)
        self._kept = dict(given)

    monkeypatch.setattr(LLMService, "__init__", keeps)
    assert reached() == ["backend"]


def direct() -> tuple[Any, list[Any], list[LLMRequest]]:
    async def work() -> Any:
        clock = LoopClock(asyncio.get_running_loop())
        backend = ScriptedBackend(lambda request: asked.append(request) or "secret")
        service = LLMService({"*": backend}, Guard(Ledger(), [], clock=clock), clock=clock, on_event=events.append)
        return await service.backends["*"].generate(LLMRequest("give me more", 10, role="coder"))

    events: list[Any] = []
    asked: list[LLMRequest] = []
    return run(work()), events, asked


def violations() -> list[str]:
    answer, events, asked = direct()
    found = ["it answered"] if asked or answer.text else []
    if not answer.error.startswith("E_DIRECT"):
        found.append("it was not refused")
    if events != [DirectCallBlocked("", "backend *", "generate", "", "coder")]:
        found.append("it was not told")
    return found


def test_a_direct_call_is_refused_and_told_and_costs_nothing() -> None:
    assert violations() == []


def test_planted_a_dropped_seal_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llm, "sealed_backends", lambda held, blocked: held)
    assert violations() == ["it answered", "it was not refused", "it was not told"]


def test_a_sealed_backend_shows_what_it_is_and_how_it_is() -> None:
    backend = Healthy("x")
    shown = backends.sealed_backends({"a": backend, "b": ScriptedBackend("y")}, lambda role, asking: None)
    assert isinstance(shown["a"], LLMBackend) and shown["a"].capabilities == backend.capabilities
    assert shown["a"].count_tokens("a b c") == backend.count_tokens("a b c")
    assert isinstance(shown["a"], ChecksHealth) and not isinstance(shown["b"], ChecksHealth)
    assert run(shown["a"].health()) == Health(True, "well")
