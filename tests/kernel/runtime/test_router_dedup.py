"""MSG-4: what a receiver has had before is flagged, never dropped; the memory of it is bounded in number and time."""

from __future__ import annotations

import asyncio
import sys
from collections import OrderedDict
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rig import Rig, on_virtual_time, team

from apex_framework.interfaces import AgentID
from apex_framework.runtime.dedup import DEDUP_CAP, DedupStore
from apex_framework.timeloop import run

CODER = AgentID("coder")
CAP, TTL_S = 4, 10.0

Sightings = list[tuple[int, float]]
sightings = st.lists(st.tuples(st.integers(0, 8), st.sampled_from([0.5, 1.0, 3.0, 11.0])), max_size=80)


def judge(make: Callable[[], DedupStore], history: Sightings) -> None:
    """Against a model: an ordered table of (message, last seen), cut by time and by number."""
    store, model, now = make(), OrderedDict[str, float](), 0.0
    for number, pause in history:
        now += pause
        for key in [key for key, last in model.items() if last <= now - TTL_S]:
            del model[key]
        known = f"m{number}" in model
        assert store.seen("e", f"m{number}", now) is known
        model[f"m{number}"] = now
        model.move_to_end(f"m{number}")
        if len(model) > CAP:
            model.popitem(last=False)
        assert len(store) == len(model) <= CAP


@given(sightings)
@settings(deadline=None)
def test_MSG4_the_store_knows_what_was_seen_last_and_lately_and_nothing_else(history: Sightings) -> None:
    judge(lambda: DedupStore(CAP, TTL_S), history)


class NeverExpires(DedupStore):
    def _expire(self, now: float) -> None:
        """Forgets to."""


class Boundless(DedupStore):
    def __init__(self, cap: int, ttl_s: float) -> None:
        super().__init__(10**9, ttl_s)


class FirstInFirstOut(DedupStore):
    def seen(self, episode_id: str, msg_id: str, now: float) -> bool:
        last = self._seen.get(hash((episode_id, msg_id)), 0.0)
        return last > now - TTL_S or super().seen(episode_id, msg_id, now)


@pytest.mark.parametrize("bug", [NeverExpires, Boundless, FirstInFirstOut])
def test_the_model_finds_planted_bugs(bug: type[DedupStore]) -> None:
    histories: list[Sightings] = [
        [(1, 1.0), (2, 11.0)],
        [(number, 0.5) for number in range(9)],
        [(0, 0.5), (1, 0.5), (2, 0.5), (3, 0.5), (0, 0.5), (4, 0.5), (0, 0.5)],
    ]
    with pytest.raises(AssertionError):
        for history in histories:
            judge(lambda: bug(CAP, TTL_S), history)


def test_the_key_is_episode_and_message_together() -> None:
    store = DedupStore()
    assert not store.seen("e", "m1", 0.0)
    assert not store.seen("f", "m1", 0.0) and not store.seen("e", "m2", 0.0) and not store.seen("em", "1", 0.0)
    assert store.seen("e", "m1", 0.0)


def test_the_specified_number_is_remembered_in_bounded_memory() -> None:
    """50,000 of 200,000 messages, the last ones; a table, a digest and a time for each: below 300 bytes."""
    store = DedupStore()
    for number in range(200_000):
        store.seen("e", f"m{number}", number * 1e-6)
    assert len(store) == DEDUP_CAP == 50_000
    assert not store.seen("e", "m149999", 0.2)
    assert store.seen("e", "m150001", 0.2)
    digest, seen = next(iter(store._seen.items()))
    entry = sys.getsizeof(store._seen) / len(store) + sys.getsizeof(digest) + sys.getsizeof(seen)
    assert -(2**63) <= digest < 2**63 and entry < 300


@on_virtual_time
async def test_a_message_sent_twice_comes_twice_and_the_second_one_is_flagged() -> None:
    rig = Rig("flat", dedup_cap=DEDUP_CAP)
    message = rig.message("planner", "coder")
    assert rig.router.send(message) and rig.router.send(message)
    assert [rig.take("coder").message.redelivered for _ in range(2)] == [False, True]
    stats = rig.router.audit()
    assert (stats.admitted, stats.duplicates, stats.redelivered, stats.dead) == (2, 1, 1, {})


@on_virtual_time
async def test_a_duplicate_from_outside_is_flagged_for_its_receiver_only() -> None:
    rig = Rig("flat", dedup_cap=10)
    for recipient in ("coder", "coder", "runner"):
        rig.router.inject(rig.message("user", recipient))
        rig._sent = 0
    assert [rig.take(agent).message.redelivered for agent in ("coder", "coder", "runner")] == [False, True, False]


@on_virtual_time
async def test_a_retry_is_no_duplicate() -> None:
    rig = Rig("flat", dedup_cap=10)
    rig.send("planner", "coder")
    rig.router.nack(rig.take("coder"), "again")
    await asyncio.sleep(0.2)
    assert rig.take("coder").message.redelivered
    stats = rig.router.audit()
    assert (stats.duplicates, stats.redelivered) == (0, 1)


@on_virtual_time
async def test_the_memory_outlives_a_switch() -> None:
    rig = Rig("flat", dedup_cap=10)
    message = rig.message("planner", "coder")
    rig.router.send(message)
    assert rig.pass_on("coder") == "m1"
    assert (await rig.engine.switch_to("star")).ok
    rig.router.send(message)
    assert rig.take("coder").message.redelivered


@on_virtual_time
async def test_without_a_cap_nothing_is_remembered() -> None:
    rig = Rig("flat")
    message = rig.message("planner", "coder")
    rig.router.send(message)
    rig.router.send(message)
    assert [rig.take("coder").message.redelivered for _ in range(2)] == [False, False]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.integers(1, 6))
@settings(deadline=None, max_examples=50)
def test_MSG4_no_message_is_ever_dropped_as_a_duplicate(ids: list[int], cap: int) -> None:
    async def main() -> None:
        rig = Rig("flat", team("planner coder runner"), dedup_cap=cap)
        for number in ids:
            rig._sent = number
            assert rig.send("planner", "coder")
        got = [rig.pass_on("coder") for _ in ids]
        assert got == [f"m{number + 1}" for number in ids]
        assert rig.router.audit().dead == {}

    run(main())


@pytest.mark.parametrize("options", [{"dedup_cap": -1}, {"dedup_cap": 1, "dedup_ttl_s": 0.0}])
def test_impossible_settings_are_refused(options: dict[str, float]) -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match="dedup"):
            Rig("flat", **options)

    run(main())
