"""Effects that leave the workspace: on disk before they are made, made once, and in doubt when nobody knows."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import durable_office
import pytest
from durable_office import ANY, DurableOffice, Tools, Worker, World
from lives import WORLDS, Life, life, unjustified
from test_crashes import stops

from apex_framework.events import EffectInDoubt
from apex_framework.interfaces import AgentContext, Message, ToolCall, ToolResult, ToolSpec
from apex_framework.ports import LocalFileSystem, SystemFiles
from apex_framework.session import E_IN_DOUBT, DurableLog
from apex_framework.session.durable_desk import DurableDesk
from apex_framework.session.records import Kind
from apex_framework.testing.disk import Crash, SimulatedDisk
from apex_framework.timeloop import run


@dataclass
class Outside(World):
    """A world beyond the workspace; ``early`` counts effects whose intent was not on disk yet."""

    disk: SimulatedDisk | None = field(default=None, compare=False)
    early: int = 0

    def __deepcopy__(self, memo: Any) -> Outside:
        return Outside(Counter(self.effects), Counter(self.by_key), Counter(self.asked), self.reads, self.dice,
                       Counter(self.seen), None, self.early)  # fmt: skip


class Post(Tools):
    """``post`` may not be repeated; ``ask`` only reads, but far away."""

    tools = (
        *Tools.tools,
        ToolSpec("sink.post", "", ANY, read_only=False, outward=True),
        ToolSpec("sink.ask", "", ANY, outward=True),
    )

    async def call(self, call: ToolCall) -> ToolResult:
        if call.tool not in ("sink.post", "sink.ask"):
            return await super().call(call)
        world = self.world
        assert isinstance(world, Outside) and call.key
        if world.disk is not None:
            kept = world.disk.crash(Crash.LOST).content("journal") or b""
            world.early += call.key.encode() not in kept
        await asyncio.sleep(0.001)
        if call.tool == "sink.post":
            world.effects[str(call.arguments["text"])] += 1
        await asyncio.sleep(0.001)
        return ToolResult(True, {"posted": True})


@pytest.fixture(autouse=True)
def posts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(durable_office, "Tools", Post)
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


async def posting(me: Worker, message: Message, context: AgentContext) -> None:
    """Asks, posts, passes on."""
    left = int(message.payload.get("left", 5))
    WORLDS[0].seen[str(message.payload.get("text"))] += 1
    assert (await context.use("sink.ask", text=message.msg_id)).ok
    posted = await context.use("sink.post", text=f"{me.id} on {message.msg_id}")
    me.state["doubts"] = me.state.get("doubts", 0) + (posted.error == E_IN_DOUBT)
    if left > 0:
        me.state["sent"] = me.state.get("sent", 0) + 1
        await context.send("b+c" if me.id == "a" else "a", {"left": left - 1, "text": f"{me.id}{me.state['sent']}"})


POSTING = dict.fromkeys("abc", posting)


def lived(**office: Any) -> tuple[Life, Outside, SimulatedDisk]:
    disk = SimulatedDisk()
    world = Outside(disk=disk)
    WORLDS[:] = [world]
    return life(disk, world, POSTING, **office), world, disk


def crashed(every: int, **office: Any) -> tuple[list[str], int, int]:
    """What is wrong after crashes at every so-many-th call to the disk; how many there were; doubts."""
    doubts = points = 0
    for stop in stops(POSTING, every=every, world=Outside(), **office):
        WORLDS[:] = [stop.world]
        events: list[Any] = []
        after = life(stop.disk, stop.world, POSTING, on_event=events.append, **office)
        told = [event for event in events if isinstance(event, EffectInDoubt)]
        wrong = unjustified(after, stop.world)
        if any(doubt.tool != "sink.post" for doubt in after[1].log.in_doubt):
            wrong.append("a call that may be repeated is in doubt")
        if len(told) != len(after[1].log.in_doubt) or any(not event.key for event in told):
            wrong.append(f"{len(told)} events for {after[1].log.in_doubt}")
        if wrong:
            return [f"{stop}: {wrong}"], points, doubts
        points, doubts = points + 1, doubts + len(told)
    return [], points, doubts


def test_an_outward_effect_is_on_disk_before_it_is_made() -> None:
    after, world, _ = lived()
    assert world.early == 0 and world.effects.total() == after[0].steps > 20


def test_after_any_crash_no_outward_effect_is_made_twice_and_doubts_are_told() -> None:
    wrong, points, doubts = crashed(every=7)
    assert wrong == [] and points > 50 and doubts > 3


@pytest.mark.slow
def test_after_a_crash_at_every_call_to_the_disk_too() -> None:
    wrong, points, doubts = crashed(every=1)
    assert wrong == [] and points > 400 and doubts > 30


def test_calls_at_the_same_time_share_their_syncs() -> None:
    async def scenario(agents: int) -> int:
        disk = SimulatedDisk()

        async def together(me: Worker, message: Message, context: AgentContext) -> None:
            await asyncio.gather(*[context.use("sink.put", text=str(n)) for n in range(agents)])

        here = DurableOffice(disk.root / "journal", disk, {"a": together, "b": together}, world=Outside())
        await here.work()
        return sum(call.startswith("sync") for call in disk.trace)

    assert run(scenario(20)) == run(scenario(1))


# --- planted bugs: each must show --------------------------------------------------------------


async def _effect_first(self: DurableDesk, tool: str, **arguments: Any) -> ToolResult:
    """The order of intent and effect swapped."""
    key = self._key("tool", tool, arguments)
    call = self._known(key)
    if call is not None:
        if call.answer is not None:
            return ToolResult(True)
        return await self._doubt(key, tool, arguments)
    result = await self._session.use(self._agent, tool, arguments, key)
    self._log.write(Kind.CALL, {**self._step, "key": key, "what": tool, "arguments": arguments})
    await self._log.barrier()
    await self._answered(
        key, tool, {"type": "ToolResult", "ok": True, "value": {}, "error": "", "detail": ""}, wait=True
    )
    return result


async def _no_barrier(self: DurableLog) -> None: ...


PLANTED = {
    "the journal comes after the effect": (DurableDesk, "use", _effect_first),
    "the intent is not on disk": (DurableLog, "barrier", _no_barrier),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_planted(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*PLANTED[bug])
    _, world, _ = lived()
    assert world.early > 0
    assert crashed(every=5)[0] != []


# --- the real thing ----------------------------------------------------------------------------


class Killed(LocalFileSystem):
    """Kills its own process in place of the n-th call."""

    def __init__(self, at: int) -> None:
        self.left = at


def _counted(name: str) -> Any:
    def call(self: Killed, *args: Any, **more: Any) -> Any:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return getattr(LocalFileSystem, name)(self, *args, **more)

    return call


for _name in ("open", "close", "lock", "size", "read", "write", "sync", "truncate", "rename", "remove"):
    if hasattr(LocalFileSystem, _name):
        setattr(Killed, _name, _counted(_name))


class FileSink(Post):
    """Effects are lines of a file, which outlives the process."""

    async def call(self, call: ToolCall) -> ToolResult:
        if call.tool == "sink.post":
            await asyncio.sleep(0.001)
            _put_down(f"{call.key} {call.arguments['text']}\n")
            await asyncio.sleep(0.001)
        return ToolResult(True)


def _put_down(line: str) -> None:
    with open(os.environ["SINK"], "a") as sink:
        sink.write(line)


async def _one_life(folder: Path, at: int) -> tuple[int, int]:
    acts = dict.fromkeys("abc", posting)
    here = DurableOffice(folder / "journal", SystemFiles(Killed(at)), acts, world=Outside())
    WORLDS[:] = [here.world]
    end = await here.work()
    return end.steps, len(here.log.in_doubt)


@pytest.mark.slow
def test_a_real_kill_at_every_boundary_repeats_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable_office, "Tools", FileSink)
    points = doubts = 0
    for at in range(1, 10_000, 2):
        folder = tmp_path / str(at)
        folder.mkdir()
        monkeypatch.setenv("SINK", str(folder / "sink"))
        child = os.fork()
        if child == 0:
            run(_one_life(folder, at))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            assert status == 0
            break
        steps, in_doubt = run(_one_life(folder, 0))
        made = Counter(line.split()[0] for line in (folder / "sink").read_text().splitlines())
        assert max(made.values()) == 1, at
        assert steps - in_doubt <= len(made) <= steps, at
        points, doubts = points + 1, doubts + in_doubt
    assert points > 75 and doubts > 3
