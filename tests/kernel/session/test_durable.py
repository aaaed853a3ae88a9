"""A durable session: what it keeps, what it refuses, and what it says."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from durable_office import Act, DurableOffice, Worker, World
from lives import busy, life, out_of_order

from apex_framework.budget import Ledger
from apex_framework.errors import ConfigError, JournalError, RuntimeFault
from apex_framework.interfaces import AgentContext, AgentID, Epoch, Message, MessagePriority, RouteResult, ToolResult
from apex_framework.runtime import Journal
from apex_framework.session import E_IN_DOUBT, DurableLog
from apex_framework.session.keeper import Keeper
from apex_framework.session.records import Kind
from apex_framework.session.state import State
from apex_framework.testing.disk import Crash, SimulatedCrash, SimulatedDisk
from apex_framework.timeloop import run

ROOT = Path(__file__).parents[3]


async def idle(me: Worker, message: Message, context: AgentContext) -> None:
    """Takes note."""


def office_of(acts: dict[str, Act], disk: SimulatedDisk, **office: Any) -> DurableOffice:
    return DurableOffice(disk.root / "journal", disk, acts, **office)


def told_to(audience: str, *payloads: dict[str, Any]) -> Act:
    async def act(me: Worker, message: Message, context: AgentContext) -> None:
        for payload in payloads:
            me.state.setdefault("results", []).append(str(await context.send(audience, payload)))

    return act


def kinds(disk: SimulatedDisk) -> list[int]:
    with Journal.open(disk.root / "journal", files=disk) as journal:
        return [record.kind for record in journal.records]


def test_a_finished_session_says_so_again_and_does_nothing() -> None:
    disk, world = SimulatedDisk(), World()

    async def finishes(me: Worker, message: Message, context: AgentContext) -> None:
        context.finish("done")

    end, first = life(disk, world, {"a": finishes, "b": idle})
    size = len(disk.content("journal") or b"")
    again, second = life(disk, world, {"a": finishes, "b": idle})
    assert (end.status, end.reason, end.steps) == ("finished", "done", 1) and again == end
    assert len(disk.content("journal") or b"") == size and second.states == first.states


def test_a_step_is_one_record_and_one_sync_serves_many() -> None:
    disk = SimulatedDisk()
    life(disk, World(), {"a": told_to("b", *[{"n": n} for n in range(50)]), "b": idle})
    steps = kinds(disk).count(Kind.STEP)
    assert steps == 51 and disk.trace.count("sync") < 20


def test_a_cancelled_session_goes_on_later() -> None:
    disk, world = SimulatedDisk(), World()

    async def slow(me: Worker, message: Message, context: AgentContext) -> None:
        if message.msg_id == "m3":
            await asyncio.sleep(30.0)

    acts: dict[str, Act] = {"a": told_to("b", *[{"text": str(n)} for n in range(4)]), "b": slow}

    async def cut() -> None:
        here = office_of(acts, disk)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10.0):
                await here.work()
        here.log.close()
        assert here.states["b"]["handled"] == ["a: 0", "a: 1"]

    run(cut())
    end, after = life(disk, world, acts)
    assert end.status == "quiet" and after.states["b"]["handled"] == ["a: 0", "a: 1", "a: 2", "a: 3"]
    assert after.agents["b"].state["redelivered"] == ["m3", "m4", "m5"]  # type: ignore[index]  # wrong on purpose


def test_a_failed_step_leaves_no_trace_but_its_answers() -> None:
    world = World()

    async def fails_twice(me: Worker, message: Message, context: AgentContext) -> None:
        me.state["dirty"] = me.state.get("dirty", 0) + 1
        assert (await context.use("sink.fire", text="once")).ok
        await context.send("b", {"text": f"try {message.attempt}"})
        if message.attempt < 2:
            raise RuntimeError("no")

    end, here = life(SimulatedDisk(), world, {"a": fails_twice, "b": idle})
    assert here.states["a"]["dirty"] == 1 and here.states["b"]["handled"] == ["a: try 2"]
    assert world.effects == {"once": 1} and end.steps == 4 and len(end.faults) == 2


def test_attempts_outlive_a_crash_and_poison_ends_as_a_dead_letter() -> None:
    async def poison(me: Worker, message: Message, context: AgentContext) -> None:
        world.seen[str(message.attempt)] += 1
        raise RuntimeError("no")

    disk, world = SimulatedDisk(), World()

    async def two_tries() -> None:
        here = office_of({"a": poison, "b": idle}, disk, world=world)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.25):
                await here.work()

    run(two_tries())
    end, here = life(disk, world, {"a": poison, "b": idle})
    assert end.status == "quiet" and world.seen == {str(n): 1 for n in range(5)}
    assert here.router.stats.dead == {"max_retries": 1} and Kind.DEAD in kinds(disk)


def test_a_handler_cut_inside_a_call_that_cannot_be_repeated_is_in_doubt_on_its_next_try() -> None:
    errors: list[str] = []

    async def hangs(me: Worker, message: Message, context: AgentContext) -> None:
        if message.attempt == 0:
            async with asyncio.timeout(0.0015):
                await context.use("sink.fire", text="x")
        errors.append((await context.use("sink.fire", text="x")).error)

    world = World()
    disk = SimulatedDisk()

    async def scenario() -> DurableOffice:
        here = office_of({"a": hangs, "b": idle}, disk, world=world)
        here.log._sync_cost_s = 0.0
        here.log._journal._sync_cost_s = 0.0
        end = await here.work()
        assert "a: InDoubt: whether sink.fire had its effect is not known" in end.faults
        return here

    here = run(scenario())
    assert errors == [E_IN_DOUBT] and world.effects["x"] <= 1 and len(here.log.in_doubt) == 1


def test_an_answer_that_failed_is_asked_for_again_on_the_next_try_and_repeated_after_a_crash() -> None:
    world = World()

    async def asks(me: Worker, message: Message, context: AgentContext) -> None:
        for _ in range(2):
            result = await context.use("sink.nothing", text="x")
            me.state.setdefault("errors", []).append(result.error)
        if message.attempt == 0:
            raise RuntimeError("again")

    _, here = life(SimulatedDisk(), world, {"a": asks, "b": idle})
    assert here.states["a"]["errors"] == ["E_POLICY", "E_POLICY"]


@pytest.mark.parametrize(
    "arguments",
    [{"text": float("nan")}, {"text": "x" * 2**24}, {"text": {(1, 2): "x", "a": 1}}],
    ids=["nan", "huge", "keys"],
)
def test_arguments_that_cannot_be_written_down_are_refused_and_nothing_is_called(arguments: dict[str, Any]) -> None:
    world, answers = World(), list[ToolResult]()

    async def odd(me: Worker, message: Message, context: AgentContext) -> None:
        answers.append(await context.use("sink.put", **arguments))

    end, _ = life(SimulatedDisk(), world, {"a": odd, "b": idle})
    assert [a.error for a in answers] == ["E_ARG"] and not world.effects and not end.faults


def test_the_same_call_twice_in_a_step_is_two_calls() -> None:
    world = World()

    async def twice(me: Worker, message: Message, context: AgentContext) -> None:
        for _ in range(2):
            await context.use("sink.fire", text="same")
            await context.ask("same", max_tokens=5)

    life(SimulatedDisk(), world, {"a": twice, "b": idle})
    assert world.effects == {"same": 2} and world.asked == {"same": 2}


def test_admission_says_what_it_would_say_without_a_journal() -> None:
    disk = SimulatedDisk()
    acts: dict[str, Act] = {"a": told_to("b", *[{"n": n} for n in range(3)]), "b": idle, "c": told_to("x", {})}
    _, here = life(disk, World(), acts, capacity=2)
    assert here.states["a"]["results"] == ["enqueued"] * 3  # they wait outside until they are on disk, all of them
    _, here = life(SimulatedDisk(), World(), {"a": told_to("nobody", {}), "b": idle})
    assert here.states["a"]["results"] == [str(RouteResult.NO_ROUTE)]

    async def huge(me: Worker, message: Message, context: AgentContext) -> None:
        await context.send("b", {"text": "x" * 600_000})

    async def odd(me: Worker, message: Message, context: AgentContext) -> None:
        await context.send("b", {"text": object()})

    end, _ = life(SimulatedDisk(), World(), {"a": huge, "b": idle})
    assert "PayloadTooLargeError" in end.faults[0]
    end, _ = life(SimulatedDisk(), World(), {"a": odd, "b": idle})
    assert "PayloadError: message m2 has no JSON form" in end.faults[0]


def test_priorities_and_what_a_sender_does_to_its_payload_later() -> None:
    async def sends(me: Worker, message: Message, context: AgentContext) -> None:
        payload = {"text": "before", "tuple": (1, 2)}
        await context.send("b", payload, priority=MessagePriority.FINAL)
        payload["text"] = "after"

    async def reads(me: Worker, message: Message, context: AgentContext) -> None:
        me.state["got"] = [message.payload, str(message.priority)]

    _, here = life(SimulatedDisk(), World(), {"a": sends, "b": reads})
    assert here.states["b"]["got"] == [{"text": "before", "tuple": [1, 2]}, "final"]


def test_tokens_spent_before_a_crash_stay_spent_and_open_calls_are_debited() -> None:
    second = "second " * 20
    once = 0
    debited = 0
    for stop in range(12):
        disk, world = SimulatedDisk(), World()

        async def asks(
            me: Worker, message: Message, context: AgentContext, disk: SimulatedDisk = disk, stop: int = stop
        ) -> None:
            await context.ask("first", max_tokens=20)
            if stop:
                disk.stop_at(stop)
            await context.ask(second, max_tokens=20)

        async def calm(me: Worker, message: Message, context: AgentContext) -> None:
            await context.ask("first", max_tokens=20)
            await context.ask(second, max_tokens=20)

        try:
            _, here = life(disk, world, {"a": asks, "b": idle})
        except SimulatedCrash:
            _, here = life(disk.crash(Crash.LOST), world, {"a": calm, "b": idle})
        spent = here.ledger.used("episode:e")
        once = once or spent
        assert world.asked["first"] == 1 and spent >= once
        assert (world.asked[second] == 2) <= (spent > once)
        debited += spent > once
    assert debited > 0


def test_agents_that_cannot_be_saved_are_one_error_at_the_start() -> None:
    class Mute:
        id, role = "b", "b"

        async def handle(self, message: Message, context: AgentContext) -> None: ...

        def overhear(self, message: Message) -> None: ...

    async def scenario() -> None:
        here = office_of({"a": idle, "b": idle}, SimulatedDisk())
        here.session.agents = {**here.agents, "b": Mute()}  # type: ignore[dict-item]  # wrong on purpose
        with pytest.raises(ConfigError, match="cannot save the state of b"):
            await here.work()
        assert not here.router.stats.admitted

    run(scenario())


def test_a_snapshot_that_is_none_is_the_agents_fault() -> None:
    class Sneaky(Worker):
        def snapshot(self) -> dict[str, Any]:
            return {"x": object()} if self.state["handled"] else self.state

    async def scenario() -> None:
        here = office_of({"a": idle, "b": idle}, SimulatedDisk())
        here.agents["a"].__class__ = Sneaky  # type: ignore[index]  # wrong on purpose
        end = await here.work()
        assert len(end.faults) == 5 and "a: TypeError: Object of type object is not JSON serializable" in end.faults[0]

    run(scenario())


def test_an_agent_that_cannot_be_set_back_ends_the_session() -> None:
    class Stuck(Worker):
        def restore(self, state: dict[str, Any]) -> None:
            raise ValueError("no way back")

    async def fails(me: Worker, message: Message, context: AgentContext) -> None:
        raise RuntimeError("no")

    async def scenario() -> None:
        here = office_of({"a": fails, "b": idle}, SimulatedDisk())
        here.agents["a"].__class__ = Stuck  # type: ignore[index]  # wrong on purpose
        with pytest.raises(RuntimeFault, match="agent a cannot be set back: ValueError: no way back"):
            await here.work()
        assert here.router.closed

    run(scenario())


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"episode": "other"}, "is the journal of 'e', not of 'other'"),
        ({"agents": ("a", "x")}, "knows of agents that are not here: b"),
        ({"share": True}, "share_everything has no durable form"),
        ({"ledger": True}, "the ledger of a durable session: only an empty ledger can be rebuilt"),
    ],
)
def test_a_journal_of_something_else_is_refused(change: dict[str, Any], error: str) -> None:
    disk = SimulatedDisk()

    async def slow(me: Worker, message: Message, context: AgentContext) -> None:
        await asyncio.sleep(100.0)

    async def first() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.0):
                await office_of({"a": slow, "b": idle}, disk).work()

    async def second() -> None:
        here = office_of(dict.fromkeys(change.get("agents", ("a", "b")), idle), disk)
        here.session.episode_id = change.get("episode", "e")
        here.session.share_everything = "share" in change
        if "ledger" in change:
            other = Ledger()
            other.reserve([], 1)
            here.ledger._entries += other.entries
        with pytest.raises(ConfigError, match=error):
            await here.work()

    run(first())
    run(second())


def test_a_foreign_a_damaged_and_a_used_journal_are_named(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "switches") as journal:
        journal.append(Kind.STEP, 0, {})
    with pytest.raises(JournalError, match="does not begin as a session's journal"):
        DurableLog.open(tmp_path / "switches")
    with Journal.open(tmp_path / "newer") as journal:
        begun = {"form": 99, "episode": "e", "tells": False, "states": {}, "roster": {"members": [], "lead": ""}}
        journal.append(Kind.BEGUN, 0, {**begun, "first": {"id": "m1", "from": "user", "to": "a", "for": None}})
    with pytest.raises(JournalError, match="is of form 99, not 1"):
        DurableLog.open(tmp_path / "newer")
    with DurableLog.open(tmp_path / "used"), pytest.raises(JournalError, match="in use"):
        DurableLog.open(tmp_path / "used")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(JournalError, match="not a journal"):
        DurableLog.open(tmp_path / "text")


def test_the_state_is_its_pieces() -> None:
    disk = SimulatedDisk()
    life(disk, World(), dict.fromkeys("abcd", busy), topology="star")
    with Journal.open(disk.root / "journal", files=disk) as journal:
        records = journal.records
    whole = State()
    for number, record in enumerate(records):
        whole.apply(record.kind, record.payload)
        if number % 10 == 0:
            copy = State()
            for piece in whole.pieces():
                copy.apply(Kind.KEPT, json.loads(json.dumps(piece)))
            assert json.dumps(list(copy.pieces())) == json.dumps(list(whole.pieces()))
            assert list(copy.ways()) == list(whole.ways())


def test_the_journal_of_a_long_session_stays_small() -> None:
    async def echo(me: Worker, message: Message, context: AgentContext) -> None:
        me.state["handled"] = []
        await context.send("b" if me.id == "a" else "a", {"text": "x" * 1000})

    disk = SimulatedDisk()
    end, here = life(disk, World(), {"a": echo, "b": echo}, max_steps=800, compact_bytes=20_000)
    assert end.steps >= 800 and here.log.compactions > 20
    assert len(disk.content("journal") or b"") < 60_000


def test_on_step_hears_of_every_step_at_least_once_and_in_order() -> None:
    heard: list[int] = []

    def listens(here: DurableOffice) -> Any:
        async def on_step(step: Any) -> None:
            heard.append(step.number)
            await asyncio.sleep(0.01)

        return on_step

    for call in range(20, 300, 40):
        heard.clear()
        disk, world = SimulatedDisk(), World()
        disk.stop_at(call)
        with pytest.raises(SimulatedCrash):
            life(disk, world, dict.fromkeys("abcd", busy), wish=listens)
        before = list(heard)
        assert before == list(range(1, len(before) + 1))
        heard.clear()
        end, _ = life(disk.crash(Crash.LOST), world, dict.fromkeys("abcd", busy), wish=listens)
        assert heard == list(range(heard[0], end.steps + 1)) and heard[0] <= len(before) + 1


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_f22_a_durable_session_cancelled_at_any_turn_goes_on_as_if_it_was_not(every: int) -> None:
    acts: dict[str, Act] = dict.fromkeys("abcd", busy)
    plain, world = life(SimulatedDisk(), World(), acts), World()

    async def cut(turn: int, disk: SimulatedDisk, world: World) -> bool:
        here = office_of(acts, disk, world=world)
        task = asyncio.get_running_loop().create_task(here.session.run({"text": "task"}))
        for _ in range(turn):
            await asyncio.sleep(0.0007)
        over = task.done()
        task.cancel()
        await asyncio.wait({task})
        here.log.close()
        here.router.audit()
        assert asyncio.all_tasks() == {asyncio.current_task()} and here.router.closed
        return over

    over, turn = False, 0
    while not over:
        disk, world, turn = SimulatedDisk(), World(), turn + every
        over = run(cut(turn, disk, world))
        after = life(disk, world, acts)
        assert after[0].status == "quiet" and after[0].steps == plain[0].steps, turn
        assert not out_of_order(after[1]) and set(world.effects.values()) == {1}, turn
    assert turn > 30


def test_f23_an_agent_that_swallows_everything_is_set_back_and_tried_again() -> None:
    async def stuck(me: Worker, message: Message, context: AgentContext) -> None:
        me.state["dirty"] = True
        while message.attempt < 2:
            try:
                await asyncio.sleep(1e6)
            except BaseException:  # noqa: BLE001 - it is what this agent is about
                continue

    disk = SimulatedDisk()
    end, here = life(disk, World(), {"a": stuck, "b": idle}, handler_deadline_s=1.0, cancel_grace_s=0.5)
    assert (end.status, end.steps, len(end.faults)) == ("quiet", 3, 2)
    assert here.states["a"]["handled"] == ["user: task"] and kinds(disk).count(Kind.FAILED) == 2


def test_what_follows_from_a_record_waits_for_it_also_when_the_journal_was_rewritten_before() -> None:
    released: list[str] = []

    async def scenario() -> None:
        here = office_of({"a": idle, "b": idle}, SimulatedDisk())
        keeper = Keeper(here.session, here.log)
        keeper.begin(Message("e", "m1", AgentID("user"), AgentID("a"), Epoch(0), {}, created_ts=0.0))
        log = here.log
        log.then(log.write(Kind.JUDGED, {"n": 0}), lambda: released.append("old"))
        log.compact()
        log.then(log.write(Kind.JUDGED, {"n": 0}), lambda: released.append("new"))
        await log._first(0)
        assert released == ["old"]
        await log.room(0)
        assert released == ["old", "new"]
        log.close()

    run(scenario())


def test_in_real_time_with_a_real_disk_it_is_the_same_session(tmp_path: Path) -> None:
    async def scenario() -> DurableOffice:
        here = DurableOffice(tmp_path / "journal", None, dict.fromkeys("abcd", busy))
        assert (await here.work()).status == "quiet"
        return here

    here = asyncio.run(scenario())
    _, virtual = life(SimulatedDisk(), World(), dict.fromkeys("abcd", busy))
    assert here.world.effects.total() == virtual.world.effects.total()


def test_the_example_crashes_recovers_and_fits_on_a_page() -> None:
    example = ROOT / "examples" / "crash_and_recovery.py"
    assert len(example.read_text().splitlines()) < 60
    shown = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, timeout=60, check=True)
    assert shown.stdout.count("ended with -9") == 3 and "odd counted [1, 3, 5, 7, 9, 11]" in shown.stdout
    assert "even counted [2, 4, 6, 8, 10, 12]\nthis life ended with 0\n" in shown.stdout
