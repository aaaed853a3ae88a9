"""Every declared metric that says it has a source moves in a real episode, or in a small real scenario."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any

import pytest
from model_servers import of_model_servers
from rig import TOPOLOGIES, Rig
from stage import Stage

from apex_framework.budget import Guard, Ledger
from apex_framework.events import CallSettled, EpisodeFinished, SwitchFinished, TopologyProbed
from apex_framework.interfaces import (
    AgentID,
    CallTags,
    Intercepted,
    Limits,
    LLMRequest,
    LLMResult,
    MetricSample,
    PlanKey,
    Point,
)
from apex_framework.interfaces.prompting import Ask, Kind, Section, render_prompt
from apex_framework.plugins import load_plugins
from apex_framework.runtime.health import TopologyHealthProbe
from apex_framework.runtime.pinning import HealthPin
from apex_framework.runtime.pressure import Throttle
from apex_framework.session.watchdog import Watchdog
from apex_framework.telemetry.meters import EventMeter, RouterMeter, poll_health, poll_ledger
from apex_framework.telemetry.metrics import METRICS
from apex_framework.telemetry.registry import Registry, from_row
from apex_framework.testing.scripted import ManualClock
from apex_framework.timeloop import run
from apex_framework.workers import Holder, Memory, MemoryWatch, Shelf

TAGS = CallTags("r", "e", "coder", "coder", 1000)


class Day:
    """A ceiling per day, as a plugin could bring it."""

    name = "day"
    parent = None

    def key(self, tags: CallTags) -> str:
        return "2026-01-01"

    def limits(self, tags: CallTags) -> Limits:
        return Limits(1000)


def moved(samples: Iterable[MetricSample]) -> set[str]:
    """Names of metrics that are not at their beginning."""
    return {s.name for s in samples if s.count or s.value}


def of_episodes(stage: Stage) -> list[MetricSample]:
    """Episodes that switch, that are refused tokens, and that abort switches."""
    samples: list[MetricSample] = []
    for arm in (
        {"controller": "random_switch:1.0"},
        {"controller": "static:star", "budget": 300, "team_size": 7},
        {
            "controller": "random_switch:1.0",
            "on_busy": "drain",
            "dwell": 0,
            "cooldown": 0,
            "quiesce_deadline_ms": 1e-3,
            "team_size": 7,
        },
    ):
        result = stage.play("clamp", 1, **arm)
        assert result.record["status"] != "infrastructure", result.record
        samples += [from_row(row) for row in result.metrics]
        registry = Registry()
        EventMeter(registry)(EpisodeFinished("e", result.record))
        samples += registry.snapshot()
    return samples


def of_the_runtime() -> list[MetricSample]:
    """A team in virtual time: a probe, a pin, an aborted switch, pressure, retries, late acks, a relay."""
    registry = Registry()
    meter = EventMeter(registry)

    async def scenario() -> None:
        pressed = Throttle(0.1, 0.05, 1, 1.0)
        rig = Rig(engine={"on_busy": "migrate"}, throttle=pressed, capacity=4, dedup_cap=100, on_pressure=meter)
        watch = RouterMeter(registry, rig.router)
        probe = TopologyHealthProbe(rig.router, TOPOLOGIES, clock=rig.clock, services={"model": ready}, on_event=meter)
        await probe.validate("chain")
        await asyncio.sleep(1.0)
        poll_health(registry, probe.cache.ages())
        pin = HealthPin(["chain"], clock=rig.clock, window=2, on_event=meter)
        for _ in range(2):
            pin.decided(50.0)
        for number in range(7):
            await rig.router.route(rig.message("planner", "coder", {"n": number}))
            watch.poll()
        lease = rig.take("coder")
        rig.router.nack(lease, "once")
        rig.router.ack(lease)
        await asyncio.sleep(1.0)
        rig.pass_on("coder")
        rig.send("coder", "critic", {"by": "way of the hub"})
        rig.pass_on("planner")
        rig.pass_on("critic")
        rig.take("coder")
        assert (await rig.engine.switch_to("flat")).ok, "what waits for the busy coder is taken along"
        rig.send("planner", "coder+critic+runner+summarizer", {"to": "more than flat allows"})
        rig.router.send(rig.message("planner", "critic", {"n": 1}))
        again = rig.message("planner", "critic", {"n": 2})
        for _ in range(2):
            rig.router.send(again)
        while rig.router.waiting(AgentID("critic")):
            rig.pass_on("critic")
        rig.router.close_episode()
        watch.finish()

    run(scenario())
    return [*registry.snapshot()]


async def ready() -> bool:
    return True


def of_a_stalled_loop() -> list[MetricSample]:
    """A real loop, held for 0.3 seconds."""
    registry = Registry()

    async def stalled() -> None:
        with Watchdog("e", EventMeter(registry), lambda task: "", limit_s=0.05):
            await asyncio.sleep(0.12)
            time.sleep(0.3)  # noqa: ASYNC251 - it is what the watchdog is for
            await asyncio.sleep(0.12)

    asyncio.run(stalled())
    return [*registry.snapshot()]


def of_a_ledger() -> list[MetricSample]:
    """A scope named day, one call settled, one reservation left to expire."""
    clock, ledger, registry = ManualClock(), Ledger(), Registry()
    guard = Guard(ledger, [Day()], clock=clock)
    grant, _ = guard.reserve(TAGS, 100), guard.reserve(TAGS, 50)
    guard.settle(grant.id, 80)  # type: ignore[union-attr]  # both fit
    clock.advance(60.0)
    ledger.expire(60_000)
    poll_ledger(registry, ledger)
    (day,) = (s for s in registry.snapshot() if s.name == "daily_tokens_used")
    assert day.value == 130
    return [*registry.snapshot()]


def of_a_plan_cache() -> list[MetricSample]:
    """The same question twice: a call that is made, and one that is not."""
    registry = Registry()
    sections = [Section(Kind.ISSUE, "It fails."), Section(Kind.MAP, "a.py::f 1-9")]
    request = LLMRequest(render_prompt(Ask.LOCATE, sections), 100)
    key = PlanKey("shop", "vague:none", "planning")
    passing = Intercepted(Point.MODEL_CALL, request, "planner", "planner", "e", "locate", key, EventMeter(registry))

    async def answer(_: Intercepted) -> LLMResult:
        return LLMResult("FOCUS a.py::f | why", 100, 10)

    async def scenario() -> None:
        cache = load_plugins(only=["plancache"]).catalog.make("interceptor", "plan_cache")
        for _ in range(2):
            await cache.around(passing, answer)

    run(scenario(), seed=0)
    return [*registry.snapshot()]


class Held:
    """A model that takes two seconds to load."""

    async def warm(self) -> None:
        await asyncio.sleep(2.0)

    async def unload(self) -> None:
        await asyncio.sleep(0.1)


def of_models_in_memory() -> list[MetricSample]:
    """Two models that take turns on a shelf for one, and one that is unloaded because memory is short."""
    registry = Registry()
    meter = EventMeter(registry)

    async def scenario() -> None:
        shelf = Shelf(1, clock=asyncio.get_running_loop().time)
        for name in ("coder", "critic"):
            shelf.add(name, Held())
        for name in ("coder", "critic"):
            async with shelf.use(name):
                await asyncio.sleep(1.0)
        for event in shelf.drain_events():
            meter(event)

        async def short() -> Memory:
            return Memory(4, 100)

        async def unload(holder: Holder) -> None:
            await asyncio.sleep(0.1)

        await MemoryWatch(lambda: [Holder("w", "coder", 0.0)], unload, read=short, tell=meter).look()

    run(scenario())
    return [*registry.snapshot()]


@pytest.mark.timeout(60)
def test_every_metric_with_a_source_moves(stage: Stage) -> None:
    episodes = moved(of_episodes(stage))
    all_moved = episodes | moved(of_the_runtime()) | moved(of_a_stalled_loop()) | moved(of_a_ledger())
    all_moved |= moved(of_a_plan_cache()) | moved(of_models_in_memory()) | moved(of_model_servers())
    sourced = {name for name, spec in METRICS.items() if spec.has_source}
    assert sourced - all_moved == set()
    assert all_moved <= sourced, "a metric that is declared as later has a source: say so in its declaration"
    for name in ("decision_ms", "switch_phase_ms", "agent_tokens_used", "tokenize_ms", "lane_occupancy", "message_ms"):
        assert name in episodes, f"{name} moves in no episode"


def test_metrics_of_an_episode_agree_with_its_record(stage: Stage) -> None:
    result = stage.play("clamp", 3, controller="random_switch:1.0")
    record = result.record
    values: dict[str, float] = {}
    for sample in map(from_row, result.metrics):
        values[sample.name] = values.get(sample.name, 0) + (sample.count or sample.value)
    assert values["episode_tokens_used"] == values["agent_tokens_used"] == record["tokens"]
    assert values["calls_total"] == values["call_tokens_in"] == record["calls"]
    assert values["decision_ms"] == len(record["decision_ms"])
    assert values["switch_total"] == record["switches"] + record["aborted"]
    assert values["messages_admitted_total"] == values["messages_acked_total"] + values.get("messages_dead_total", 0)


def test_a_meter_that_is_not_listening_is_noticed() -> None:
    """The planted bug: an event of a type that nobody takes moves nothing."""
    registry = Registry()
    meter = EventMeter(registry)
    del meter._takes[TopologyProbed]
    meter(TopologyProbed("e", "flat", True, 1.0))
    assert moved(registry.snapshot()) == set()


@pytest.mark.parametrize(("estimated", "actual", "bias"), [(90, 100, -10.0), (100, 100, 0.0), (150, 100, 50.0)])
def test_errors_of_estimates_have_a_sign_and_none(estimated: int, actual: int, bias: float) -> None:
    registry = Registry()
    call: dict[str, Any] = {"estimated_in": estimated, "tokenize_ms": 0.5}
    EventMeter(registry)(CallSettled("e", "a", "coder", "", "ok", 200, actual, 10, **call))
    found = {s.name: s for s in registry.snapshot()}
    assert found["token_est_bias_pct"].value == bias
    assert found["token_est_abs_err_pct"].value == abs(bias)
    assert found["tokenize_ms"].value == 0.5


def test_a_reason_is_counted_by_what_it_says_first() -> None:
    """Labels must not grow with the texts of errors."""
    registry = Registry()
    for details in ("disk full", "no space"):
        event = SwitchFinished("e", 1, "star", "flat", False, 0, f"journal: {details}")
        EventMeter(registry)(event)
    found = {s.labels: s.value for s in registry.snapshot() if s.name == "switch_abort_total"}
    assert found == {(("reason", "journal"),): 2}
