"""A team's agents under the simulated runtime: a real session, random switches, a model and a router that misbehave."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..budget import Guard, Ledger
from ..errors import BackendError, DeadlockError
from ..events import MessageMoved
from ..interfaces import (
    Agent,
    AgentID,
    Brief,
    CallTags,
    Capability,
    Intercepted,
    LLMRequest,
    LLMResult,
    Message,
    Point,
    Roster,
    Routes,
    Snapshots,
    Team,
)
from ..ports import LoopClock, derive_seed
from ..runtime import Router, RouteTable, SwitchEngine
from ..runtime.switchlog import SwitchRecord
from ..services import LLMService, ToolService
from ..session import Services, Session
from ..timeloop import run
from .character import Parts
from .faults import FAULTS, Faults
from .history import HistoryChecker
from .invariants import Findings
from .outcome import Outcome, words
from .router_model import RouterModel
from .scripted import Answer, ScriptedBackend
from .spending import Ceiling
from .trace import Trace

NONSENSE: tuple[Any, ...] = ("", "?", "task", "done", 7, None)


class Alone:
    """The topology of one."""

    name = "alone"

    def routes(self, roster: Roster) -> Routes:
        """Nobody to speak to."""
        return Routes(dict.fromkeys(roster.ids, ()))


class Injected(Exception):
    """A failure that the rehearsal made; no agent is to blame for it."""


class Rehearsal:
    """One seed: ``team`` works on a task of no meaning, its messages come again, its calls fail or are denied."""

    def __init__(
        self, seed: int, parts: Parts, team: Team, *, faults: Iterable[str] = FAULTS, size: int | None = None
    ) -> None:
        self.seed, self.parts, self.team, self.size = seed, parts, team, size
        self.faults = Faults(seed, faults)
        self.trace = Trace()
        self.outcome = Outcome(seeds=1, lives=1)
        self._rng = random.Random(derive_seed("rehearsal", seed))
        self._findings = Findings()
        self._check: Callable[[], None] | None = None

    def run(self) -> Outcome:
        """Rehearse; the same seed gives the same outcome."""
        try:
            run(self._main(), seed=self.seed, shuffle=True, observe=self._observe)
        except DeadlockError as error:
            self._findings.blame("liveness", str(error))
        except Exception as error:  # noqa: BLE001 - whatever the code under test raises is a finding
            self._findings.blame("harness", words(error))
        return self.outcome.closed(self.seed, self._findings, self.faults, self.trace)

    def _observe(self, handle: asyncio.Handle, now: float) -> None:
        self.trace.callback(handle, now)
        if self._check is not None:
            self._check()
            self.outcome.steps += 1

    async def _main(self) -> None:
        rng, parts, findings = self._rng, self.parts, self._findings
        roster = self.team.roster(self.size)
        agents = {a.id: a for a in self.team.agents(roster, Brief("Something is wrong.", "rehearsal", self.seed))}
        if set(agents) != set(roster.ids):
            findings.blame("agent", f"agents {sorted(agents)} for a roster of {sorted(roster.ids)}")
            return
        if len(roster.members) == 1:
            self.parts = parts = replace(parts, topologies={"alone": Alone()})
        clock = LoopClock(asyncio.get_running_loop())
        first = parts.topologies[rng.choice(sorted(parts.topologies))]
        model, history = RouterModel(findings, roster, first), HistoryChecker(roster)

        def heard(event: MessageMoved) -> None:
            self.trace.event(event)
            model(event)
            history(event)

        router = Router(
            RouteTable.compile(first, roster),
            lanes=parts.lanes,
            transport=parts.transport,
            clock=clock,
            rng=random.Random(rng.random()),
            on_event=heard,
            dedup_cap=50_000,
        )
        engine = SwitchEngine(router, parts.topologies, clock=clock, on_busy="migrate", log=_Log(model, parts, roster))
        ledger = Ledger()
        limit = rng.choice((0, 500, 5_000, 1_000_000))
        guard = Guard(ledger, [Ceiling("episode", None, limit)], clock=clock)
        around = _Around(findings, self.faults, rng)
        services = Services(
            LLMService({"*": _Moody(self.faults, rng)}, guard, clock=clock),
            ToolService({}, clock=clock),
            guard.headroom,
            (around,),
        )
        session = Session(
            "e",
            roster,
            agents,
            router,
            services,
            lambda agent: CallTags("r", "e", str(agent.id), agent.role, limit),
            lambda agent: Capability(_Nowhere(), frozenset(), str(agent.id), agent.role),
            clock,
            seed=self.seed,
            max_steps=rng.choice((5, 60)),
            stall_after_s=0,
        )

        def check() -> None:
            model.step(router.epoch, router.stats)
            if ledger.knows("episode:e"):
                balance = ledger.balance("episode:e")
                if balance.used + balance.reserved > limit:
                    findings.blame("budget", f"{balance.used} + {balance.reserved} tokens exceed {limit}")

        self._check = check
        others = asyncio.gather(self._switch(engine), self._interrupt(router, roster))
        try:
            await session.run({"kind": "task", "sections": []})
        finally:
            others.cancel()
            await asyncio.wait([others])
        self._check = None
        history.finish()
        for kind, times in history.violations.items():
            for _ in range(times):
                findings.blame(kind, next((e for e in history.examples if e.startswith(kind)), kind))
        for fault in session.faults:
            if "Injected" not in fault:
                findings.blame("agent", fault)
        for agent in agents.values():
            self._judge_snapshot(agent)
        outcome = self.outcome
        outcome.events, outcome.sent, outcome.acked = model.events, model.admitted, model.acked
        outcome.dead, outcome.committed = model.dead.total(), engine.committed
        outcome.aborted.update(engine.aborted)

    async def _switch(self, engine: SwitchEngine) -> None:
        while True:
            await asyncio.sleep(self._rng.random() * 0.5)
            self.outcome.switches += 1
            await engine.switch_to(self._rng.choice(sorted(self.parts.topologies)))

    async def _interrupt(self, router: Router, roster: Roster) -> None:
        """Messages that nobody expects, at any time."""
        rng = self._rng
        for number in range(rng.randint(0, 20)):
            await asyncio.sleep(rng.random())
            origin, target = AgentID(rng.choice((*roster.ids, "user"))), rng.choice(roster.ids)
            payload: dict[str, Any] = rng.choice(
                (
                    {},
                    {"kind": rng.choice(NONSENSE)},
                    {"kind": "task", "sections": [["x", "y", "z"]]},
                    {"sections": None},
                )
            )
            message = Message("e", f"n{number}", origin, target, router.epoch, payload, created_ts=0.0)
            (router.inject if origin == "user" else router.send)(message)

    def _judge_snapshot(self, agent: Agent) -> None:
        if not isinstance(agent, Snapshots):
            return
        state = json.dumps(agent.snapshot(), sort_keys=True)
        agent.restore(json.loads(state))
        if json.dumps(agent.snapshot(), sort_keys=True) != state:
            self._findings.blame("agent", f"{agent.id} is not in the state that was restored")


class _Log:
    """Tells the model of every commit."""

    def __init__(self, model: RouterModel, parts: Parts, roster: Roster) -> None:
        self._model, self._parts, self._roster = model, parts, roster

    def intent(self, record: SwitchRecord) -> None:
        self._model.hasten(float("inf"))

    def commit(self, record: SwitchRecord) -> None:
        self._model.committed(record.roster, self._parts.topologies[record.target], record.epoch)

    def abort(self, record: SwitchRecord, reason: str) -> None:
        pass


class _Around:
    """Fails a handler before or after it has done its work, and watches over payloads, which are shared."""

    name = "rehearsal"
    points = frozenset({Point.HANDLE})

    def __init__(self, findings: Findings, faults: Faults, rng: random.Random) -> None:
        self._findings, self._faults, self._rng = findings, faults, rng

    async def around(self, passing: Intercepted, proceed: Callable[[Intercepted], Awaitable[Any]]) -> Any:
        message: Message = passing.subject
        before = json.dumps(message.payload, sort_keys=True)
        if self._faults.strikes("slow_consumer", 0.1):
            await asyncio.sleep(self._rng.random() * 10)
        if self._faults.strikes("exception", 0.1):
            raise Injected("before")
        result = await proceed(passing)
        if json.dumps(message.payload, sort_keys=True) != before:
            self._findings.blame("payload", f"{passing.agent_id} changed the payload of {message.msg_id}")
        if self._faults.strikes("exception", 0.1):
            raise Injected("after: the message comes again")
        return result


class _Moody(ScriptedBackend):
    """A model that is slow, fails, or talks nonsense."""

    def __init__(self, faults: Faults, rng: random.Random) -> None:
        self._faults, self._rng = faults, rng
        super().__init__(self._answer)

    async def generate(self, request: LLMRequest) -> LLMResult:
        await asyncio.sleep(self._rng.random())
        return await super().generate(request)

    def _answer(self, request: LLMRequest) -> Answer:
        if self._faults.strikes("warm_up_fails", 0.2):
            return BackendError("the model is not there")
        return self._rng.choice(("", "ok", "{", request.prompt[-200:], "\x00\ufffd" * 50, "word " * 500))


class _Nowhere:
    root = Path("/nowhere")

    def fork(self) -> _Nowhere:
        return self

    def commit(self) -> str:
        return ""

    def rollback(self) -> None: ...

    def dispose(self) -> None: ...
