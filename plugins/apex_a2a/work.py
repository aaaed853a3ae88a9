"""The work: what an outsider asked for, done by a team of ours in a session of its own."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from apex_framework import (
    Catalog,
    DoorSettings,
    Guard,
    Ledger,
    LLMService,
    Router,
    RouteTable,
    Services,
    Session,
    Step,
    ToolService,
)
from apex_framework.errors import EnvironmentProblem
from apex_framework.interfaces import (
    Agent,
    AgentID,
    Brief,
    CallTags,
    Capability,
    CountsTokens,
    Diffs,
    Level,
    LLMBackend,
    LLMRequest,
    LLMResult,
    Member,
    Message,
    Roster,
    RunsTests,
    Sandbox,
    Task,
    Workspace,
)
from apex_framework.ports import LoopClock, RealEffects, derive_seed

from .bridge import A2ABridge, Outsider
from .principals import PrincipalScope
from .remote import Line, RemoteAgent, seat_of
from .settings import Settings

_log = logging.getLogger(__name__)

MOST_FILES: Final = 500
DEMANDED: Final = Level.LANDLOCK
"""What code of outsiders demands of a sandbox."""


@dataclass(frozen=True, slots=True)
class Job:
    """One request: the issue, the project, and its visible tests."""

    id: str
    principal: str
    issue: str
    files: Mapping[str, str]
    tests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Done:
    """What came of it. ``passed`` of ``tests`` visible tests pass with the patch."""

    status: str
    patch: str
    passed: int
    tests: int
    steps: int
    tokens: int
    faults: int


class Works(Protocol):
    """Whoever does jobs."""

    async def do(
        self,
        job: Job,
        report: Callable[[str], Awaitable[None]],
        deliver: Callable[[dict[str, Any]], Awaitable[None]],
        opened: Callable[[A2ABridge], None],
    ) -> Done:
        """Work on a job to its end. ``report`` hears of every step, ``deliver`` of every message to the principal's
        seat, as A2A messages; ``opened`` gets the bridge by which the principal may speak. Raises what breaks."""
        ...

    async def close(self) -> None:
        """Release everything; idempotent."""
        ...


class Seat:
    """A principal's place in the team: what the others send to it waits to be told to it; it speaks by the bridge."""

    def __init__(self, member: Member, tell: Callable[[Message], Awaitable[None]]) -> None:
        self.id, self.role, self._tell = member.id, member.role, tell

    async def handle(self, message: Message, context: object) -> None:
        await self._tell(message)

    def overhear(self, message: Message) -> None:
        """What it only relays, it is not told."""


