"""One run folder of an experiment: its settings, its arms, its plan, and what carries it out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError, UsageError
from ..experiment.plan import PLACES
from .context import Context
from .options import base_arm, plugin_settings

if TYPE_CHECKING:
    from ..config import Settings
    from ..episode.arm import Arm
    from ..experiment.plan import Plan
    from ..experiment.planfile import Part, PlanFile, PlannedRun
    from ..experiment.registration import Lock

Machine = Mapping[str, Any]
"""What a plan leaves to whoever runs it: workers, executor, allow_weaker_sandbox, data, repos."""


def settings_of(plan: PlanFile, part: Part, budget: int, machine: Machine) -> Settings:
    """Settings in force for one run of the plan: its own, and the machine's. Raises ConfigError."""
    from ..config import load_settings

    own = {"suite": part.suite, "split": part.split, "episodes": part.limit, "seed": part.seed, "budget": budget}
    flags = {name: value for name, value in machine.items() if name not in PLACES}
    try:
        # No folder's apex.toml and no variable: what is not in the plan is not registered. A file has no apex.toml in it.
        settings = load_settings({**plan.settings, **own, **flags}, directory=plan.path, environ={}).settings
    except ConfigError as error:
        # "--budget-safety: budget_safety: …" names the option, too, which a plan has not
        cause = error.cause.partition(": ")[2] if error.cause.startswith("--") else error.cause
        raise ConfigError(f"{plan.path}: settings: {cause}", error.remedy) from None
    places = {name: str(Path(machine[name]).absolute()) for name in PLACES if name in machine}
    return settings.model_copy(update={"suite_options": {**settings.suite_options, **places}}) if places else settings


@contextlib.contextmanager
def naming_places(plan: PlanFile, settings: Settings, machine: Machine, part: Part | None = None) -> Iterator[None]:
    """What is wrong is said with the plan, and the part, that says it; of a file of its user's, with what names the file."""
    try:
        yield
    except UsageError as error:
        if type(error) is UsageError:
            for name, value in settings.suite_options.items():
                if value and error.cause.startswith(str(Path(value))):
                    told_by = f"--{name}" if name in machine else f"{plan.path}: settings.suite_options.{name}"
                    raise UsageError(f"{told_by}: {error.cause}", error.remedy) from None
        if not error.cause.startswith(f"{plan.path}: "):
            error.cause = f"{plan.path}: {f'part {part.name!r}: ' if part else ''}{error.cause}"
        raise


def arms_of(plan: PlanFile, part: Part, settings: Settings) -> list[Arm]:
    """The arms of a part. Raises UnknownNameError, ConfigError."""
    from ..analysis import ArmRole, arm_role
    from ..experiment.arms import arm_named

    base = base_arm(settings)
    arms = [plan.arms[name].arm(base) if name in plan.arms else arm_named(name, base) for name in part.arms]
    statics = [arm.name for arm in arms if arm_role(arm.name, arm.to_json()) is ArmRole.STATIC]
    if part.best_static and part.best_static not in statics:
        raise ConfigError(
            f"{plan.path}: part {part.name!r}: best_static {part.best_static!r} is no static topology",
            f"one of: {', '.join(statics)}" if statics else "leave it out: no arm of the part is one",
        )
    return arms


def check_arm(context: Context, arm: Arm) -> None:
    """Raises UnknownNameError, MissingExtraError, ConfigError, with the arm's name."""
    from ..experiment.arms import check_names

    check_names(arm, context.plugins.catalog)


def plan_of(
    context: Context, plan: PlanFile, part: Part, run: PlannedRun, lock: Lock | None, machine: Machine
) -> tuple[Plan, Settings]:
    """What one run folder is planned to hold. Raises what ``make_plan`` raises."""
    from ..experiment.planning import make_plan

    settings = settings_of(plan, part, run.budget, machine)
    shared = plugin_settings(context, settings)
    shared["experiment"] = {"name": plan.name, "part": part.name, "registered": lock.digest if lock else ""}
    if part.families:
        shared["families"] = list(part.families)
    if part.best_static:
        shared["best_static"] = part.best_static
    if run.look:
        shared["look"] = dict(run.look)
    context.plugins.catalog.entry("executor", settings.executor)  # an unknown one, before tasks are made
    with naming_places(plan, settings, machine, part):
        asked = make_plan(
            context.plugins,
            arms_of(plan, part, settings),
            suite=part.suite,
            split=part.split,
            limit=part.limit,
            seeds=part.seeds,
            seed=part.seed,
            real_time=settings.real_time,
            settings=shared,
        )
    if len(asked.tasks) < part.limit and not (part.families or run.look):
        context.say(f"note: part {part.name} asks for {part.limit:,} tasks, and there are {len(asked.tasks):,}")
    return asked, settings


def run_folder(context: Context, asked: Plan, settings: Settings, folder: Path) -> int:
    """Run what is left of one folder, and return the exit status. Raises PlanChangedError, ArtifactError and what runs raise."""
    from ..experiment.artifacts import read_plan
    from ..experiment.manifest import DONE, verify_manifest
    from .running import execute, open_folder, warn_of_failures

    if (folder / DONE).exists():
        read_plan(folder).require_same(asked)
        verify_manifest(folder)
        return 0
    context.say(f"{folder.name}: {asked.size:,} episodes")
    opened = open_folder(context, asked, settings, folder)
    outcome = execute(context, opened, settings.workers, settings.executor)
    if not outcome.complete:
        why = "interrupted" if outcome.spent is None else f"stopped: {outcome.spent}"
        context.say(f"{why}: {outcome.finished} of {outcome.planned} episodes are safe; the same command goes on")
        return outcome.exit_status
    warn_of_failures(context, opened, outcome)
    return outcome.exit_status
