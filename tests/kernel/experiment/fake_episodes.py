"""Deterministic stand-ins for episodes, importable by name so that worker processes can run them."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import replace
from pathlib import Path

from apex_framework.budget import Grant, Ledger
from apex_framework.episode.arm import Arm
from apex_framework.episode.budgeting import build_guard
from apex_framework.interfaces import (
    STAY,
    CallTags,
    Checkpoint,
    EpisodeContext,
    EpisodeJob,
    EpisodeResult,
    Observation,
    Outcome,
    Transition,
)
from apex_framework.plugins import load_plugins
from apex_framework.ports import RealEffects, SystemClock, rng


class NoWorkspaces:
    """What a suite prefers whose tasks nobody works on."""

    def create(self, task: object) -> None:
        raise AssertionError("no workspace is needed")

    def close(self) -> None: ...


def work(job: EpisodeJob) -> EpisodeResult:
    """An episode whose numbers follow from arm, task and seed alone; only ``wall_ms`` is the machine's."""
    started = time.perf_counter()
    draw = rng(job.arm["name"], job.task_id, job.seed)
    steps = draw.randrange(3, 9)
    tokens = draw.randrange(500, 9_000)
    record = {
        "arm": job.arm["name"],
        "task_id": job.task_id,
        "seed": job.seed,
        "success": draw.random() < 0.4,
        "tokens": tokens,
        "steps": steps,
        "switches": draw.randrange(1, 4),
        "aborted": 0,
        "denied": 0,
        "status": "finished",
        "visible_passed": True,
        "overfit": False,
        "calls": steps,
        "message_tokens": tokens // 3,
        "cluster": job.task_id.split("-")[0],
        "family": "clear",
        "topologies": {"star": steps},
        "reason": "done",
        "suite_digest": job.run.get("suite_digest", ""),
        "wall_ms": (time.perf_counter() - started) * 1000,
    }
    decisions = [
        {"step": i, "topology": "star", "action": "stay", "propensity": 1.0, "epsilon": 0.0, "latency_ms": 0.1}
        for i in range(steps)
    ]
    calls = [
        {
            "agent_id": "coder",
            "role": "coder",
            "purpose": "",
            "status": "ok",
            "reserved": 9,
            "tokens_in": 5 + i,
            "tokens_out": 4,
        }
        for i in range(steps)
    ]
    switches = [
        {"step": 1 + i, "origin": "star", "target": "flat", "ok": True, "epoch": 1 + i, "phase_ms": {"prepare": 0.2}}
        for i in range(int(record["switches"]))
    ]
    trace = [{"step": i} for i in range(steps)]
    return EpisodeResult(job.index, record, tuple(decisions), tuple(switches), tuple(calls), tuple(trace), "--- a\n")


def uneven(job: EpisodeJob) -> EpisodeResult:
    """Later episodes overtake earlier ones."""
    time.sleep(0.06 if job.index % 3 == 0 else 0.0)
    return work(job)


def slow(job: EpisodeJob) -> EpisodeResult:
    """Takes 0.2 seconds."""
    time.sleep(0.2)
    return work(job)


def endless(job: EpisodeJob) -> EpisodeResult:
    """Never comes back for task ``beta-1``."""
    if job.task_id == "beta-1":
        time.sleep(3600)
    return work(job)


def dying(job: EpisodeJob) -> EpisodeResult:
    """Kills its process on task ``beta-1`` always, on ``alpha-0`` the first time (marked in APEX_TEST_MARK)."""
    mark = Path(os.environ["APEX_TEST_MARK"])
    if job.task_id == "beta-1":
        os._exit(9)
    if job.task_id == "alpha-0" and not mark.exists():
        mark.touch()
        os._exit(9)
    return work(job)


def raising(job: EpisodeJob) -> EpisodeResult:
    """Breaks."""
    raise RuntimeError("no luck")


def breaking(job: EpisodeJob) -> EpisodeResult:
    """Breaks on the second task of each arm, after some of its calls."""
    if job.task_id == "c1-1":
        return replace(work(job), record={**work(job).record, "status": "infrastructure", "reason": "no luck"})
    return work(job)


def denied(job: EpisodeJob) -> EpisodeResult:
    """Refused every call."""
    result = work(job)
    return EpisodeResult(job.index, {**result.record, "calls": 0, "tokens": 0, "denied": 4, "success": False})


def taught(job: EpisodeJob) -> EpisodeResult:
    """An episode in which the real controller decides four times, with the transitions that it would learn from."""
    catalog = load_plugins().catalog
    controller = catalog.make("controller", job.arm["controller"], **job.arm["controller_options"])
    if "learned" in job.run:
        controller.load(Checkpoint(**job.run["learned"]))
    topologies = tuple(job.arm["topologies"])
    controller.begin(EpisodeContext("e", job.seed, topologies, 10_000, frozen=not job.run["explore"]))
    result = work(job)
    transitions, topology = [], ""
    for step in range(4):
        observation = Observation(
            step, topology, topologies, steps_since_switch=step, headroom={"episode": 1 - step / 5}
        )
        decision = controller.decide(observation)
        topology = topology if decision.action == STAY else decision.action
        last = step == 3
        outcome = Outcome(tokens=100 * step, terminal=last, success=last and bool(result.record["success"]))
        transitions.append(Transition(observation, decision, outcome))
    return EpisodeResult(job.index, result.record, transitions=tuple(transitions))


def spending(job: EpisodeJob) -> EpisodeResult:
    """Spends what ``work`` says through a real guard, in calls of a tenth; cut short where the guard says so."""
    result = work(job)
    wanted, arm = int(result.record["tokens"]), Arm.from_json(job.arm)
    tags = CallTags(job.run["run_id"], f"{arm.name}/{job.task_id}/{job.seed}", "a", "solo", 10_000)

    async def calls() -> tuple[int, dict[str, object]]:
        catalog = load_plugins().catalog
        guard = build_guard(arm, catalog, job.run, SystemClock(), RealEffects(), Ledger())
        spent = 0
        for _ in range(10):
            grant = await guard.admit(tags, 0, max_tokens=wanted // 10)
            if not isinstance(grant, Grant):
                break
            spent += guard.settle(grant.id, wanted // 10).tokens
        await guard.close()
        return spent, guard.columns()

    spent, cut = asyncio.run(calls())
    return replace(result, record={**result.record, "tokens": spent, **cut})


def breaking_the_store(job: EpisodeJob) -> EpisodeResult:
    """From the fourth episode on the run's store is no longer what it was."""
    if job.index == 3:
        store = Path(job.run["budgets"]["run_store"])
        store.with_name(f"{store.name}-wal").unlink(missing_ok=True)
        store.write_bytes(b"junk" * 2_000)
    return spending(job) if job.index < 3 else work(job)
