"""Episodes with live models: warm-up, deadlines, breakers from one episode to the next, failures that are nobody's fault."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import pytest
from stage import Stage

from apex_framework.config import CALLS, Settings
from apex_framework.episode.models import CallSettings, ModelRoom
from apex_framework.episode.watch import Watch
from apex_framework.errors import BackendError, Failure
from apex_framework.events import CallDenied, CallSettled, MemoryPressure
from apex_framework.hookspecs import Add, ApexSpec, hookimpl
from apex_framework.interfaces import LLMBackend, LLMCapabilities, LLMRequest, LLMResult
from apex_framework.ports import SystemClock
from apex_framework.services.warming import PROMPT
from apex_framework.testing.scripted import ScriptedBackend


class Live(ScriptedBackend):
    """A model server in memory: it fails with ``fails`` (all calls, or from the n-th on), warm-up included."""

    def __init__(self) -> None:
        super().__init__("nonsense", model_id="live")
        self._capabilities = LLMCapabilities("live", 100_000, deterministic=False)
        self.fails: Failure | None = None
        self.after = 0
        self.calls = self.warm_calls = self.acquires = 0
        self.hangs = False
        self.told: list[Any] = []

    async def generate(self, request: LLMRequest) -> LLMResult:
        if request.prompt == PROMPT:
            self.warm_calls += 1
        else:
            self.calls += 1
        self.acquires += 1
        if self.hangs:
            await asyncio.sleep(3_600)
        if self.fails is not None and self.calls >= self.after:
            raise BackendError("no", kind=self.fails)
        return await super().generate(request)

    def pool_numbers(self) -> dict[str, float]:
        return {
            "pool_acquires": float(self.acquires),
            "pool_acquire_ms_sum": 2.0 * self.acquires,
            "pool_conn_in_use": 3.0,
        }

    def drain_events(self) -> list[Any]:
        told, self.told = self.told, []
        return told


class Models(ApexSpec):
    """Registers ``live``."""

    def __init__(self) -> None:
        self.made: list[Live] = []

    @hookimpl
    def apex_llm_backends(self, add: Add[LLMBackend]) -> None:
        add("live", self._make)

    def _make(self, **_: Any) -> LLMBackend:
        self.made.append(Live())
        return self.made[-1]


LIVE: dict[str, Any] = {"team": "single", "backends": {"*": "live"}}
REAL: dict[str, Any] = {"real_time": True, "call_retries": 0}


MODELS = Models()


@pytest.fixture(scope="module")
def one_stage() -> Iterator[Stage]:
    stage = Stage(models=MODELS)
    yield stage
    stage.close()


@pytest.fixture
def live_stage(one_stage: Stage) -> Stage:
    """A process that has not met a model yet."""
    MODELS.made.clear()
    one_stage.shop.models = ModelRoom(functools.partial(one_stage.shop.catalog.make, "llm_backend"))
    return one_stage


def the_live(stage: Stage) -> Live:
    backend = stage.shop.backend("live", {})
    assert isinstance(backend, Live)
    return backend


def warmed(result: Any) -> list[dict[str, Any]]:
    return [row for row in result.events if row["event"] == "BackendWarmed"]


def test_a_live_model_is_warmed_up_once_and_nobody_measures_it(live_stage: Stage) -> None:
    first, second = (live_stage.play("clamp", seed, REAL, **LIVE) for seed in (0, 1))
    backend = the_live(live_stage)
    assert MODELS.made == [backend] and backend.warm_calls == 5
    (row,) = warmed(first)
    assert (row["calls"], row["failure"], row["model_id"]) == (5, "", "live") and warmed(second) == []
    calls = first.record["calls"]
    assert backend.calls == calls + second.record["calls"] > 0
    assert first.record["tokens"] == sum(row["tokens_in"] + row["tokens_out"] for row in first.calls)
    waits = {row["metric"]: row for row in first.metrics}
    assert waits["pool_acquire_ms"]["count"] == calls == len(first.calls), "connections of the warm-up are counted"
    assert waits["pool_conn_in_use"]["value"] == 3.0


def test_warm_calls_is_a_setting_and_a_warm_up_that_fails_ends_nothing(live_stage: Stage) -> None:
    backend = the_live(live_stage)
    backend.fails, backend.after = Failure.UNAVAILABLE, 0
    (row,) = warmed(live_stage.play("clamp", 0, {**REAL, "warm_calls": 2}, **LIVE))
    assert (row["calls"], row["failure"], backend.warm_calls) == (0, "unavailable", 1)
    backend.fails = None
    assert live_stage.play("clamp", 1, REAL, **LIVE).record["status"] == "finished"


def test_deterministic_backends_are_not_warmed_up(live_stage: Stage) -> None:
    room, told = ModelRoom(lambda name: ScriptedBackend()), list[Any]()
    asyncio.run(room.warm([room.backend("scripted", {})], 5, SystemClock(), told.append))
    assert told == [] and room.backend("scripted", {}).requests == []  # type: ignore[attr-defined]  # it is scripted
    assert warmed(live_stage.play("clamp")) == []


KINDS = [kind for kind in Failure if kind is not Failure.CANCELLED]


@pytest.mark.parametrize("kind", KINDS)
def test_an_episode_without_one_answer_tells_nothing_of_its_arm_unless_it_asked_for_it(
    live_stage: Stage, kind: Failure
) -> None:
    the_live(live_stage).fails = kind
    record = live_stage.play("clamp", 0, {**REAL, "warm_calls": 0}, **LIVE).record
    assert record["failed_calls"] == record["calls"] > 0 and not record["success"]
    if kind in (Failure.CONTEXT_EXCEEDED, Failure.CONTEXT_TRUNCATED):
        assert record["status"] == "finished"
    else:
        assert record["status"] == "infrastructure"
        assert record["reason"] == f"none of {record['calls']} model calls was answered: {kind} {record['calls']}"


def test_an_episode_with_some_answers_is_a_result(live_stage: Stage) -> None:
    backend = the_live(live_stage)
    backend.fails, backend.after = Failure.SERVER, 2
    record = live_stage.play("clamp", 0, {**REAL, "warm_calls": 0}, **LIVE).record
    assert record["status"] == "finished" and 0 < record["failed_calls"] == record["calls"] - 1


def test_a_refused_call_is_no_failed_one(live_stage: Stage) -> None:
    """Of its calls, those that the budget let through failed; the others were never made."""
    the_live(live_stage).fails = Failure.TOTAL_TIMEOUT  # charged in full
    record = live_stage.play("clamp", 0, {**REAL, "warm_calls": 0}, budget=1_500, **LIVE).record
    assert record["denied"] > 0 and record["failed_calls"] == record["calls"] > 0
    assert record["status"] == "infrastructure"


@pytest.mark.parametrize(
    ("status", "failure", "broken"),
    [
        ("error", "", True),
        ("timeout", "", True),
        ("error", "of another world", True),
        ("cancelled", "", False),
        ("cancelled", "cancelled", False),
        ("ok", "", False),
        ("length", "", False),
    ],
)
def test_what_backends_say_of_their_failures_themselves(status: str, failure: str, broken: bool) -> None:
    watch = Watch(("star",), 1_000)
    assert watch.unanswered == "", "no call is no failure"
    watch.called(CallSettled("e", "a", "coder", "", status, 10, 1, 1, failure=failure))
    assert bool(watch.unanswered) is broken
    watch.called(CallDenied("e", "a", "coder", "", 10))
    assert bool(watch.unanswered) is broken
    watch.called(CallSettled("e", "a", "coder", "", "ok", 10, 1, 1))
    assert watch.unanswered == "" and watch.failed == (status not in ("ok", "length", "cancelled"))


def test_one_failure_too_few_is_noticed(live_stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: nobody asks whether anything was answered."""
    monkeypatch.setattr(Watch, "unanswered", "")
    the_live(live_stage).fails = Failure.CONNECT
    assert live_stage.play("clamp", 0, {**REAL, "warm_calls": 0}, **LIVE).record["status"] == "finished"


