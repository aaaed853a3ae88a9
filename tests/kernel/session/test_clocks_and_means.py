"""Clocks that jump, machines that run out of something, surroundings that differ: the session stays the same."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from office import Clerk, Office

from apex_framework.interfaces import AgentContext, AgentID, Message
from apex_framework.ports import Clock
from apex_framework.runtime import Router, RouteTable
from apex_framework.timeloop import run

HERE = Path(__file__).parent
YEAR = 365.25 * 86400


class Bent:
    """The loop's clock, with a wall that says what it likes and a monotonic reading as coarse as told."""

    def __init__(self, wall: Callable[[float], float], tick: float = 0.0, jump: tuple[float, float] = (1e9, 0.0)):
        self._wall, self._tick, self._jump = wall, tick, jump
        self._time = asyncio.get_running_loop().time

    def monotonic(self) -> float:
        now = self._time()
        now += self._jump[1] if now >= self._jump[0] else 0.0
        return now - now % self._tick if self._tick else now

    def wall(self) -> float:
        return self._wall(self._time())


def bend(office: Office, clock: Clock) -> None:
    """Give another clock to a session and its router, before anything has happened."""
    office.clock = office.session.clock = clock  # type: ignore[assignment]  # wrong on purpose
    old = office.router
    office.router = office.session.router = Router(
        RouteTable.compile(_Same(old.table), office.roster),
        lanes=old._lanes,
        transport=_Codec(old),
        clock=clock,
        rng=__import__("random").Random(1),
        on_event=office.events.append,
    )


class _Same:
    name = "same"

    def __init__(self, table: RouteTable) -> None:
        self._edges = table._edges

    def routes(self, roster: object) -> object:
        from apex_framework.interfaces import Routes

        return Routes(self._edges)


class _Codec:
    local, name = True, "inproc"

    def __init__(self, router: Router) -> None:
        self.codec = router._codec


async def busy(message: Message, context: AgentContext) -> None:
    left = int(message.payload.get("left", 5))
    await asyncio.sleep(0.003 * left)
    if left == 3 and message.attempt == 0:
        raise RuntimeError("once")
    for audience in ("b+c", "a")[: 1 + left % 2] if left else ():
        await context.send(audience, {"left": left - 1})


async def day(make: Callable[[], Clock] | None) -> tuple[list[tuple[str, ...]], list[float], tuple[str, int]]:
    """(what moved, ages of messages at every move, how it ended)"""
    office = Office(*(Clerk(AgentID(name), busy) for name in "abc"), max_steps=500)
    if make is not None:
        bend(office, make())
    created: dict[str, float] = {}
    ages: list[float] = []

    def listen(event: object) -> None:
        office.events.append(event)  # type: ignore[arg-type]  # wrong on purpose

    end = await office.session.run({})
    office.router.audit()
    for event in office.events:
        created.setdefault(event.msg_id, event.ts)
        ages.append(event.ts - created[event.msg_id])
    moves = [(e.msg_id, e.what, e.holder, e.receiver, e.reason) for e in office.events]
    return moves, ages, (end.status, end.steps)


@pytest.mark.parametrize("years", [10, -10])
def test_f25_a_wall_clock_that_jumps_ten_years_changes_nothing(years: int) -> None:
    plain = run(day(None))
    bent = run(day(lambda: Bent(lambda now: 1.7e9 + (years * YEAR if now > 0.01 else 0.0))))
    assert bent[0] == plain[0] and bent[2] == plain[2] and min(bent[1]) >= 0.0


def test_f25_neither_do_daylight_saving_a_leap_second_and_a_wall_that_runs_backwards() -> None:
    plain = run(day(None))
    for wall in (lambda now: 1.7e9 + now + 3600 * (now > 0.02), lambda now: 1.7e9 - now, lambda now: 1.7e9 - (now > 0)):
        bent = run(day(lambda wall=wall: Bent(wall)))
        assert bent[0] == plain[0] and bent[2] == plain[2] and min(bent[1]) >= 0.0


def test_f26_an_hour_asleep_in_which_monotonic_time_stood_still_changes_nothing() -> None:
    plain = run(day(None))
    slept = run(day(lambda: Bent(lambda now: 1.7e9 + now + 3600 * (now > 0.02))))
    assert slept[0] == plain[0] and slept[2] == plain[2]


def test_f26_an_hour_asleep_in_which_monotonic_time_went_on_ends_in_named_deaths_and_no_loss() -> None:
    moves, ages, (status, _) = run(day(lambda: Bent(lambda now: 1.7e9 + now, jump=(0.02, 3600.0))))
    assert status == "quiet" and min(ages) >= 0.0
    assert {move[4] for move in moves if move[1] == "dead"} <= {"expired"}


