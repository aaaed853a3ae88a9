"""What a session refuses at its start, and says in one line, instead of standing still or going on without a word."""

from __future__ import annotations

import asyncio
import logging
import random
from pathlib import Path
from typing import Any

import pytest
from durable_office import DurableOffice, Worker, World
from lives import life
from office import TOPOLOGIES, Clerk, Office

from apex_framework.errors import ConfigError, SessionError
from apex_framework.interfaces import AgentContext, AgentID, Message
from apex_framework.interfaces.policy import Ruling
from apex_framework.runtime import Router, RouteTable
from apex_framework.session import DurableLog
from apex_framework.session.records import Kind
from apex_framework.testing.disk import SimulatedDisk
from apex_framework.timeloop import run
from apex_lanes.fifo import Fifo
from apex_transports.inproc import InProcess


async def idle(me: Worker, message: Message, context: AgentContext) -> None:
    """Takes note."""


async def slow(me: Worker, message: Message, context: AgentContext) -> None:
    await asyncio.sleep(100.0)


async def raises(message: Message, context: AgentContext) -> None:
    raise RuntimeError("no")


def two(act: Any = None) -> tuple[Clerk, Clerk]:
    return (Clerk(AgentID("a"), act) if act else Clerk(AgentID("a"))), Clerk(AgentID("b"))


def rerouted(office: Office, **settings: Any) -> None:
    ways: dict[str, Any] = {"lanes": Fifo(), "transport": InProcess(), "clock": office.clock, "rng": random.Random(1)}
    router = Router(RouteTable.compile(TOPOLOGIES["star"], office.roster), **{**ways, **settings})
    office.router = office.session.router = router


@pytest.mark.parametrize(
    ("settings", "cause", "remedy"),
    [
        ({"lane_bytes": 1}, r"full \(lane_bytes\)", "lane_bytes"),
        ({"total_bytes": 1}, r"full \(total_bytes\)", "total_bytes"),
        ({"allow": lambda message: Ruling(False, "not today")}, r"policy \(not today\)", "policy"),
        ({"ttl_s": 0.0}, "expired$", "ttl_s"),
    ],
)
@pytest.mark.parametrize("start", [run, asyncio.run])
def test_a_refused_task_is_an_error_at_once(start: Any, settings: dict[str, Any], cause: str, remedy: str) -> None:
    async def scenario() -> None:
        office = Office(*two())
        rerouted(office, **settings)
        with pytest.raises(SessionError, match=f"^the team's task was refused: {cause}") as refused:
            async with asyncio.timeout(30.0):
                await office.work()
        assert remedy in refused.value.remedy and office.router.closed

    start(scenario())


def test_a_session_whose_last_message_expires_in_its_backoff_ends() -> None:
    async def scenario() -> None:
        office = Office(*two(raises))
        rerouted(office, ttl_s=0.05)
        end = await office.work()
        assert (end.status, end.steps) == ("quiet", 1) and office.router.stats.dead == {"expired": 1}

    run(scenario())


@pytest.mark.parametrize("state", [None, {"x": object()}, {"x": float("nan")}, 1 / 3])
def test_a_snapshot_that_cannot_be_kept_is_one_error_at_the_start(state: Any) -> None:
    class Sneaky(Worker):
        def snapshot(self) -> dict[str, Any]:
            return state  # type: ignore[no-any-return]  # wrong on purpose

    async def scenario() -> None:
        disk = SimulatedDisk()
        here = DurableOffice(disk.root / "journal", disk, {"a": idle, "b": idle})
        here.agents[AgentID("b")].__class__ = Sneaky
        with pytest.raises(ConfigError, match="cannot save the state of b"):
            await here.work()
        assert not here.log.begun and not here.router.stats.admitted

    run(scenario())


@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize(
    ("task", "topology", "error"),
    [
        ({"text": "task"}, "flat", ""),
        ({"text": "other"}, "flat", "is the journal of another task"),
        ({"text": "task"}, "star", "began under topology 'flat', not 'star'"),
    ],
)
def test_a_journal_goes_on_with_its_task_and_its_topology(
    compacted: bool, task: dict[str, Any], topology: str, error: str
) -> None:
    disk = SimulatedDisk()

    async def first() -> None:
        here = DurableOffice(disk.root / "journal", disk, {"a": slow, "b": idle})
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.0):
                await here.session.run({"text": "task"})
        if compacted:
            here.log.compact()
        here.log.close()

    async def second() -> None:
        here = DurableOffice(disk.root / "journal", disk, {"a": idle, "b": idle}, topology=topology)
        try:
            if error:
                with pytest.raises(ConfigError, match=error):
                    await here.session.run(task)
            else:
                assert (await here.session.run(task)).status == "quiet"
        finally:
            here.log.close()

    run(first())
    run(second())


def test_an_ended_session_is_not_told_for_another_task() -> None:
    disk = SimulatedDisk()
    life(disk, World(), {"a": idle, "b": idle})

    async def again() -> None:
        here = DurableOffice(disk.root / "journal", disk, {"a": idle, "b": idle})
        with pytest.raises(ConfigError, match="another task"):
            await here.session.run({"text": "other"})
        here.log.close()

    run(again())


def test_a_torn_tail_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "journal"
    with DurableLog.open(path) as log:
        assert log.cut == 0
        begun = {"form": 1, "episode": "e", "tells": False, "states": {}, "roster": {"members": [], "lead": ""}}
        log.write(Kind.BEGUN, {**begun, "first": {"id": "m1", "from": "user", "to": "a", "for": None}})
    assert not caplog.records
    with path.open("ab") as file:
        file.write(b"torn")
    with DurableLog.open(path) as log:
        assert log.cut == 4 and log.begun
    (said,) = [record.getMessage() for record in caplog.records]
    assert str(path) in said and "4 bytes" in said


def test_the_same_error_is_logged_once_and_counted_each_time(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        office = Office(*two(raises))
        end = await office.work()
        assert end.faults == ("a: RuntimeError: no",) * 5

    with caplog.at_level(logging.WARNING):
        run(scenario())
    (line,) = [record for record in caplog.records if "failed on" in record.getMessage()]
    assert line.levelno == logging.WARNING and line.exc_info
