"""Making a plan out of what is installed here."""

from __future__ import annotations

import contextlib
import functools
import platform
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from .. import __version__
from ..analysis import checkpoint_digest
from ..budget import BudgetSettings
from ..budget.settings import SMALLEST_BUDGET
from ..catalog import Catalog
from ..episode.arm import Arm
from ..episode.budgeting import settings_of
from ..episode.confining import confined
from ..episode.workshop import AUTO, make_suite
from ..errors import ApexError, BudgetTooSmallError, ConfigError, EnvironmentProblem, SuiteError, WorkspaceError
from ..interfaces import ChecksTasks, EpisodeContext, HasCaveats, HasNotes, LLMBackend, Task, TaskSuite, Trainable
from ..plugins import Plugins
from .allowance import Allowance
from .arms import check_names
from .foresight import answering, check_arm
from .plan import UNTRAINED, Plan, PlannedTask, choose_tasks, in_order_of_looks
from .planfile import Part
from .prereg import PreRegistration


def make_plan(
    plugins: Plugins,
    arms: Sequence[Arm],
    *,
    suite: str,
    split: str,
    limit: int | None,
    seeds: int = 1,
    seed: int = 0,
    real_time: bool = False,
    settings: Mapping[str, Any] | None = None,
    budgets: BudgetSettings | None = None,
) -> Plan:
    """Check every name, make the suite's tasks, and write down all that decides the result.

    ``budgets`` are the ceilings in force, where they are not those of ``settings``. Raises UnknownNameError,
    MissingExtraError, ConfigError, BudgetTooSmallError, BudgetStoreError, GlobalBudgetSpentError, SuiteError, SandboxError,
    PluginError.
    """
    catalog = plugins.catalog
    budgets = settings_of(settings or {}) if budgets is None else budgets
    if seeds < 1:
        raise ConfigError(f"--seeds {seeds}: at least one is needed")
    if split not in ("train", "dev", "test"):
        raise ConfigError(f"unknown split {split!r}", "known: train, dev, test")
    catalog.entry("suite", suite)
    for arm in arms:
        check_names(arm, catalog)
        if arm.budget < SMALLEST_BUDGET:
            raise BudgetTooSmallError(
                f"{arm.budget} tokens cannot pay for one call", f"give at least --budget {SMALLEST_BUDGET}"
            )
        check_arm(arm, catalog, real_time=real_time, budgets=budgets)
    for name, tokens in (("run", budgets.run), ("day", budgets.day)):
        if tokens is not None and tokens < SMALLEST_BUDGET:
            raise BudgetTooSmallError(
                f"{tokens} tokens of the {name} cannot pay for one call",
                f"give at least --{name}-budget {SMALLEST_BUDGET}",
            )
    Allowance(catalog, arms, budgets).check()
    policies = {arm.name: digest for arm in arms if (digest := policy_digest(arm, catalog))}
    with answering(catalog, "suite", suite):
        made = make_suite(catalog, suite, limit, options=(settings or {}).get("suite_options"))
        caveats = _sentences("caveats", made.caveats) if isinstance(made, HasCaveats) else ()
        digest = suite_digest(made)
    _ask_workspaces(
        catalog,
        suite,
        limit,
        str((settings or {}).get("workspace", AUTO)),
        tuple(sorted(((settings or {}).get("suite_options") or {}).items())),
    )
    every = tasks_of(catalog, suite, made, split)
    with answering(catalog, "suite", suite):
        for note in _sentences("notes", made.notes(split)) if isinstance(made, HasNotes) else ():
            _note(catalog, note)
    tasks = _of_families(choose_tasks(every, limit), (settings or {}).get("families"))
    tasks = _of_look(tasks, (settings or {}).get("look"))
    settings = confined(settings or {}, arms, every, catalog)
    return Plan(
        suite=suite,
        split=split,
        suite_digest=digest,
        tasks=tasks,
        limit=limit,
        arms=tuple(arms),
        seeds=tuple(range(seed, seed + seeds)),
        seed=seed,
        level=evidence_level(arms, catalog),
        real_time=real_time,
        settings=settings,
        policies=policies,
        versions=versions(plugins),
        caveats=caveats,
    )