def test_a_server_that_is_down_is_found_down_by_the_next_episode_without_asking(live_stage: Stage) -> None:
    backend = the_live(live_stage)
    backend.fails = Failure.CONNECT
    run = {**REAL, "warm_calls": 0}
    records = [live_stage.play("clamp", seed, run, **LIVE).record for seed in range(4)]
    assert {record["status"] for record in records} == {"infrastructure"}
    assert backend.calls == 5, "the breaker is closed, or each episode has its own"
    assert "circuit_open" in records[-1]["reason"]
    measured = [
        row for row in live_stage.play("clamp", 9, run, **LIVE).metrics if row["metric"] == "call_failures_total"
    ]
    assert [row["labels"] for row in measured] == [{"failure": "circuit_open"}]


def test_episodes_in_virtual_time_share_nothing_that_is_learned(live_stage: Stage) -> None:
    room = live_stage.shop.models
    one, other = room.shared(real_time=False), room.shared(real_time=False)
    assert set(one) == {"tokenizers"} and one["tokenizers"] is not other["tokenizers"]
    real = room.shared(real_time=True)
    assert real["tokenizers"] is room.tokenizers and real["breakers"] is room.breakers


@pytest.mark.parametrize("seconds", [{"call_deadline_s": 0.05}])
def test_a_call_has_the_deadline_of_the_settings(live_stage: Stage, seconds: dict[str, float]) -> None:
    the_live(live_stage).hangs = True
    room = live_stage.shop.models
    room._warmed.add(id(the_live(live_stage)))  # its warm-up would hang, too
    record = live_stage.play("clamp", 0, {**REAL, **seconds}, **LIVE).record
    assert record["status"] == "infrastructure" and "total_timeout" in record["reason"]


def test_what_happens_in_a_backend_is_told_by_the_episode_in_which_it_happened(live_stage: Stage) -> None:
    the_live(live_stage).told.append(MemoryPressure("", "warn", 0.1, 1, 10))
    result = live_stage.play("clamp", 0, REAL, **LIVE)
    assert [row["level"] for row in result.events if row["event"] == "MemoryPressure"] == ["warn"]
    again = live_stage.play("clamp", 1, REAL, **LIVE)
    assert [row for row in again.events if row["event"] == "MemoryPressure"] == []


def test_settings_and_jobs_mean_the_same() -> None:
    usual = CallSettings()
    assert {field.name for field in fields(CallSettings)} == CALLS
    for name in CALLS:
        assert Settings.model_fields[name].default == getattr(usual, name)
    assert CallSettings.of({}) == usual and CallSettings.of({"idle_s": 0.0, "suite": "mini"}).idle_s == 0.0
    options = CallSettings.of({"idle_s": 0.0, "first_token_s": 7.0}).for_service()
    assert options == {"first_token_s": 7.0, "idle_s": None, "deadline_s": 60.0, "retries": 2}


def test_every_backend_is_closed_whatever_the_others_do() -> None:
    closed = []

    class Closing(ScriptedBackend):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        async def close(self) -> None:
            closed.append(self.name)
            if self.name == "b":
                raise BackendError("it will not close")

    make: Callable[..., LLMBackend] = Closing
    room = ModelRoom(make)
    for name in "abc":
        room.backend(name, {})
    with pytest.raises(BackendError, match="will not close"):
        room.close()
    room.close()
    assert closed == ["a", "b", "c"]
