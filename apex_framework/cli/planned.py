"""The ways of ``apex experiment PLAN``: look at a plan, register it, run it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import PlanChangedError, UsageError
from ..experiment.folder import BEGUN, begin, other_plan
from .context import Context
from .deviating import note_deviations, refuse_stale, writing
from .parts import Machine, arms_of, check_arm, naming_places, plan_of, run_folder, settings_of

if TYPE_CHECKING:
    from ..config import Settings
    from ..experiment.plan import Plan
    from ..experiment.planfile import Part, PlanFile
    from ..experiment.registration import Lock


def show_plan_file(context: Context, path: Path, machine: Machine) -> int:
    """Size, time and detectable lift of every part; no task is made."""
    from ..analysis import plan_power
    from .running import seconds_per_episode

    plan = _read(context, path)
    _hashes(context, plan, machine)  # what cannot be registered is not shown either
    parts: list[dict[str, Any]] = []
    lines: list[str] = []
    for part in plan.parts:
        settings = settings_of(plan, part, part.budgets[0], machine)
        arms = arms_of(plan, part, settings)
        seconds, source = seconds_per_episode(part.suite, arms[0].backends)
        hours = part.size * seconds / settings.workers / 3600
        said = plan.prereg
        power = plan_power(part.limit, said.discordance, 2 * said.alpha) if said else plan_power(part.limit)
        lift = power.detectable_lift
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
                "discordance": power.discordance,
            }
        )
        rungs = f" x {len(part.budgets)} budgets" if len(part.budgets) > 1 else ""
        shown = "more than so many tasks can show" if lift is None else f"{100 * lift:.1f} pp with 80 % power"
        lines += [
            f"{part.name}: {part.suite}/{part.split}{' of ' + ', '.join(part.families) if part.families else ''}",
            f"  arms      {len(part.arms)}: {', '.join(part.arms)}",
            f"  episodes  {_bound(part)}{part.size:,} = {len(part.arms)} arms x {part.limit} tasks x {part.seeds} seeds{rungs}"
            f" ({', '.join(f'{b:,}' for b in part.budgets)} tokens each)",
            f"  tokens    at most {part.token_bound:,}",
            f"  time      about {hours:.2f} h with {settings.workers} workers ({seconds:.2f} s an episode, {source})",
            f"  lift      {shown} ({100 * power.discordance:.0f} % discordant tasks assumed; at most {part.limit} tasks)",
        ]
        if plan.looked_at(part):
            parts[-1]["looks"] = _chances(plan)
            told = ", ".join(f"{look} tasks {100 * chance:.0f} %" for look, chance in parts[-1]["looks"].items())
            unit = plan.prereg.unit if plan.prereg else ""
            only = (
                ", if each holds one task; less if they hold several, least if one is far larger"
                if unit == "cluster"
                else ""
            )
            lines.append(f"  looks     by {unit}; chance of enough evidence by then: {told}{only}")
    total = sum(p["expected_hours"] for p in parts)
    state = _state(plan)
    bound = next(filter(None, map(_bound, plan.parts)), "")
    lines.append(f"{plan.name}: {bound}{sum(p['episodes'] for p in parts):,} episodes, about {total:.2f} h; {state}")
    context.emit(
        {"plan": plan.name, "digest": plan.digest, "state": state, "expected_hours": total, "parts": parts},
        "\n".join(lines),
    )
    return 0


def _bound(part: Part) -> str:
    """Tasks are chosen before families are: how many are left is known when the suite was asked."""
    return "at most " if part.families else ""


def _chances(plan: PlanFile) -> dict[str, float]:
    """Look -> chance that by then one comparison has its evidence, if the lift is as large as claimed and tasks are independent."""
    from ..analysis import sequential_power

    said = plan.prereg
    assert said is not None
    lift = min(said.claim, said.discordance)
    found = sequential_power(said.looks, lift, said.discordance, alpha=said.alpha, draws=400)
    return {str(look): round(chance, 3) for look, chance in found.items()}


def register_plan(context: Context, path: Path, machine: Machine) -> int:
    """Write the plan's lock."""
    from ..experiment.planning import check_exclusions, check_families
    from ..experiment.registration import lock_path, register

    plan = _read(context, path)
    if plan.prereg is None:
        raise UsageError(
            f"{path} claims nothing: it has no [prereg]", "say hypothesis, estimand, arm, against; or run it as it is"
        )
    hashes = _hashes(context, plan, machine)
    for part in plan.parts:
        settings = settings_of(plan, part, part.budgets[0], machine)
        with naming_places(plan, settings, machine, part):
            check_families(context.plugins.catalog, part, settings.suite_options)
            if part is plan.primary:
                check_exclusions(context.plugins.catalog, part, plan.prereg, settings.suite_options)
    lock = register(plan, hashes, context.plugins)
    value = {
        "lock": str(lock_path(path)),
        "digest": lock.digest,
        "registered": lock.registered,
        "hashes": dict(lock.hashes),
    }
    context.emit(value, f"{lock_path(path)}: registered {lock.registered}, digest {lock.digest[:12]}")
    return 0