def tasks_of(catalog: Catalog, name: str, suite: TaskSuite, split: str, *, unchecked: bool = False) -> tuple[Task, ...]:
    """A split's tasks, which may take their time; ``unchecked`` ones too where they are asked for.

    Raises SuiteError for an id that two tasks have, PluginError.
    """
    with answering(catalog, "suite", name, limit_s=0):
        found = suite.candidates(split) if unchecked and isinstance(suite, ChecksTasks) else suite.tasks(split)
        tasks = tuple(found)
        ids = [task.id for task in tasks]
    if len(set(ids)) != len(ids):
        twice = next(task for task, count in Counter(ids).items() if count > 1)
        raise SuiteError(
            f"suite {name!r} has several tasks {twice!r} in split {split!r}",
            "correct its data, or report this to its author: results are told apart by the ids of tasks",
        )
    return tasks


def suite_digest(suite: TaskSuite) -> str:
    """What tells results on its tasks from those on others. Raises TypeError or ValueError where there is none."""
    digest = suite.digest
    if not isinstance(digest, str):
        raise TypeError(f"its digest is {digest!r}")
    if not digest:
        raise ValueError("it has no digest of its tasks")
    return digest


def _sentences(what: str, told: tuple[str, ...]) -> tuple[str, ...]:
    """What a suite says. Raises TypeError when that is no tuple of sentences."""
    if not isinstance(told, tuple) or not all(isinstance(one, str) for one in told):
        raise TypeError(f"its {what} are no tuple of sentences")
    return told


@functools.lru_cache(maxsize=64)
def _note(_catalog: Catalog, note: str) -> None:
    """A line on stderr, once however many runs are planned."""
    print(note, file=sys.stderr)


@functools.lru_cache(maxsize=16)
def _ask_workspaces(
    catalog: Catalog, suite: str, limit: int | None, workspace: str, options: tuple[tuple[str, str], ...]
) -> None:
    """The workspaces that the episodes will be worked on in are made once, however many runs are planned.

    Raises EnvironmentProblem when they cannot work here, UnknownNameError, PluginError.
    """
    asked = ("suite", suite) if workspace == AUTO else ("workspace", workspace)
    catalog.entry(*asked)  # a suite that brings its own would not ask for the one that was named
    try:
        with answering(catalog, *asked):
            make_suite(catalog, suite, limit, workspace, options=dict(options)).workspaces().close()
    except ApexError as error:
        if type(error) is not EnvironmentProblem and not isinstance(error, WorkspaceError):
            raise  # says of itself whose it is
        whose = f"the workspaces that suite {suite!r} prefers" if workspace == AUTO else f"workspace {workspace!r}"
        raise EnvironmentProblem(f"{whose} cannot work here: {error.cause}", error.remedy) from error


def check_families(catalog: Catalog, part: Part, suite_options: Mapping[str, str] | None = None) -> None:
    """Raises ConfigError for a family that a part names and of which it would have no task."""
    if part.families:
        with answering(catalog, "suite", part.suite):
            made = make_suite(catalog, part.suite, part.limit, options=suite_options)
        _of_families(choose_tasks(tasks_of(catalog, part.suite, made, part.split), part.limit), part.families)


def check_exclusions(
    catalog: Catalog, part: Part, said: PreRegistration, suite_options: Mapping[str, str] | None = None
) -> None:
    """Raises ConfigError for a registered exclusion that excludes nothing, or for those that leave no task."""
    rules = [rule for rule in said.exclusions if ":" in rule]
    if not rules:
        return
    with answering(catalog, "suite", part.suite):
        made = make_suite(catalog, part.suite, part.limit, options=suite_options)
    tasks = _of_families(choose_tasks(tasks_of(catalog, part.suite, made, part.split), part.limit), part.families)
    meant = {f"family:{task.family}" for task in tasks} | {f"task:{task.id}" for task in tasks}
    for rule in rules:
        if rule not in meant:
            families = sorted({f"family:{task.family}" for task in tasks if task.family})
            raise ConfigError(
                f"prereg: exclusion {rule!r} is of no task that is planned",
                f"leave it out; families are: {', '.join(families) or 'none'}",
            )
    if all(said.excludes(task.family, task.id) for task in tasks):
        raise ConfigError("prereg: the exclusions leave no task", "leave one of them out")


