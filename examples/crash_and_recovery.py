"""A team that kills itself with SIGKILL in the middle of its work, three times, and still counts from 1 to 12."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import apex_framework as apex
from apex_framework.ports import LoopClock
from apex_framework.testing.scripted import ScriptedBackend


class Counter:
    def __init__(self, id, other, die_at):
        self.id, self.role, self.other, self.die_at, self.counted = id, "counter", other, die_at, []

    async def handle(self, message, context):
        number = message.payload["number"]
        self.counted.append(number)
        if number == self.die_at:
            os.kill(os.getpid(), signal.SIGKILL)  # nothing is closed, nothing is said
        if number < 12:
            await context.send(self.other, {"number": number + 1})

    def snapshot(self):
        return {"counted": self.counted}

    def restore(self, state):
        self.counted = state["counted"]

    def overhear(self, message): ...


async def life(journal, die_at):
    make, clock = apex.load_plugins().catalog.make, LoopClock(asyncio.get_running_loop())
    agents = {"odd": Counter("odd", "even", die_at), "even": Counter("even", "odd", die_at)}
    roster = apex.Roster(tuple(apex.Member(name, "counter") for name in agents), "odd")
    ways = {"lanes": make("lane", "fifo"), "transport": make("transport", "inproc"), "rng": random.Random(1)}
    router = apex.Router(apex.RouteTable.compile(make("topology", "flat"), roster), clock=clock, **ways)
    guard = apex.Guard(apex.Ledger(), [make("budget_scope", "episode")], clock=clock)
    llm, tools = apex.LLMService({"*": ScriptedBackend()}, guard, clock=clock), apex.ToolService({}, clock=clock)
    rights = (lambda agent: apex.CallTags("", "", agent.id, "", 0), lambda agent: apex.Capability(None, frozenset()))
    with apex.DurableLog.open(journal) as log:
        doors = apex.Services(llm, tools, guard.headroom)
        end = await apex.Session("count", roster, agents, router, doors, *rights, clock, durable=log).run({"number": 1})
    print(*(f"{agent.id} counted {agent.counted}" for agent in agents.values()), *end.faults, sep="\n")


if len(sys.argv) > 1:
    asyncio.run(life(Path(sys.argv[1]), int(sys.argv[2])))
else:
    with tempfile.TemporaryDirectory() as folder:
        for number in (4, 7, 11, 0):
            ended = subprocess.run([sys.executable, __file__, f"{folder}/journal", str(number)], check=False).returncode
            print(f"this life ended with {ended}" + f", killed at {number}" * (number > 0), flush=True)