class Unhurried:
    """A backend whose declared duration is not waited for: here only the machine's time counts."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.capabilities, self.count_tokens, self.close = inner.capabilities, inner.count_tokens, inner.close

    async def generate(self, request: LLMRequest) -> LLMResult:
        result: LLMResult = await self._inner.generate(request)
        return replace(result, latency_ms=0.0)


@dataclass
class Work:
    """Does jobs, each in a session and a workspace of its own; the ledger of principals is common to all."""

    catalog: Catalog
    settings: Settings
    lines: Mapping[str, Line] = field(default_factory=dict)
    """Ways to the configured remotes, by name."""

    def __post_init__(self) -> None:
        plan = self.settings.work
        self._ledger = Ledger()
        self._scopes = [PrincipalScope(self.settings.principals), self.catalog.make("budget_scope", "episode")]
        sandbox = self._sandbox()
        self._workspaces = self.catalog.make("workspace", plan.workspace, sandbox=sandbox)
        backend: LLMBackend = self.catalog.make("llm_backend", plan.backend)
        declared = isinstance(backend, CountsTokens) and not backend.capabilities.is_llm
        self._backend: Any = Unhurried(backend) if declared else backend

    async def close(self) -> None:
        """Release workspaces and the backend."""
        await self._backend.close()
        await asyncio.to_thread(self._workspaces.close)

    def _sandbox(self) -> Sandbox:
        """The sandbox that the settings name, or the strongest. Raises EnvironmentProblem for one that is too weak."""
        plan = self.settings.work
        names = [plan.sandbox] if plan.sandbox else list(self.catalog.names("sandbox"))
        best: tuple[Level, Sandbox] | None = None
        for name in names:
            try:
                made: Sandbox = self.catalog.make("sandbox", name)
                level = made.probe().level
            except (EnvironmentProblem, OSError):
                if plan.sandbox:
                    raise
                continue
            if best is None or level > best[0]:
                best = (level, made)
            if level == max(Level):
                break
        if best is None:
            raise EnvironmentProblem("no sandbox works here", "apex doctor --security")
        if best[0] < DEMANDED and not plan.trust_task_code:
            raise EnvironmentProblem(
                f"outsiders send tests that run here, and sandbox {best[1].name!r} reaches {best[0].name.lower()}, "
                f"not {DEMANDED.name.lower()}",
                "install a stronger one (apex doctor), or say that you trust their code: --trust-task-code",
            )
        return best[1]

    async def do(
        self,
        job: Job,
        report: Callable[[str], Awaitable[None]],
        deliver: Callable[[dict[str, Any]], Awaitable[None]],
        opened: Callable[[A2ABridge], None],
    ) -> Done:
        """As Works; ends when the team is done or its time is over, and leaves nothing behind."""
        run = {"runner": "unittest", "tests": list(job.tests)}
        task = Task(job.id, "a2a", "dev", job.issue, "a2a", files=job.files, run=run)
        workspace: Workspace = await asyncio.to_thread(self._workspaces.create, task)
        try:
            return await self._work(job, workspace, report, deliver, opened)
        finally:
            await asyncio.to_thread(workspace.dispose)

    async def _work(
        self,
        job: Job,
        workspace: Workspace,
        report: Callable[[str], Awaitable[None]],
        deliver: Callable[[dict[str, Any]], Awaitable[None]],
        opened: Callable[[A2ABridge], None],
    ) -> Done:
        plan, make = self.settings.work, self.catalog.make
        clock, rights = LoopClock(asyncio.get_running_loop()), self.settings.principals[job.principal]
        seed = derive_seed("a2a", job.issue, *sorted(job.files.items()))
        team = make("team", plan.team)
        inner: Roster = team.roster(plan.team_size)
        seats = {role: AgentID(f"{job.principal}_{role}") for role in rights.roles}
        remotes = {name: seat_of(name) for name in self.lines}
        extra = [*(Member(seat, role) for role, seat in seats.items())]
        extra += [Member(seat, self.settings.remotes[name].role) for name, seat in remotes.items()]
        roster = Roster((*inner.members, *extra), inner.lead)
        guard = Guard(self._ledger, self._scopes, clock=clock)

        def tags(agent: Agent) -> CallTags:
            return CallTags(job.principal, f"{job.principal}/{job.id}", str(agent.id), agent.role, plan.budget)

        router = Router(
            RouteTable.compile(make("topology", plan.topology), roster),
            lanes=make("lane", "drr_wred"),
            transport=make("transport", "inproc"),
            clock=clock,
            rng=random.Random(seed),
            capacity=1000,
            total_bytes=64 * 1024 * 1024,
        )
        outsiders = {job.principal: Outsider(job.principal, tuple(seats.values()), frozenset(rights.audiences))}
        for name, seat in remotes.items():
            outsiders[name] = Outsider(name, (seat,), frozenset(self.settings.remotes[name].audiences))
        bridge = A2ABridge(router, roster, job.id, outsiders, clock=clock, topology=lambda: plan.topology)

        async def tell(message: Message) -> None:
            await deliver(bridge.emit_external(message))

        agents: dict[AgentID, Agent] = {a.id: a for a in team.agents(inner, Brief(job.issue, job.id, seed))}
        for role, seat in seats.items():
            agents[seat] = Seat(Member(seat, role), tell)
        for name, seat in remotes.items():
            remote = self.settings.remotes[name]
            agents[seat] = RemoteAgent(Member(seat, remote.role), name, remote, self.lines[name], bridge, guard, tags)
        servers = {name: make("tool", name, effects=RealEffects()) for name in ("fs", "test")}
        llm = LLMService({"*": self._backend}, guard, clock=clock)
        tools = ToolService(servers, clock=clock, settings=DoorSettings())
        members = set(inner.ids)

        def capability(agent: Agent) -> Capability:
            allowed = team.tools(agent.role) if agent.id in members else frozenset()
            return Capability(workspace, allowed, str(agent.id), agent.role)

        async def on_step(step: Step) -> None:
            await report(f"step {step.number}: {step.role}" + (" failed" if step.error else ""))

        session = Session(
            job.id, roster, agents, router, Services(llm, tools, guard.headroom), tags, capability, clock, seed,
            plan.max_steps, plan.seconds, on_step=on_step,
        )  # fmt: skip
        opened(bridge)
        try:
            try:
                async with asyncio.timeout(plan.seconds):
                    end = await session.run({"kind": "task", "sections": []})
                status, steps, faults = end.status, end.steps, len(end.faults)
            except TimeoutError:
                status, steps, faults = "out of time", session.count, len(session.faults)
            patch = await asyncio.to_thread(_patch, workspace)
            passed, count = await asyncio.to_thread(_tested, workspace, job)
            left = guard.remaining(tags(agents[inner.lead])).get("episode", 0)
            spent = max(0, plan.budget - left)
            return Done(status, patch, passed, count, steps, spent, faults)
        finally:
            await guard.close()
            for server in servers.values():
                await server.close()


def _patch(workspace: Workspace) -> str:
    return workspace.diff() if isinstance(workspace, Diffs) else ""


def _tested(workspace: Workspace, job: Job) -> tuple[int, int]:
    """Tests that pass, of all that were sent; as they were sent, whatever the team did to them."""
    if not job.tests or not isinstance(workspace, RunsTests):
        return 0, 0
    report = workspace.run_tests(overlay={path: job.files[path] for path in job.tests})
    return report.passed, len(report.outcomes)
