"""The ways of ``apex experiment PLAN``: look at a plan, register it, run it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError, PlanChangedError, UsageError
from ..ports import SystemFiles
from .context import Context
from .deviating import note_deviations, read_deviations, refuse_stale, writing
from .options import base_arm, plugin_settings

if TYPE_CHECKING:
    from ..config import Settings
    from ..episode.arm import Arm
    from ..experiment.planfile import Part, PlanFile
    from ..experiment.registration import Lock

RESULT = "experiment.json"
"""File of an experiment's folder beside its run folders."""

Machine = Mapping[str, Any]
"""Settings that a plan leaves to whoever runs it: workers, allow_weaker_sandbox."""


def show_plan_file(context: Context, path: Path, machine: Machine) -> int:
    """Size, time and detectable lift of every part; no task is made."""
    from ..analysis import plan_power
    from .running import seconds_per_episode

    plan = _read(context, path)
    parts: list[dict[str, Any]] = []
    lines: list[str] = []
    for part in plan.parts:
        settings = _settings(plan, part, part.budgets[0], machine)
        arms = _arms(plan, part, settings)
        for arm in arms:
            _check(context, arm)
        seconds, source = seconds_per_episode(part.suite, arms[0].backends)
        hours = part.size * seconds / settings.workers / 3600
        lift = plan_power(part.limit).detectable_lift
        parts.append(
            {
                "part": part.name,
                "suite": f"{part.suite}/{part.split}",
                "arms": list(part.arms),
                "tasks": part.limit,
                "families": list(part.families),
                "seeds": part.seeds,
                "budgets": list(part.budgets),
                "episodes": part.size,
                "tokens_at_most": part.token_bound,
                "expected_hours": round(hours, 3),
                "expected_from": source,
                "detectable_lift": lift,
            }
        )
        rungs = f" x {len(part.budgets)} budgets" if len(part.budgets) > 1 else ""
        shown = "more than so many tasks can show" if lift is None else f"{100 * lift:.1f} pp with 80 % power"
        lines += [
            f"{part.name}: {part.suite}/{part.split}{' of ' + ', '.join(part.families) if part.families else ''}",
            f"  arms      {len(part.arms)}: {', '.join(part.arms)}",
            f"  episodes  {part.size:,} = {len(part.arms)} arms x {part.limit} tasks x {part.seeds} seeds{rungs}"
            f" ({', '.join(f'{b:,}' for b in part.budgets)} tokens each)",
            f"  tokens    at most {part.token_bound:,}",
            f"  time      about {hours:.2f} h with {settings.workers} workers ({seconds:.2f} s an episode, {source})",
            f"  lift      {shown} (21 % discordant tasks assumed; at most {part.limit} tasks)",
        ]
    total = sum(p["expected_hours"] for p in parts)
    state = _state(plan)
    lines.append(f"{plan.name}: {sum(p['episodes'] for p in parts):,} episodes, about {total:.2f} h; {state}")
    context.emit(
        {"plan": plan.name, "digest": plan.digest, "state": state, "expected_hours": total, "parts": parts},
        "\n".join(lines),
    )
    return 0


def register_plan(context: Context, path: Path, machine: Machine) -> int:
    """Write the plan's lock."""
    from ..experiment.registration import lock_path, register

    plan = _read(context, path)
    if plan.prereg is None:
        raise UsageError(
            f"{path} claims nothing: it has no [prereg]", "say hypothesis, estimand, arm, against; or run it as it is"
        )
    lock = register(plan, _hashes(context, plan, machine), context.plugins)
    value = {
        "lock": str(lock_path(path)),
        "digest": lock.digest,
        "registered": lock.registered,
        "hashes": dict(lock.hashes),
    }
    context.emit(value, f"{lock_path(path)}: registered {lock.registered}, digest {lock.digest[:12]}")
    return 0


def run_plan(context: Context, path: Path, machine: Machine, out: Path | None, deviate: str | None) -> int:
    """Run what is left of a plan, and judge it. Raises StaleResultError, PlanChangedError and what runs raise."""
    from ..experiment.resume import RUNS

    plan = _read(context, path)
    lock, changed = _lock(context, plan, machine)
    if changed and not (deviate or "").strip():
        raise PlanChangedError(
            f"{path} was registered on {lock.registered if lock else ''}; since then: {'; '.join(changed)}",
            "go back to it; or --deviate WHY, which is kept with the result",
        )
    out = out or RUNS / f"{plan.name}-{plan.digest[:6]}"
    refuse_stale(plan, lock, out)
    status = 0
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        note_deviations(out, changed, deviate, lock, context)
    for part in plan.parts:
        for folder, budget in part.folders.items():
            ended = _run_part(context, plan, part, budget, out / folder, lock, machine)
            if ended not in (0, 4):
                return ended
            status = status or ended
    _tell(context, plan, lock, out)
    return status


def _run_part(
    context: Context, plan: PlanFile, part: Part, budget: int, folder: Path, lock: Lock | None, machine: Machine
) -> int:
    from ..experiment.artifacts import read_plan
    from ..experiment.manifest import DONE, verify_manifest
    from ..experiment.planning import make_plan
    from .running import check_out, execute, open_folder, warn_of_failures, write_reports

    check_out(folder)
    settings = _settings(plan, part, budget, machine)
    shared = plugin_settings(context, settings)
    shared["experiment"] = {"name": plan.name, "part": part.name, "registered": lock.digest if lock else ""}
    if part.families:
        shared["families"] = list(part.families)
    if part.best_static:
        shared["best_static"] = part.best_static
    asked = make_plan(
        context.plugins,
        _arms(plan, part, settings),
        suite=part.suite,
        split=part.split,
        limit=part.limit,
        seeds=part.seeds,
        seed=part.seed,
        real_time=settings.real_time,
        settings=shared,
    )
    if (folder / DONE).exists():
        read_plan(folder).require_same(asked)
        verify_manifest(folder)
        return 0
    context.say(f"{folder.name}: {asked.size:,} episodes")
    opened = open_folder(context, asked, settings, folder)
    outcome = execute(context, opened, settings.workers)
    if not outcome.complete:
        why = "interrupted" if outcome.spent is None else f"stopped: {outcome.spent}"
        context.say(f"{why}: {outcome.finished} of {outcome.planned} episodes are safe; the same command goes on")
        return outcome.exit_status
    write_reports(context, folder)
    warn_of_failures(context, opened, outcome)
    return outcome.exit_status


