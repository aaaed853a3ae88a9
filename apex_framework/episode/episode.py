"""One team on one task: build everything from an arm, run it, grade the result, keep the record."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from ..budget import Guard, Ledger
from ..events import CallDenied, CallSettled, Event
from ..interfaces import (
    STAY,
    Agent,
    Brief,
    CallTags,
    Capability,
    Diffs,
    EpisodeContext,
    EpisodeJob,
    EpisodeResult,
    Roster,
    Task,
    ToolServer,
    Workspace,
    infrastructure_failure,
)
from ..ports import Clock, Effects, LoopClock, RealEffects, SystemClock, VirtualEffects, derive_seed, rng
from ..services import LLMService, ToolService
from ..session import Services, Session, SessionEnd, Step
from ..telemetry.buckets import checked_buckets
from ..timeloop import run as run_virtual
from .arm import Arm
from .deciding import Deciding
from .metering import EpisodeTelemetry
from .motion import build_motion, readiness
from .record import Recorder, episode_line, written
from .watch import Watch
from .workshop import Workshop, workshop_for


def run_episode(job: EpisodeJob) -> EpisodeResult:
    """Run one episode in this process. Never raises but for interruption: what breaks is in the record."""
    clock = SystemClock()
    started = clock.monotonic()
    try:
        shop = workshop_for(job.run)
        result = Episode(shop, Arm.from_json(job.arm), shop.task(job.task_id), job).run()
    except Exception as fault:  # noqa: BLE001 - a worker's edge: a broken plugin or machine is a result, not a crash
        result = infrastructure_failure(job, f"{type(fault).__name__}: {fault}")
    return replace(result, record={**result.record, "wall_ms": (clock.monotonic() - started) * 1000})


class Episode:
    """Everything that lives for one episode."""

    def __init__(self, shop: Workshop, arm: Arm, task: Task, job: EpisodeJob) -> None:
        self.shop, self.arm, self.task, self.job = shop, arm, task, job
        self.id = f"{arm.name}/{task.id}/{job.seed}"
        # Randomness does not depend on the arm: arms of one task are compared under common random numbers.
        self.seed = derive_seed("episode", task.id, job.seed)
        self.watch = Watch(arm.topologies, arm.budget)
        self.recorder = Recorder(arm.name, task.id, job.seed)
        self.ledger = Ledger()
        self.telemetry = EpisodeTelemetry(checked_buckets(job.run.get("hist_buckets") or {}))

    def run(self) -> EpisodeResult:
        """Run to the end and grade."""
        workspace = self.shop.workspaces.create(self.task)
        try:
            if self.job.run.get("real_time"):
                end, deciding, faults = asyncio.run(self._work(workspace, RealEffects()))
            else:
                end, deciding, faults = run_virtual(self._work(workspace, VirtualEffects()), seed=self.seed)
            verdict = self.shop.suite.grade(self.task, workspace)
            patch = workspace.diff() if isinstance(workspace, Diffs) else written(self.task, workspace)
        finally:
            workspace.dispose()
        deciding.close(verdict.success)
        record = episode_line(
            self.job,
            self.arm,
            self.task,
            end=end,
            verdict=verdict,
            watch=self.watch,
            ledger=self.ledger,
            faults=faults,
            suite_digest=self.shop.suite.digest,
            decision_ms=deciding.latencies_ms,
        )
        kept = self.recorder
        latency = self.telemetry.attribute(kept.trace, kept.decisions, kept.switches)
        return EpisodeResult(
            self.job.index,
            record,
            tuple(kept.decisions),
            tuple(kept.switches),
            tuple(kept.calls),
            tuple(kept.trace),
            patch,
            tuple(deciding.transitions) if self.job.run.get("transitions") else (),
            tuple(kept.events),
            self.telemetry.rows(),
            latency,
        )

    def tags(self, agent: Agent | None = None) -> CallTags:
        """Who a call is for; without an agent, the episode itself."""
        who, role = (str(agent.id), agent.role) if agent else ("", "")
        return CallTags(str(self.job.run.get("run_id", "")), self.id, who, role, self.arm.budget)

    def _take(self, event: Event) -> None:
        self.recorder.take(event)
        self.telemetry.meter(event)
        if isinstance(event, CallSettled | CallDenied):
            self.watch.called(event)

    async def _work(self, workspace: Workspace, effects: Effects) -> tuple[SessionEnd, Deciding, list[str]]:
        arm, make = self.arm, self.shop.catalog.make
        clock = LoopClock(asyncio.get_running_loop())
        guard = Guard(self.ledger, [make("budget_scope", name) for name in arm.scopes], clock=clock)
        deciding = self._deciding(clock, guard)
        opening = deciding.open().action
        start = arm.topologies[0] if opening == STAY else opening

        team = make("team", arm.team)
        roster: Roster = team.roster(arm.team_size)
        agents = {a.id: a for a in team.agents(roster, Brief(self.task.issue, self.task.id, self.seed, arm.candidates))}
        services, servers = self._services(guard, clock, effects)
        motion = build_motion(
            arm,
            self.shop.catalog,
            roster,
            agents,
            start,
            clock=clock,
            rng=rng(self.seed, "router"),
            episode_id=self.id,
            on_event=self._take,
            services=readiness(self._parts(servers)),
        )
        router = motion.router
        self.telemetry.watch(router)

        async def on_step(step: Step) -> None:
            self.telemetry.poll()
            await deciding.after(step, motion)

        session = Session(
            self.id,
            roster,
            agents,
            router,
            services,
            self.tags,
            lambda agent: Capability(workspace, team.tools(agent.role), str(agent.id), agent.role),
            clock,
            self.seed,
            arm.max_steps,
            arm.handler_deadline_s,
            on_step=on_step,
            on_tool=self.watch.used_tool,
            share_everything=arm.free_messages,
            on_event=self._take,
        )
        begun = clock.monotonic()
        try:
            end = await session.run({"kind": "task", "sections": []})
            ages = motion.probe.cache.ages() if motion.probe is not None else {}
            self.telemetry.finish(self.ledger, (clock.monotonic() - begun) * 1000, ages)
        finally:
            for server in servers:
                await server.close()
        return end, deciding, session.faults

    def _parts(self, servers: list[ToolServer]) -> dict[str, object]:
        """What agents work with, by name: the backends and tool servers of this arm."""
        backends = {
            f"backend {name}": self.shop.backend(name, self.arm.backend_options) for name in self.arm.backends.values()
        }
        return {**backends, **{f"tools {name}": server for name, server in zip(self.arm.tools, servers, strict=True)}}

    def _deciding(self, clock: Clock, guard: Guard) -> Deciding:
        arm = self.arm
        controller = self.shop.catalog.make("controller", arm.controller, **arm.controller_options)
        frozen = not (arm.online or self.job.run.get("explore"))
        controller.begin(EpisodeContext(self.id, self.seed, arm.topologies, arm.budget, arm.dwell, frozen))
        return Deciding(
            self.id, controller, self.watch, lambda: guard.headroom(self.tags()), clock, SystemClock(), self._take
        )

    def _services(self, guard: Guard, clock: Clock, effects: Effects) -> tuple[Services, list[ToolServer]]:
        arm, make = self.arm, self.shop.catalog.make
        policies = [make("policy", name) for name in arm.policies]
        interceptors = [make("interceptor", name) for name in arm.interceptors]
        backends = {role: self.shop.backend(name, arm.backend_options) for role, name in arm.backends.items()}
        servers = {name: make("tool", name, effects=effects) for name in arm.tools}
        llm = LLMService(
            backends,
            guard,
            clock=clock,
            policies=policies,
            interceptors=interceptors,
            on_event=self._take,
            free_messages=arm.free_messages,
            machine=SystemClock(),
        )
        tools = ToolService(servers, clock=clock, policies=policies, interceptors=interceptors, on_event=self._take)
        return Services(llm, tools, guard.headroom, interceptors), list(servers.values())
