"""Warming up costs no episode anything and no metric sees it; closing closes all, whatever one of them does."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from apex_budgets.episode import EpisodeScope
from apex_framework import timeloop
from apex_framework.budget import Guard, Ledger
from apex_framework.errors import BackendError, Failure
from apex_framework.events import BackendWarmed
from apex_framework.interfaces import CallTags, LLMCapabilities, LLMRequest
from apex_framework.ports import LoopClock
from apex_framework.services import LLMService
from apex_framework.telemetry.meters import EventMeter
from apex_framework.telemetry.registry import Registry
from apex_framework.testing.scripted import ScriptedBackend
from apex_framework.testing.unruly import UnrulyBackend


class Model(ScriptedBackend):
    """One that is to be warmed up."""

    def __init__(self, *, takes_s: float = 0.0, wrong: Exception | None = None) -> None:
        super().__init__("ready")
        self._capabilities = LLMCapabilities("model", 100_000, deterministic=False)
        self.warmed, self.closed, self.takes_s, self.wrong = 0, 0, takes_s, wrong

    async def warm(self) -> None:
        self.warmed += 1
        await asyncio.sleep(self.takes_s)
        if self.wrong is not None:
            raise self.wrong

    async def close(self) -> None:
        self.closed += 1
        if self.wrong is not None:
            raise self.wrong


def service(backends: Any, on_event: Any) -> LLMService:
    clock = LoopClock(asyncio.get_running_loop())
    return LLMService(backends, Guard(Ledger(), [EpisodeScope()], clock=clock), clock=clock, on_event=on_event)


def test_warm_up_calls_are_recorded_and_nothing_else() -> None:
    async def work() -> None:
        events: list[Any] = []
        registry = Registry()
        meter = EventMeter(registry)
        model, script = Model(takes_s=2.0), ScriptedBackend()
        llm = service(
            {"coder": model, "critic": model, "*": script}, lambda event: (events.append(event), meter(event))
        )
        before = registry.snapshot()
        told = await llm.warm(5)
        assert told == tuple(events) and [event.model_id for event in told] == ["model", "scripted"]
        assert told[0] == BackendWarmed("model", 5, 35, 10, told[0].elapsed_ms) and told[0].elapsed_ms == 2_000.0
        assert told[1].calls == 0 and model.warmed == 1 and len(model.requests) == 5 and script.requests == []
        assert llm.ledger.entries == () and llm.stats.calls == 0
        assert all(request.temperature == 0.0 and request.top_p == 1.0 for request in model.requests)
        assert registry.snapshot() == before

    timeloop.run(work())


@pytest.mark.parametrize(
    ("backend", "failure"),
    [
        (Model(wrong=BackendError("no memory", kind=Failure.CONNECT)), "connect"),
        (Model(wrong=OSError("no such file")), "OSError"),
        (Model(takes_s=500.0), "total_timeout"),
    ],
)
def test_a_warm_up_that_fails_is_told_and_harms_nobody(backend: Model, failure: str) -> None:
    async def work() -> None:
        (told,) = await service({"*": backend}, lambda event: None).warm(2, deadline_s=30.0)
        assert told.failure == failure and told.calls == 0 and asyncio.get_running_loop().time() <= 30.25

    timeloop.run(work())


def test_every_backend_is_closed_whatever_one_of_them_does() -> None:
    class Hanging(UnrulyBackend):
        async def close(self) -> None:
            await asyncio.sleep(3_600)

    async def work() -> None:
        bad, good = Model(wrong=OSError("gone")), Model()
        llm = service({"a": bad, "b": Hanging(""), "*": good}, lambda event: None)
        with pytest.raises(OSError, match="gone"):
            await llm.close()
        assert good.closed == 1 and asyncio.get_running_loop().time() <= 10.25

    timeloop.run(work())


def test_decoding_is_deterministic_unless_asked_otherwise_and_told_in_events() -> None:
    async def work() -> None:
        events: list[Any] = []
        model = Model()
        llm = service({"*": model}, events.append)
        tags = CallTags("r", "ep1", "a", "coder", 10_000)
        await llm.ask(tags, "p", max_tokens=5, seed=3)
        await llm.generate(tags, LLMRequest("p", 5, temperature=0.7, seed=3))
        model._capabilities = replace(model.capabilities, seeded=True)
        await llm.ask(tags, "p", max_tokens=5)
        assert [(r.temperature, r.top_p, r.seed) for r in model.requests[:2]] == [(0.0, 1.0, 3), (0.7, 1.0, 3)]
        assert [event.determinism for event in events] == ["none", "none", "seeded"]

    timeloop.run(work())