def _tell(context: Context, plan: PlanFile, lock: Lock | None, out: Path) -> None:
    from ..experiment.judgement import decide_plan, judge_rung, to_json

    rungs = [judge_rung(part, out / folder, budget) for part in plan.parts for folder, budget in part.folders.items()]
    decision = decide_plan(plan, out, registered=lock is not None)
    deviations = read_deviations(out)
    failures = [
        f"{r.folder}, {a['arm']}: {a['infrastructure']} episodes could not be run"
        for r in rungs
        for a in r.arms
        if a["infrastructure"]
    ]
    told = [*deviations, *({"what": failure} for failure in failures)]
    value = {
        "plan": plan.to_json(),
        "digest": plan.digest,
        "registered": lock.registered if lock else None,
        "lock": lock.digest if lock else None,
        "runs": [to_json(rung) for rung in rungs],
        "decision": to_json(decision) if decision else None,
        "deviations": told,
    }
    with writing(out):
        SystemFiles().replace(out / RESULT, json.dumps(value, indent=1, ensure_ascii=False).encode() + b"\n")
    from .judged import text_of

    context.emit({"experiment": str(out), **value}, text_of(rungs, decision, told, out))


def _read(context: Context, path: Path) -> PlanFile:
    """The plan, with warnings about what it cannot show."""
    from ..analysis import detectable_lift, points
    from ..experiment.planfile import read_plan_file

    plan = read_plan_file(path)
    if plan.prereg is not None and plan.primary is not None:
        said, part = plan.prereg, plan.primary
        smallest = detectable_lift(part.limit, said.discordance, alpha=2 * said.alpha)
        if smallest is None or smallest > said.claim:
            shows = "no lift at all" if smallest is None else f"lifts of {points(smallest)} and more"
            context.say(
                f"warning: {part.limit} tasks show {shows} with 80 % power at {100 * said.discordance:.0f} % discordance;"
                f" the claim is {points(said.claim)}"
            )
        if part.split == "test" and not part.best_static:
            context.say(
                f"warning: part {part.name} names no best_static; WORSE and KILL then need every static topology"
            )
        if part.split != "test":
            context.say(
                f"warning: the claim is about {part.suite}/{part.split}, on which choices were made: exploratory"
            )
    return plan


def _lock(context: Context, plan: PlanFile, machine: Machine) -> tuple[Lock | None, list[str]]:
    """The plan's lock, and what is not as it was registered. Raises UsageError for a claim that was not registered."""
    from ..experiment.registration import read_lock

    lock = read_lock(plan.path)
    if lock is None:
        if plan.prereg is not None:
            raise UsageError(
                f"{plan.path} claims something and is not registered", f"apex experiment {plan.path} --register"
            )
        context.say("note: nothing was registered, so what comes out is exploratory")
        return None, []
    return lock, lock.changes(plan, _hashes(context, plan, machine))


def _hashes(context: Context, plan: PlanFile, machine: Machine) -> dict[str, str]:
    from ..experiment.registration import hashes_of

    arms = {
        arm.name: arm
        for part in plan.parts
        for arm in _arms(plan, part, _settings(plan, part, part.budgets[0], machine))
    }
    for arm in arms.values():
        _check(context, arm)
    return hashes_of(plan, arms.values(), context.plugins.catalog)


def _settings(plan: PlanFile, part: Part, budget: int, machine: Machine) -> Settings:
    """Settings in force for one run of the plan: its own, and the machine's. Raises ConfigError."""
    from ..config import load_settings

    own = {"suite": part.suite, "split": part.split, "episodes": part.limit, "seed": part.seed, "budget": budget}
    try:
        # No folder's apex.toml and no variable: what is not in the plan is not registered. A file has no apex.toml in it.
        return load_settings({**plan.settings, **own, **machine}, directory=plan.path, environ={}).settings
    except ConfigError as error:
        cause = error.cause[2:] if error.cause.startswith("--") else error.cause
        raise ConfigError(f"{plan.path}: settings: {cause}", error.remedy) from None


def _arms(plan: PlanFile, part: Part, settings: Settings) -> list[Arm]:
    from ..experiment.arms import arm_named

    base = base_arm(settings)
    return [plan.arms[name].arm(base) if name in plan.arms else arm_named(name, base) for name in part.arms]


def _check(context: Context, arm: Arm) -> None:
    """Raises UnknownNameError, MissingExtraError, ConfigError, with the arm's name."""
    from ..experiment.arms import check_names

    check_names(arm, context.plugins.catalog)


def _state(plan: PlanFile) -> str:
    from ..experiment.registration import read_lock

    if plan.prereg is None:
        return "exploratory: no [prereg]"
    lock = read_lock(plan.path)
    if lock is None:
        return f"not registered yet: apex experiment {plan.path} --register"
    return f"registered {lock.registered}" if lock.plan == plan.to_json() else f"changed since {lock.registered}"
