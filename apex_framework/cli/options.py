"""Options that several commands share, and what they mean together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..errors import ConfigError

if TYPE_CHECKING:
    from ..budget import BudgetSettings
    from ..config import Settings
    from ..episode.arm import Arm
    from .context import Context

F = TypeVar("F", bound=Callable[..., Any])

_TASKS = [
    click.option("--suite", metavar="SUITE[/SPLIT]", help="Tasks to work on: mini/dev."),
    click.option(
        "--data",
        type=click.Path(path_type=Path),
        help="File of the suite's tasks, or folder, for suites that read one.",
    ),
    click.option("--repos", type=click.Path(path_type=Path), help="Folder of its repositories, as bare clones."),
    click.option("--episodes", type=int, metavar="N", help="Tasks per arm."),
]

_ARM = [
    click.option("--topology-set", metavar="A,B,…", help="Topologies to choose from: star,chain,flat."),
    click.option("--team", help="Who works together: swe."),
    click.option(
        "--backend", metavar="NAME|ROLE=NAME,…", help="Source of answers, for all or per role: coder=x,*=repair."
    ),
    click.option("--budget", type=int, metavar="TOKENS", help="Tokens per episode."),
    click.option("--run-budget", metavar="TOKENS", help="Tokens of the whole run, resumptions included."),
    click.option("--day-budget", metavar="TOKENS", help="Tokens of a day, over all runs of this user."),
    click.option("--seed", type=int, help="Seed of everything random."),
    click.option("--workers", type=int, help="Processes that run episodes."),
    click.option(
        "--executor", metavar="NAME[:OPTIONS]", help="Where episodes are run: local, or what a plugin brings."
    ),
    click.option("--candidates", type=int, metavar="K", help="Edits per repair answer."),
    click.option("--lane", help="Order of service in front of an agent."),
    click.option("--transport", help="Way of messages between agents."),
    click.option("--on-busy", metavar="drain|migrate", help="At a switch, what happens to messages for a busy agent."),
    click.option("--dwell", type=int, metavar="STEPS", help="Steps that a topology lasts at least."),
    click.option("--cooldown", type=int, metavar="STEPS", help="Steps without a switch after a switch."),
    click.option("--sandbox", metavar="NAME", help="What confines the code of tasks: auto, bwrap, landlock, plain."),
    click.option(
        "--allow-weaker-sandbox",
        is_flag=True,
        default=None,
        help="Also run others' code where no sandbox holds it: it can then read, change and send what you can.",
    ),
    click.option("--real-time", is_flag=True, default=None, help="The machine's clock instead of virtual time."),
    click.option(
        "--set", "assignments", multiple=True, metavar="NAME=VALUE", help="Any setting; see: apex config show."
    ),
    click.option("--config", "config_file", type=click.Path(path_type=Path), help="A file instead of apex.toml."),
]


_MOTION = (
    "message_ttl_s",
    "handler_deadline_s",
    "lane_capacity",
    "lane_bytes",
    "total_bytes",
    "dedup_cap",
    "strict_pair_fifo",
    "throttle",
    "relief",
    "parallel_prepare",
    "prevalidate",
    "health_pin",
)
"""Settings that an arm takes under the same name."""


def setting_options(command: F) -> F:
    """Add the options that set an arm and its tasks."""
    command = arm_options(command)
    for option in reversed(_TASKS):
        command = option(command)
    return command


def arm_options(command: F) -> F:
    """Add the options that set an arm; the command has its own ``--suite`` and ``--episodes``."""
    for option in reversed(_ARM):
        command = option(command)
    return command


def settings_from(config_file: Path | None, defaults: Mapping[str, Any] | None = None, **flags: Any) -> Settings:
    """Settings in force with these flags; ``suite/split`` is taken apart. Raises ConfigError.

    ``defaults`` are the command's own, for settings that neither file, environment nor flag says.
    """
    from ..config import load_settings

    assignments: dict[str, str] = {}
    for assignment in flags.pop("assignments", ()):
        name, equals, value = assignment.partition("=")
        if not equals:
            raise ConfigError(f"--set {assignment}: no '='", "--set NAME=VALUE, see: apex config show")
        assignments[name.strip()] = value.strip()
    places = {name: str(path.absolute()) for name in ("data", "repos") if (path := flags.pop(name, None)) is not None}
    found = load_settings(flags, assignments=assignments, config=config_file)
    own = {name: value for name, value in (defaults or {}).items() if found.origins[name] == "default"}
    settings = found.settings.model_copy(update=own)
    if places:
        settings = settings.model_copy(update={"suite_options": {**settings.suite_options, **places}})
    suite, slash, split = settings.suite.partition("/")
    if slash:
        if split not in ("train", "dev", "test"):
            raise ConfigError(f"suite {suite!r} has no split {split!r}", "known: train, dev, test")
        settings = settings.model_copy(update={"suite": suite, "split": split})
    return settings


def base_arm(settings: Settings) -> Arm:
    """What all arms of a command have in common."""
    from ..episode.arm import Arm

    return replace(
        Arm("base"),
        team=settings.team,
        topologies=tuple(settings.topology_set),
        backends=dict(settings.backend),
        lane=settings.lane,
        transport=settings.transport,
        scopes=tuple(settings.scopes),
        policies=tuple(settings.policies),
        interceptors=tuple(
            f"{name}:{settings.plan_cache}" if name == "plan_cache" and settings.plan_cache else name
            for name in settings.interceptors
        ),
        tools=(*settings.tools, *([f"mcp:{settings.mcp_servers.absolute()}"] if settings.mcp_servers else [])),
        budget=settings.budget,
        candidates=settings.candidates,
        dwell=settings.dwell,
        cooldown=settings.cooldown,
        quiesce_deadline_ms=settings.quiesce_deadline_ms,
        on_busy=settings.on_busy,
        **{name: getattr(settings, name) for name in _MOTION},
    )


def say_times(context: Context, settings: Settings) -> None:
    """One line on stderr when messages are told to live shorter than a handler may take."""
    from ..session import check_times

    if {"message_ttl_s", "handler_deadline_s"} & settings.model_fields_set:
        warning = check_times(settings.message_ttl_s, settings.handler_deadline_s)
        if warning is not None:
            context.say(f"warning: {warning}")


def budget_settings(settings: Settings) -> BudgetSettings:
    """The ceilings that settings say. A day's store is the same file from wherever a run is resumed."""
    from ..budget import BudgetSettings

    return BudgetSettings(
        episode=settings.budget,
        run=settings.run_budget,
        day=settings.day_budget,
        roles=settings.role_budgets,
        group=settings.budget_group,
        day_store=None if settings.day_store is None else settings.day_store.absolute(),
        bias_pct=settings.approximator_bias_pct,
        ms=settings.budget_ms,
        safety=settings.budget_safety,
    )


