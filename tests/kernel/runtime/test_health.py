"""Health is asked in parallel, in bounded time, believed for ten seconds, and named where it is bad."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from rig import TOPOLOGIES, Rig, on_virtual_time, team

from apex_framework.events import TopologyProbed
from apex_framework.interfaces import AgentID, Pings, Roster, Routes
from apex_framework.ports import Clock
from apex_framework.runtime import AgentHealth, HealthCache, ProbeResult, TopologyHealthProbe
from apex_framework.runtime.patience import Ended, Patience, Work
from apex_framework.timeloop import run


class Pinged:
    """An agent that answers a ping as it is told to; counts the questions."""

    def __init__(self, answer: Callable[[], Awaitable[None]] | float = 0.0) -> None:
        self.answer = answer
        self.asked = 0

    async def ping(self) -> None:
        self.asked += 1
        if callable(self.answer):
            await self.answer()
        else:
            await asyncio.sleep(self.answer)


class Quiet:
    """An agent without the ability."""


def probe(rig: Rig, agents: dict[str, object] | None = None, **settings: Any) -> TopologyHealthProbe:
    kept = {AgentID(name): agent for name, agent in (agents or {}).items()}
    return TopologyHealthProbe(rig.router, TOPOLOGIES, clock=rig.clock, agents=kept, **settings)


async def swallows() -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + 10
    while loop.time() < end:
        try:
            await asyncio.sleep(end - loop.time())
        except asyncio.CancelledError:
            continue


async def fails() -> None:
    raise OSError("no answer from model")


async def exits() -> None:
    raise SystemExit(1)


async def blocks() -> None:
    asyncio.get_running_loop().jump(2.0)  # type: ignore[attr-defined]  # the virtual loop stands still for two seconds


async def sleeps() -> None:
    await asyncio.sleep(3600)


def test_an_agent_that_can_be_asked_is_known_by_its_method() -> None:
    assert isinstance(Pinged(), Pings) and not isinstance(Quiet(), Pings)


@on_virtual_time
async def test_everybody_is_asked_at_once_and_a_healthy_team_passes() -> None:
    rig = Rig("star")
    events: list[TopologyProbed] = []
    agents = {name: Pinged(0.001 * n) for n, name in enumerate(rig.roster.ids, 1)}
    it = probe(rig, dict(agents), on_event=events.append, episode_id="e")
    result = await it.validate("chain")
    assert result == ProbeResult(True, {}, pytest.approx(5.0))
    assert [a.asked for a in agents.values()] == [1] * 5
    assert events == [TopologyProbed("e", "chain", True, result.elapsed_ms, {})]
    health = it.cache.get("coder")
    assert health is not None and health.last_latency_ms == pytest.approx(2.0)
    assert (it.passed, it.failed) == (1, 0)


class OneByOne(Patience):
    """A planted bug: members are asked one after the other."""

    def begin(self, works: Mapping[str, Work], limit_s: float) -> Any:
        return _Queue(self, works, limit_s)


class _Queue:
    def __init__(self, patience: Patience, works: Mapping[str, Work], limit_s: float) -> None:
        self._patience, self._works, self._limit_s = patience, works, limit_s

    def __enter__(self) -> _Queue:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    async def ended(self) -> dict[str, Ended]:
        ends: dict[str, Ended] = {}
        for name, work in self._works.items():
            with Patience.begin(self._patience, {name: work}, self._limit_s) as batch:
                ends.update(await batch.ended())
        return ends


class Serial(TopologyHealthProbe):
    """A probe with it."""

    def __init__(self, *args: Any, clock: Clock, **settings: Any) -> None:
        super().__init__(*args, clock=clock, **settings)
        self._patience = OneByOne(clock)


@pytest.mark.parametrize("kind", [TopologyHealthProbe, Serial])
@pytest.mark.parametrize("answer", [fails, exits, swallows, sleeps, 0.019, 0.05])
def test_the_time_of_a_probe_is_bounded_whatever_the_members_do(kind: type[TopologyHealthProbe], answer: Any) -> None:
    async def main() -> float:
        rig = Rig("star")
        agents = {name: Pinged(answer) for name in rig.roster.ids}
        it = kind(rig.router, TOPOLOGIES, clock=rig.clock, agents=agents)
        result = await it.validate("chain", timeout_ms=20.0)
        assert result.ok == (answer == 0.019)
        assert result.ok or set(result.details) == set(rig.roster.ids)
        return result.elapsed_ms

    elapsed = run(main())
    hangs = answer not in (fails, exits)
    assert elapsed <= 20.0 + 1e-6 or (kind is Serial and hangs)
    if kind is Serial and hangs:
        assert elapsed > 20.0, "the planted bug is seen"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (fails, "OSError: no answer from model"),
        (exits, "SystemExit: 1"),
        (swallows, "TimeoutError: no answer within 20 ms"),
        (sleeps, "TimeoutError: no answer within 20 ms"),
        (blocks, "TimeoutError: held the event loop for 2000 ms"),
    ],
)
def test_who_is_not_well_is_named_and_nobody_else(answer: Any, words: str) -> None:
    async def main() -> None:
        rig = Rig("star")
        agents = {name: Pinged(answer if name == "runner" else 0.001) for name in rig.roster.ids}
        result = await probe(rig, dict(agents)).validate("chain")
        assert not result.ok and result.details == {"runner": words}

    run(main())


@on_virtual_time
async def test_a_probe_that_is_cancelled_leaves_at_once() -> None:
    rig = Rig("star")
    asking = asyncio.ensure_future(probe(rig, {"coder": Pinged(swallows)}).validate("chain", 500))
    await asyncio.sleep(0.1)
    asking.cancel()
    await asyncio.wait([asking])
    assert asking.cancelled() and asyncio.get_running_loop().time() == pytest.approx(0.1)


class NeverExpires(HealthCache):
    """A planted bug: an answer is believed for ever."""

    def age_s(self, name: str) -> float | None:
        return None if super().age_s(name) is None else 0.0


class BelievesTheSick(HealthCache):
    """A planted bug: who fails is remembered as well."""

    def forget(self, name: str) -> None:
        self.put(name, AgentHealth(int(self._now() * 1e9), 0.0))


def ages_of_a_good_answer(cache: type[HealthCache]) -> list[tuple[bool, int]]:
    """(whether the probe passed, questions so far) at 0, 9.9, 10.0 and 10.1 s; the agent falls sick after the first."""

    async def main() -> list[tuple[bool, int]]:
        rig = Rig("star")
        agent = Pinged()
        it = probe(rig, {"coder": agent}, cache=cache(rig.clock))
        seen = []
        for at in (0.0, 9.9, 10.0, 10.1):
            await asyncio.sleep(at - asyncio.get_running_loop().time())
            seen.append(((await it.validate("chain")).ok, agent.asked))
            agent.answer = fails
        return seen

    return run(main())


def test_a_good_answer_is_believed_for_its_time_and_refreshed_after_it() -> None:
    good = [(True, 1), (True, 1), (False, 2), (False, 3)]
    assert ages_of_a_good_answer(HealthCache) == good
    assert ages_of_a_good_answer(NeverExpires) != good, "the planted bug is seen"
    assert ages_of_a_good_answer(BelievesTheSick) != good, "the planted bug is seen"


@on_virtual_time
async def test_hits_misses_and_ages_are_counted() -> None:
    rig = Rig("star")
    it = probe(rig, {"coder": Pinged(), "critic": Pinged()})
    await it.validate("chain")
    assert (it.cache.hits, it.cache.misses) == (0, 2)
    await asyncio.sleep(4)
    await it.validate("flat")
    assert (it.cache.hits, it.cache.misses) == (2, 2)
    assert it.cache.age_s("coder") == pytest.approx(4.0) and it.cache.age_s("nobody") is None
    assert it.cache.ages() == {"coder": pytest.approx(4.0), "critic": pytest.approx(4.0)}


@on_virtual_time
async def test_who_has_had_a_message_for_long_is_asked_again() -> None:
    rig = Rig("flat")
    agents = {"coder": Pinged(), "critic": Pinged()}
    it = probe(rig, dict(agents), doubt_s=1.0)
    rig.send("planner", "coder")
    held = rig.take("coder")
    for _ in range(3):
        assert (await it.validate("star")).ok
        await asyncio.sleep(0.9)
    assert (agents["coder"].asked, agents["critic"].asked) == (2, 1)
    rig.router.ack(held)
    assert (await it.validate("star")).ok and agents["coder"].asked == 2


class Jumping:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now


@pytest.mark.parametrize(("jump", "believed"), [(9.999, True), (10.0, False), (-1.0, False), (-3.2e8, False)])
def test_f25_an_answer_from_the_future_is_not_believed(jump: float, believed: bool) -> None:
    clock = Jumping()
    cache = HealthCache(clock)
    cache.put("coder", AgentHealth(int(clock.now * 1e9), 1.0))
    clock.now += jump
    assert (cache.get("coder") is not None) == believed


@on_virtual_time
async def test_only_members_that_the_target_needs_are_asked() -> None:
    class Pair:
        name = "pair"

        def routes(self, roster: Roster) -> Routes:
            return Routes({AgentID("planner"): (AgentID("coder"),), AgentID("coder"): (AgentID("planner"),)})

    class Broken:
        name = "broken"

        def routes(self, roster: Roster) -> Routes:
            raise ValueError("too few")

    rig = Rig("star")
    agents = {name: Pinged(fails if name == "critic" else 0.0) for name in rig.roster.ids}
    shapes = {**TOPOLOGIES, "pair": Pair(), "broken": Broken()}
    it = TopologyHealthProbe(rig.router, shapes, clock=rig.clock, agents=agents)
    assert (await it.validate("pair")).ok and agents["critic"].asked == 0
    assert (await it.validate("chain")).details == {"critic": "OSError: no answer from model"}
    assert (await it.validate("broken")).details == {"topology broken": "ValueError: too few"}
    assert (await it.validate("mesh")).details == {"topology mesh": "unknown"}


@on_virtual_time
async def test_the_lead_is_asked_even_where_nobody_speaks() -> None:
    class Silent:
        name = "silent"

        def routes(self, roster: Roster) -> Routes:
            return Routes({})

    rig = Rig("flat", team("planner coder"))
    agents = {name: Pinged(fails) for name in rig.roster.ids}
    it = TopologyHealthProbe(rig.router, {"silent": Silent()}, clock=rig.clock, agents=agents)
    assert list((await it.validate("silent")).details) == ["planner"]


@on_virtual_time
async def test_who_cannot_be_asked_is_judged_by_the_message_in_its_hands_and_who_can_is_not() -> None:
    rig = Rig("flat")
    for agent in ("coder", "critic"):
        rig.send("planner", agent)
        rig.take(agent)
    it = probe(rig, {"coder": Quiet(), "critic": Pinged()}, max_held_s=5.0)
    assert (await it.validate("star")).ok
    await asyncio.sleep(5.5)
    assert (await it.validate("star")).details == {"coder": "has had a message for 5.500 s, longer than 5"}


@on_virtual_time
async def test_lanes_are_looked_at_every_time() -> None:
    rig = Rig("flat")
    it = probe(rig, max_waiting=3, max_backlog=0)
    for _ in range(4):
        rig.send("planner", "coder")
    assert (await it.validate("star")).details == {"coder": "4 messages wait, more than 3"}
    rig.take("coder")
    assert (await it.validate("star")).details == {"coder": "3 messages wait behind one that it has had for 0.000 s"}
    assert (await probe(rig, max_waiting=3).validate("star")).ok


@on_virtual_time
async def test_services_are_asked_and_believed_like_members() -> None:
    rig = Rig("star")
    down = Pinged(fails)

    async def no() -> bool:
        return False

    async def yes() -> bool:
        return True

    it = probe(rig, services={"model a": down.ping, "tool b": no, "tool c": yes})
    result = await it.validate("chain")
    assert result.details == {"model a": "OSError: no answer from model", "tool b": "RuntimeError: not ready"}
    down.answer = 0.0
    assert (await it.validate("chain")).details == {"tool b": "RuntimeError: not ready"}
    assert it.cache.get("tool c") is not None and (it.passed, it.failed) == (0, 2)
    with pytest.raises(ValueError, match="coder"):
        probe(rig, services={"coder": yes})
