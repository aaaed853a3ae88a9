"""A scenario for the metrics of model servers: pools, tokenizers, retries, breakers."""

from __future__ import annotations

import asyncio
from typing import Any

from apex_budgets.episode import EpisodeScope
from apex_framework.budget import Guard, Ledger
from apex_framework.errors import BackendError, Failure
from apex_framework.interfaces import CallTags, LLMCapabilities, LLMRequest, LLMResult, MetricSample
from apex_framework.ports import LoopClock, VirtualEffects
from apex_framework.services import Breakers, BreakerSettings, LLMService, TokenizerPool
from apex_framework.telemetry.meters import EventMeter
from apex_framework.telemetry.models import EVERY_S, ModelMeter
from apex_framework.telemetry.registry import Registry
from apex_framework.testing.broken.llm_backend import RuleOfFour
from apex_framework.testing.scripted import Answer, ScriptedBackend
from apex_framework.timeloop import run

DOWN = BackendError("down", kind=Failure.CONNECT)


class Server(ScriptedBackend):
    """A model server with a pool of connections and a tokenizer to load; a request waits 2 ms for its connection."""

    def __init__(self, name: str, *answers: Answer) -> None:
        super().__init__(answers)
        self._capabilities = LLMCapabilities(name, 100_000, deterministic=False, exact_counts=False)

    def pool_numbers(self) -> dict[str, float]:
        count = float(len(self.requests))
        return {"pool_acquires": count, "pool_acquire_ms_sum": 2.0 * count, "pool_conn_in_use": 1.0}

    def load_tokenizer(self) -> Any:
        return RuleOfFour()


def of_model_servers() -> list[MetricSample]:
    """Two servers, room for one tokenizer: one retry and a lie about usage, then failures until a breaker opens."""
    registry = Registry()
    meter = EventMeter(registry)
    servers = [Server("a", DOWN, LLMResult("x" * 400, 91, 1)), Server("b", DOWN, DOWN)]

    async def scenario() -> None:
        clock, pool = LoopClock(asyncio.get_running_loop()), TokenizerPool(effects=VirtualEffects(), most=1)
        breakers = Breakers(BreakerSettings(failures=2))
        models = ModelMeter(registry, servers, pool, breakers)
        models.start()
        llm = LLMService(
            {"coder": servers[0], "*": servers[1]},
            Guard(Ledger(), [EpisodeScope()], clock=clock),
            clock=clock,
            retries=1,
            on_event=meter,
            breakers=breakers,
            tokenizers=pool,
        )
        for role in ("coder", "critic"):
            await llm.generate(CallTags("r", "e", role, role, 10_000), LLMRequest("p" * 360, 110))
        await asyncio.sleep(EVERY_S)
        models.finish(llm.stats)

    run(scenario())
    found = {(s.name, s.labels): s.count or s.value for s in registry.snapshot()}
    assert found["call_failures_total", (("failure", "connect"),)] == found["breaker_open_total", ()] == 1
    assert found["call_retries_total", ()] == found["tokenizer_loads_total", ()] == found["pool_conn_in_use", ()] == 2
    assert found["tokenizer_evicted_total", ()] == found["usage_disbelieved_total", ()] == 1
    assert found["pool_acquire_ms", ()] == 4
    return [*registry.snapshot()]
