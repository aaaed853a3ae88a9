"""A session in one life or in several: whatever the crashes, the world and the agents must look as if there was none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from durable_office import Act, DurableOffice, Worker, World

from apex_framework.interfaces import AgentContext, Denied, Message
from apex_framework.session import E_IN_DOUBT, DurableLog, SessionEnd
from apex_framework.testing.disk import SimulatedCrash, SimulatedDisk
from apex_framework.timeloop import run

Life = tuple[SessionEnd, DurableOffice]


async def busy(me: Worker, message: Message, context: AgentContext) -> None:
    """Looks, changes, asks, passes on: what it does follows from the message and from what it remembers."""
    left = int(message.payload.get("left", 6))
    seen = me.state["seen"] = me.state.get("seen", 0) + 1
    looked = await context.use("sink.look")
    done = await context.use("sink.put", text=f"{me.id} did {message.msg_id}")
    assert looked.ok and done.ok
    if seen % 3 == 0:
        answer = await context.ask(f"{me.id} asks {seen}", max_tokens=20)
        me.state["answer"] = "" if isinstance(answer, Denied) else answer.text
    me.state.setdefault("sent", 0)
    if left > 0:
        for audience in AUDIENCES[str(me.id)][: 1 + left % 2]:
            me.state["sent"] += 1
            await context.send(audience, {"left": left - 1, "text": f"{me.id}{me.state['sent']}"})


async def bold(me: Worker, message: Message, context: AgentContext) -> None:
    """Does what cannot be repeated, throws dice, and lets others act on what came up."""
    left = int(message.payload.get("left", 4))
    world: World = WORLDS[0]
    world.seen[str(message.payload.get("text"))] += 1
    world.dice += 1
    roll = f"{me.id} rolled {world.dice}"
    me.state.setdefault("rolls", []).append(roll)
    fired = await context.use("sink.fire", text=f"{me.id} on {message.msg_id}")
    me.state.setdefault("doubts", 0)
    me.state["doubts"] += fired.error == E_IN_DOUBT
    if left > 0:
        await context.send("b+c" if me.id == "a" else "a", {"left": left - 1, "text": roll})


WORLDS: list[World] = []
"""The one that bold agents act in."""

AUDIENCES: Mapping[str, tuple[str, ...]] = {"a": ("b+c", "d"), "b": ("c", "a"), "c": ("d", "b"), "d": ("a", "b")}


def life(
    disk: SimulatedDisk,
    world: World,
    acts: Mapping[str, Act],
    *,
    seed: int = 0,
    log: type[DurableLog] = DurableLog,
    wish: Callable[[DurableOffice], Any] | None = None,
    **office: Any,
) -> Life:
    """One life. Raises SimulatedCrash when the disk stopped in it, whatever came of that."""

    async def scenario() -> Life:
        here = DurableOffice(disk.root / "journal", disk, acts, world=world, log=log, **office)
        if wish is not None:
            here.session.on_step = wish(here)
        return await here.work(), here

    try:
        return run(scenario(), seed=seed, shuffle=seed > 0)
    except BaseException as error:
        if disk.stopped:
            raise SimulatedCrash(disk.stopped) from error
        raise


def told(office: DurableOffice) -> dict[str, Counter[str]]:
    """How often every agent heard from whom. What exactly depends on who came first, a crash or not."""
    return {
        name: Counter(line.partition(": ")[0] for line in state["handled"]) for name, state in office.states.items()
    }


def out_of_order(office: DurableOffice) -> list[str]:
    """Messages of one sender that an agent got in another order than they were sent in."""
    wrong = []
    for name, state in office.states.items():
        last: dict[str, int] = {}
        for line in state["handled"]:
            sender, _, text = line.partition(": ")
            number = int("".join(filter(str.isdigit, text)) or 0)
            if number < last.get(sender, 0):
                wrong.append(f"{name} got {line} after {last[sender]}")
            last[sender] = number
    return wrong


def violations(before: Life, after: Life, plain: World, world: World) -> list[str]:
    """How a session with crashes differs from one without."""
    found = [] if out_of_order(before[1]) else out_of_order(after[1])  # over a switch it holds from hop to hop only
    if after[0].status != before[0].status or after[0].steps != before[0].steps:
        found.append(f"ended {after[0]}, not {before[0]}")
    if told(after[1]) != told(before[1]):
        found.append(f"heard {told(after[1])}, not {told(before[1])}")
    if twice := [text for text, n in world.effects.items() if n > 1]:
        found.append(f"repeated {twice}")
    if world.effects.total() != plain.effects.total():
        found.append(f"{world.effects.total()} effects, not {plain.effects.total()}")
    if after[1].ledger.used("episode:e") < before[1].ledger.used("episode:e"):
        found.append("tokens spent before the crash are forgotten")
    return found


def unjustified(after: Life, world: World) -> list[str]:
    """What bold agents did, and a session with crashes must not have led to."""
    found = [f"{text} was fired {n} times" for text, n in world.effects.items() if n > 1]
    handled = {line.partition(": ")[2] for state in after[1].states.values() for line in state["handled"]}
    if phantoms := set(world.seen) - handled - {"None", "task"}:
        found.append(f"{sorted(phantoms)} was acted on, and then never sent")
    doubts = sum(state.get("doubts", 0) for state in after[1].states.values())
    steps = sum(len(state["handled"]) for state in after[1].states.values())
    if world.effects.total() + doubts < steps:
        found.append(f"{world.effects.total()} effects and {doubts} doubts for {steps} steps")
    return found