def plugin_settings(context: Context, settings: Settings) -> dict[str, Any]:
    """What a run's jobs share besides their arms: how workers load plugins, and plugins that are not the usual ones."""
    from ..config import CALLS, CONFINING, TOOLS

    shared: dict[str, Any] = {"blocked": sorted(context.block)} if context.block else {}
    if not (budgets := budget_settings(settings)).ordinary:
        shared["budgets"] = budgets.to_json()
    if context.safe_mode:
        shared["safe_mode"] = True
    if settings.suite_options:
        shared["suite_options"] = dict(settings.suite_options)
    if settings.workspace != "auto":
        shared["workspace"] = settings.workspace
    if settings.exporters:
        shared["exporters"] = list(settings.exporters)
    if settings.tool_scopes:
        shared["tool_scopes"] = list(settings.tool_scopes)
    shared |= {name: getattr(settings, name) for name in sorted((CALLS | CONFINING | TOOLS) - settings.unsaid)}
    if settings.resident_models is not None:
        shared["resident_models"] = settings.resident_models
    if settings.hist_buckets is not None:
        from ..config import read_table
        from ..telemetry.buckets import checked_buckets

        table = read_table(settings.hist_buckets)
        found = checked_buckets({k: v for k, (_, v) in table.items()}, {k: place for k, (place, _) in table.items()})
        shared["hist_buckets"] = {name: list(bounds) for name, bounds in found.items()}
    return shared
