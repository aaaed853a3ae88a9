"""A team under profile S: the same seed gives the same rows, and losses that are planted are seen."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from apex_framework.benches import stress
from apex_framework.benches.fates import losses
from apex_framework.benches.profiles import read
from apex_framework.benches.setting import Setting
from apex_framework.benches.trial import Parts, Tally
from apex_framework.errors import PluginError
from apex_framework.interfaces import Lane, Message, RouteResult

SHORT = Setting(read("S"), seconds=12.0)


@pytest.fixture(scope="module")
def parts() -> Parts:
    return Parts.built_in("drr_wred")


def _one(setting: Setting, parts: Parts, seed: int = 1) -> Tally:
    return stress.trials(setting, parts, [seed])[0]


def _loss(tally: Tally) -> float:
    return losses(tally.fates.by_id.values()).share


def test_the_same_seed_gives_the_same_rows(parts: Parts) -> None:
    def rows(seed: int) -> list[dict[str, object]]:
        return list(stress.rows(SHORT.profile, "one", "apex", stress.trials(SHORT, parts, [seed])))

    assert rows(3) == rows(3) != rows(4)


def test_every_offered_message_is_handled_or_lost_and_the_gate_was_shut_often(parts: Parts) -> None:
    tally = _one(SHORT, parts)
    loss = losses(tally.fates.by_id.values())
    assert loss.offered == loss.handled + loss.refused + loss.dead > 400
    assert tally.committed >= 8
    assert len(tally.sick) == 1
    assert len(tally.occupancy) == loss.offered


def test_under_profile_s_the_promised_share_arrives(parts: Parts) -> None:
    tallies = stress.trials(SHORT, parts, range(3))
    assert max(_loss(tally) for tally in tallies) <= 0.01
    assert all(not losses(tally.fates.of("final")).refused for tally in tallies)


def test_contenders_get_the_same_messages(parts: Parts) -> None:
    def offered(setting: Setting, parts: Parts) -> list[tuple[str, float]]:
        tally = _one(setting, parts)
        return sorted((fate.service, round(fate.born, 9)) for fate in tally.fates.by_id.values())

    assert offered(SHORT, parts) == offered(replace(SHORT, switching=False, throttle=False), Parts.built_in("fifo"))


def test_without_throttling_refusals_are_losses(parts: Parts) -> None:
    tight = replace(SHORT, capacity=5)
    throttled, not_throttled = _one(tight, parts), _one(replace(tight, throttle=False), parts)
    assert _loss(not_throttled) > 0.05 > _loss(throttled)
    assert losses(throttled.fates.by_id.values()).refusals > 0


class _Leaky:
    """Planted: a lane that forgets every third message that it admitted."""

    def __init__(self, lane: Lane) -> None:
        self._lane, self._offered = lane, 0

    def offer(self, message: Message) -> RouteResult:
        self._offered += 1
        return RouteResult.ENQUEUED if self._offered % 3 == 0 else self._lane.offer(message)

    def restore(self, message: Message) -> None:
        self._lane.restore(message)

    def take(self) -> Message | None:
        return self._lane.take()

    def __len__(self) -> int:
        return len(self._lane)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._lane)


class _Refusing(_Leaky):
    """Planted: a lane that refuses every tenth message for good."""

    def offer(self, message: Message) -> RouteResult:
        lost = int(message.msg_id[1:]) % 10 == 0
        return RouteResult.WRED if lost else self._lane.offer(message)


class _Discipline:
    name = "planted"

    def __init__(self, inner: Any, lane: type[_Leaky]) -> None:
        self._inner, self._lane = inner, lane

    def lane(self, receiver: str, capacity: int, rng: random.Random) -> Lane:
        return self._lane(self._inner.lane(receiver, capacity, rng))


def test_a_lane_that_loses_messages_is_caught_by_the_router(parts: Parts) -> None:
    leaky = replace(parts, lanes=_Discipline(parts.lanes, _Leaky))
    with pytest.raises(PluginError, match="gives nothing"):
        _one(replace(SHORT, seconds=2.0), leaky)


def test_refusals_that_never_end_make_the_loss_rise(parts: Parts) -> None:
    refusing = replace(parts, lanes=_Discipline(parts.lanes, _Refusing))
    loss = _loss(_one(replace(SHORT, seconds=5.0, switching=False), refusing))
    assert loss == pytest.approx(0.1, abs=0.03)


def test_a_sender_that_swallows_a_nack_makes_the_loss_rise(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    from apex_framework.benches.flows import Flow

    def careless(self: Flow, throttle: object) -> Any:
        async def forget() -> None:
            while self._held:
                message = self._held.popleft()
                self._refused(message, await self._router.route(message))
            self._sending = False

        return forget()

    monkeypatch.setattr(Flow, "_send_all", careless)
    tally = _one(replace(SHORT, capacity=5), parts)
    assert losses(tally.fates.by_id.values()).open > 0  # said in a row of its own: neither handled nor lost


def test_probing_before_a_switch_prevents_aborts(parts: Parts) -> None:
    warming = replace(SHORT, seconds=30.0, warm=True)
    off = stress.trials(warming, parts, range(3))
    on = stress.trials(replace(warming, probe=True, cache_s=0.1), parts, range(3))
    aborted = sum(sum(tally.aborts.values()) for tally in off)
    assert aborted >= 10
    assert sum(sum(tally.aborts.values()) for tally in on) <= aborted / 2
    assert sum(tally.committed for tally in on) >= sum(tally.committed for tally in off)


def test_rows_carry_the_profile_and_its_hash() -> None:
    rows = list(stress.run(SimpleNamespace(seeds=1, seconds=1.0)))
    form = {"bench", "case", "contender", "metric", "value", "unit", "profile", "profile_sha256"}
    assert all(form <= set(row) for row in rows)
    assert {row["profile_sha256"] for row in rows} == {read("S").sha256}
    contenders = {row["contender"] for row in rows}
    assert {"apex", "lane fifo", "throttle off", "gate never shut", "lanes of 10,000"} <= contenders
    assert {row["case"] for row in rows if row["contender"] == "apex"} == {"S, 1 seeds", "S, real time"}
    per_seed = next(row["per_seed"] for row in rows if row["metric"] == "loss, mean")
    assert isinstance(per_seed, list) and len(per_seed) == 1