def _of_families(tasks: tuple[PlannedTask, ...], families: Sequence[str] | None) -> tuple[PlannedTask, ...]:
    """Tasks of these families; all where none is named. Raises ConfigError for one that has no task here."""
    if not families:
        return tasks
    known = sorted({task.family for task in tasks if task.family})
    if unknown := [name for name in families if name not in known]:
        raise ConfigError(f"no task of family {unknown[0]!r} is planned", f"known: {', '.join(known) or 'none'}")
    return tuple(task for task in tasks if task.family in families)


def _of_look(tasks: tuple[PlannedTask, ...], look: Mapping[str, Any] | None) -> tuple[PlannedTask, ...]:
    """The tasks that a look is the first to see; all where there is none. Raises ConfigError for a look beyond them."""
    if not look:
        return tasks
    if look["to"] > len(tasks):
        raise ConfigError(
            f"a look at {look['to']} tasks is beyond the {len(tasks)} that there are",
            f"looks and limit up to {len(tasks)}",
        )
    return in_order_of_looks(tasks, look["unit"])[look["from"] : look["to"]]


def replan(
    plan: Plan, plugins: Plugins, budgets: BudgetSettings | None = None, places: Mapping[str, str] | None = None
) -> Plan:
    """The same run, planned again with what is installed now: equal when it can be resumed. ``places`` are as in a plan."""
    settings = dict(plan.settings)
    if places:
        settings["suite_options"] = {**settings.get("suite_options", {}), **places}
    return make_plan(
        plugins,
        plan.arms,
        suite=plan.suite,
        split=plan.split,
        limit=plan.limit,
        seeds=len(plan.seeds),
        seed=plan.seed,
        real_time=plan.real_time,
        settings=settings,
        budgets=budgets,
    )


def policy_digest(arm: Arm, catalog: Catalog) -> str:
    """Digest of what the arm's controller has learned, given or shipped; empty for one that cannot learn.

    ``untrained`` for one that can and has not.

    Beginning an episode also shows whether the controller fits the arm's topologies. Raises ConfigError, ArtifactError.
    """
    with _naming(arm), answering(catalog, "controller", arm.controller):
        controller = catalog.make("controller", arm.controller, **arm.controller_options)
        controller.begin(EpisodeContext("plan", 0, arm.topologies, arm.budget, arm.dwell, frozen=not arm.online))
        if not isinstance(controller, Trainable):
            return ""
        return checkpoint_digest(controller.save()) if getattr(controller, "trained", True) else UNTRAINED


@contextlib.contextmanager
def _naming(arm: Arm) -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        if arm.name not in error.cause:
            error.cause = f"arm {arm.name!r}: {error.cause}"
        raise


def evidence_level(arms: Iterable[Arm], catalog: Catalog) -> str:
    """L4 with a live model, L3 with replayed answers, L2 with solvers that are no language models."""
    names = {name for arm in arms for name in arm.backends.values()}
    if any(name.partition(":")[0] == "replay" for name in names):
        return "L3"
    options = {name: arm.backend_options for arm in arms for name in arm.backends.values()}
    backends: list[LLMBackend] = [catalog.make("llm_backend", name, **options[name]) for name in sorted(names)]
    return "L4" if any(backend.capabilities.is_llm for backend in backends) else "L2"


def versions(plugins: Plugins) -> dict[str, str]:
    """APEX, Python, and every distribution that brought a plugin."""
    found = {p.distribution: p.version for p in plugins.report.plugins if p.distribution and p.status != "blocked"}
    return {**found, "apex-framework": __version__, "python": platform.python_version()}
