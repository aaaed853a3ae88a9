"""One team on one task: build everything from an arm, run it, grade the result, keep the record."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from typing import Any

from ..budget import Ledger
from ..events import CallDenied, CallSettled, Event
from ..interfaces import (
    STAY,
    Agent,
    Brief,
    CallTags,
    Capability,
    Checkpoint,
    Diffs,
    EpisodeContext,
    EpisodeJob,
    EpisodeResult,
    LLMBackend,
    PlanKey,
    Roster,
    Task,
    TellsEvents,
    ToolServer,
    Workspace,
    infrastructure_failure,
)
from ..ports import Clock, Effects, LoopClock, RealEffects, SystemClock, VirtualEffects, derive_seed, rng
from ..services import DoorSettings, LLMService, ToolService
from ..services.tools import known_secrets
from ..session import Services, Session, SessionEnd, Step
from ..telemetry.buckets import checked_buckets
from ..telemetry.models import ModelMeter
from ..timeloop import run as run_virtual
from .arm import Arm
from .budgeting import EpisodeGuard, build_guard, timed
from .deciding import Deciding
from .issues import issue_cluster
from .metering import EpisodeTelemetry
from .models import CallSettings
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
        self.cut: dict[str, Any] = {}
        """Columns of an episode that a ceiling which it shares with others cut short."""
        self._calls = CallSettings.of(job.run)
        self._shared = shop.models.shared(real_time=bool(job.run.get("real_time")))
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
            suite_digest=self.shop.suite_digest,
            decision_ms=deciding.latencies_ms,
        )
        kept = self.recorder
        latency = self.telemetry.attribute(kept.trace, kept.decisions, kept.switches)
        return EpisodeResult(
            self.job.index,
            {**record, **self.cut},
            tuple(kept.decisions),
            tuple(kept.switches),
            tuple(kept.calls),
            tuple(kept.trace),
            patch,
            tuple(deciding.transitions) if self.job.run.get("transitions") else (),
            tuple(kept.events),
            self.telemetry.rows(),
            latency,
            tuple(kept.ops),
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

    async def _warmed(self) -> ModelMeter:
        """Models are ready before anything of the episode is measured."""
        room, backends = self.shop.models, list(self._backends().values())
        meter = ModelMeter(self.telemetry.registry, backends, **self._shared)
        await room.warm(backends, self._calls.warm_calls, SystemClock(), self._take)
        meter.start()
        return meter

    async def _work(self, workspace: Workspace, effects: Effects) -> tuple[SessionEnd, Deciding, list[str]]:
        models = await self._warmed()
        arm, make = self.arm, self.shop.catalog.make
        clock = LoopClock(asyncio.get_running_loop())
        guard = build_guard(arm, self.shop.catalog, self.job.run, clock, effects, self.ledger)
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
            models.poll()
            self._hear()
            await deciding.after(step, motion)

        scopes = frozenset(self.job.run.get("tool_scopes", ()))
        session = Session(
            self.id,
            roster,
            agents,
            router,
            services,
            self.tags,
            lambda agent: Capability(workspace, team.tools(agent.role), str(agent.id), agent.role, scopes),
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
            guard.measure(self.telemetry.registry, self.tags())
        finally:
            self.cut = guard.columns()
            await guard.close()
            models.finish(services.llm.stats)
            self._hear()
            for server in servers:
                await server.close()
        return end, deciding, session.faults

    def _parts(self, servers: list[ToolServer]) -> dict[str, object]:
        """What agents work with, by name: the backends and tool servers of this arm."""
        backends = {f"backend {name}": backend for name, backend in self._backends().items()}
        return {**backends, **{f"tools {name}": server for name, server in zip(self.arm.tools, servers, strict=True)}}

    def _backends(self) -> dict[str, LLMBackend]:
        """Backends of this arm by name."""
        return {name: self.shop.backend(name, self.arm.backend_options) for name in self.arm.backends.values()}

    def _hear(self) -> None:
        """What happened in backends beside calls."""
        for backend in self._backends().values():
            if isinstance(backend, TellsEvents):
                for event in backend.drain_events():
                    self._take(replace(event, episode_id=self.id))  # type: ignore[arg-type]  # all but BackendWarmed and RunFinished, which no backend tells, name their episode

    def _deciding(self, clock: Clock, guard: EpisodeGuard) -> Deciding:
        arm = self.arm
        controller = self.shop.catalog.make("controller", arm.controller, **arm.controller_options)
        if (learned := self.job.run.get("learned")) is not None:
            controller.load(Checkpoint(**learned))
        frozen = not (arm.online or self.job.run.get("explore"))
        controller.begin(EpisodeContext(self.id, self.seed, arm.topologies, arm.budget, arm.dwell, frozen))
        return Deciding(
            self.id, controller, self.watch, lambda: guard.own_headroom(self.tags()), clock, SystemClock(), self._take
        )

    def _services(self, guard: EpisodeGuard, clock: Clock, effects: Effects) -> tuple[Services, list[ToolServer]]:
        arm, catalog = self.arm, self.shop.catalog
        make = catalog.make
        cluster = issue_cluster(self.task.issue)
        policies = [make("policy", name) for name in arm.policies]
        interceptors = [make("interceptor", name) for name in arm.interceptors]
        named = self._backends()
        backends = {role: named[name] for role, name in arm.backends.items()}
        given = {name: {"effects": effects} if catalog.takes("tool", name, "effects") else {} for name in arm.tools}
        servers = {name: make("tool", name, **options) for name, options in given.items()}
        llm = LLMService(
            backends,
            guard,
            clock=clock,
            policies=policies,
            interceptors=interceptors,
            on_event=self._take,
            free_messages=arm.free_messages,
            machine=SystemClock(),
            **timed(self._calls.for_service(), self.job.run),
            **self._shared,
            plan_key=lambda: PlanKey(self.task.repo or self.task.cluster, cluster, self.watch.phases.phase),
        )
        tools = ToolService(
            servers,
            clock=clock,
            policies=policies,
            interceptors=interceptors,
            on_event=self._take,
            settings=DoorSettings.of(self.job.run),
            secrets=known_secrets(os.environ),
        )
        return Services(llm, tools, guard.own_headroom, interceptors), list(tools.servers.values())