@pytest.mark.parametrize("tick", [0.015, 0.1])
def test_f27_equal_readings_of_a_coarse_clock_change_nothing_that_matters(tick: float) -> None:
    plain = run(day(None))
    coarse = run(day(lambda: Bent(lambda now: 1.7e9, tick=tick)))
    assert coarse[2] == plain[2] and min(coarse[1]) >= 0.0
    assert sorted(m[1] for m in coarse[0]) == sorted(m[1] for m in plain[0])


def test_a_message_is_never_older_than_nothing() -> None:
    ages: list[float] = []

    async def looks(message: Message, context: AgentContext) -> None:
        ages.append(asyncio.get_running_loop().time() - message.created_ts)
        if len(ages) < 3:
            await context.send("b" if len(ages) % 2 else "a", {})

    async def scenario() -> None:
        await Office(Clerk(AgentID("a"), looks), Clerk(AgentID("b"), looks)).work()

    run(scenario())
    assert len(ages) == 3 and all(0.0 <= age < 1.0 for age in ages)


# --- something runs out --------------------------------------------------------------------------

OUT_OF = """
import asyncio, logging, resource, sys, threading
sys.path.insert(0, sys.argv[1])
from office import Clerk, Office
from apex_framework.interfaces import AgentID
logging.disable(logging.CRITICAL)
what = sys.argv[2]
held = []

async def boss(message, context):
    for n in range(3):
        await context.send("b", {"n": n})

async def hungry(message, context):
    if message.payload["n"] == 1 and message.attempt == 2:
        held.clear()  # it is free again
        resource.setrlimit(limit, before)
    if what == "files":
        held.append(open("/dev/null"))
        while message.payload["n"] == 1 and message.attempt < 2:
            held.append(open("/dev/null"))
    elif what == "memory" and message.payload["n"] == 1 and message.attempt < 2:
        held.append(bytearray(2**33))
    elif what == "threads" and message.payload["n"] == 1 and message.attempt < 2:
        await asyncio.to_thread(len, "x")

async def main():
    office = Office(Clerk(AgentID("a"), boss), Clerk(AgentID("b"), hungry), stall_after_s=STALL)
    end = await office.session.run({})
    office.router.audit()
    print(end.status, sorted({f.split(":")[1].strip() for f in end.faults}), office.router.stats.dead)

STALL = 1.0
if what == "files":
    limit, most = resource.RLIMIT_NOFILE, 64
else:
    limit = resource.RLIMIT_AS
    used = int(open("/proc/self/statm").read().split()[0]) * 4096
    most = used + (2**30 if what == "memory" else 2**21)
before = resource.getrlimit(limit)
asyncio.get_event_loop_policy().new_event_loop().close()
if what == "threads":
    import concurrent.futures.thread  # what to_thread needs, while there is room for it
resource.setrlimit(limit, (most, before[1]))
asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of the process, and /proc")
@pytest.mark.parametrize(
    ("what", "fault"), [("files", "OSError"), ("memory", "MemoryError"), ("threads", "RuntimeError")]
)
def test_f54_running_out_is_a_named_fault_and_work_goes_on_when_it_is_over(what: str, fault: str) -> None:
    shown = subprocess.run(
        [sys.executable, "-c", OUT_OF, str(HERE), what], capture_output=True, text=True, timeout=60, check=False
    )
    assert shown.stdout == f"quiet ['{fault}'] {{}}\n", shown.stderr


# --- surroundings --------------------------------------------------------------------------------

SESSION = """
import sys
sys.path.insert(0, sys.argv[1])
from test_clocks_and_means import trace
print(trace())
"""


def trace() -> str:
    """A hash of all that moved in a small session."""
    moves, ages, end = run(day(None), seed=3, shuffle=True)
    return hashlib.sha256(json.dumps([moves, ages, end], sort_keys=True).encode()).hexdigest()


@pytest.mark.parametrize(
    "change",
    [
        {"PYTHONHASHSEED": "1"},
        {"PYTHONHASHSEED": "4242"},
        {"LC_ALL": "C", "LANG": "C"},
        {"LC_ALL": "tr_TR.UTF-8"},
        {"TZ": "Pacific/Kiritimati"},
        {"PYTHONOPTIMIZE": "1"},
        {"PYTHONUTF8": "0"},
        {"umask": "0777"},
        {"cwd": "/"},
    ],
    ids=lambda change: ",".join(f"{k}={v}" for k, v in change.items()),
)
def test_f55_the_same_session_in_any_surroundings(change: dict[str, str]) -> None:
    env = {**os.environ, **{k: v for k, v in change.items() if k.isupper()}}
    umask = int(change.get("umask", "022"), 8)
    shown = subprocess.run(
        [sys.executable, "-c", SESSION, str(HERE)],
        capture_output=True,
        text=True,
        timeout=60,
        env=env,
        cwd=change.get("cwd"),
        umask=umask,
        check=True,
    )
    assert shown.stdout.strip() == trace()