def run_plan(
    context: Context, path: Path, machine: Machine, out: Path | None, deviate: str | None, *, page: bool = True
) -> int:
    """Run what is left of a plan, judge it, and write reports (with ``page`` also as HTML).

    Raises StaleResultError, PlanChangedError and what runs raise.
    """
    from ..experiment.looks import changed_runs
    from ..experiment.resume import RUNS
    from .looking import plan_looks, run_looks
    from .running import check_out

    plan = _read(context, path)
    lock, changed = _lock(context, plan, machine)
    out = out or RUNS / f"{plan.name}-{plan.digest[:6]}"
    changed += changed_runs(out) if lock else []
    if (other := other_plan(plan, out)) and not changed:
        changed.append(other)
    if changed and not (deviate or "").strip():
        since = f"was registered on {lock.registered}; since then" if lock else "is another plan now"
        instead = "go back to it" if lock else "choose another --out"
        raise PlanChangedError(
            f"{path} {since}: {'; '.join(changed)}", f"{instead}; or --deviate WHY, which is kept with the result"
        )
    refuse_stale(plan, lock, out)
    planned: dict[str, tuple[Plan, Settings]] = {}
    for part in plan.parts:
        for run in plan.runs(part):
            check_out(out / run.folder)
        if plan.looked_at(part):
            planned[part.name] = plan_looks(context, plan, part, lock, machine)
        else:
            planned |= {run.folder: plan_of(context, plan, part, run, lock, machine) for run in plan.runs(part)}
    status = 0
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        if not (out / BEGUN).exists():
            begin(plan, out)
        note_deviations(out, changed, deviate, lock, context)
        begin(plan, out)  # a changed plan has it once that is on file
    for part in plan.parts:
        if plan.looked_at(part):
            ended = run_looks(context, plan, part, out, *planned[part.name])
            if ended not in (0, 4):
                return ended
            status = status or ended
            continue
        for run in plan.runs(part):
            ended = run_folder(context, *planned[run.folder], out / run.folder)
            if ended not in (0, 4):
                return ended
            status = status or ended
    _tell(context, plan, lock, out, page=page)
    return status


def _tell(context: Context, plan: PlanFile, lock: Lock | None, out: Path, *, page: bool) -> None:
    from ..experiment.result import make_result
    from .judged import text_of, write_result
    from .running import PAGE

    result = make_result(plan, out, registered=lock.registered if lock else None, lock=lock.digest if lock else None)
    write_result(context, result, out, page=page)
    judged = [rung for rung in result.rungs if plan.primary is None or rung.part == plan.primary.name]
    shown = out / (judged[0].runs or (judged[0].folder,))[-1] / PAGE
    text = text_of(result.rungs, result.decision, result.value["deviations"], out)
    value = {"experiment": str(out), **result.value}
    context.emit(value, f"{text}\nreport: {shown}" if page and shown.exists() else text)


def _read(context: Context, path: Path) -> PlanFile:
    """The plan, with warnings about what it cannot show."""
    from ..analysis import ArmRole, arm_role, detectable_lift, points
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
        kinds = {name: arm_role(plan.arms[name].like if name in plan.arms else name) for name in part.arms}
        left_out = [
            name
            for name, kind in kinds.items()
            if kind in (ArmRole.STATIC, ArmRole.SINGLE) and name not in (said.arm, *said.against)
        ]
        if left_out:
            context.say(f"warning: against leaves out {', '.join(left_out)} of part {part.name}: it cannot end in GO")
        if said.sequential and said.unit == "task":
            context.say(
                'warning: unit = "task" takes tasks as independent: where clusters hold several tasks that are alike, luck is'
                f" called GO or KILL with a chance above {said.alpha:g}; see docs/experiments.md"
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

    settings = {part.name: settings_of(plan, part, part.budgets[0], machine) for part in plan.parts}
    arms = {arm.name: arm for part in plan.parts for arm in arms_of(plan, part, settings[part.name])}
    first = settings[plan.parts[0].name]
    with naming_places(plan, first, machine):
        for arm in arms.values():
            check_arm(context, arm)
        return hashes_of(plan, arms.values(), context.plugins.catalog, suite_options=first.suite_options)


def _state(plan: PlanFile) -> str:
    from ..experiment.registration import read_lock

    if plan.prereg is None:
        return "exploratory: no [prereg]"
    lock = read_lock(plan.path)
    if lock is None:
        return f"not registered yet: apex experiment {plan.path} --register"
    return f"registered {lock.registered}" if lock.plan == plan.to_json() else f"changed since {lock.registered}"
