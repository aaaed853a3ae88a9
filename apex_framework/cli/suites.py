"""What the commands on suites share: which suite, from which files, in which sandbox."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from ..errors import UsageError
from ..interfaces import Closes

if TYPE_CHECKING:
    from ..interfaces import Sandbox, Task, TaskSuite
    from .context import Context

F = TypeVar("F", bound=Callable[..., Any])

SUITE = click.argument("suite", metavar="SUITE[/SPLIT]", default="mini/dev")
LIMIT = click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the first N tasks.")
_FILE = click.Path(path_type=Path)
_PLACES = (
    click.option("--data", type=_FILE, help="File of the suite's tasks, or folder, for suites that read one."),
    click.option("--repos", type=_FILE, help="Folder of its repositories, as bare clones."),
    click.option("--environments", type=_FILE, help="TOML file of more environments, for suites that have some."),
    click.option("--option", multiple=True, metavar="NAME=VALUE", help="Another option of the suite; repeatable."),
)
_SANDBOX = (
    click.option(
        "--sandbox", default="auto", metavar="NAME", help="What confines tests: auto, bwrap, landlock, plain."
    ),
    click.option("--allow-weaker-sandbox", is_flag=True, help="Also run others' code where no sandbox holds it."),
)


def source_options(command: F) -> F:
    """Add the options that say where a suite's tasks come from."""
    return _with(command, _PLACES)


def sandbox_options(command: F) -> F:
    """Add the options that choose a sandbox."""
    return _with(command, _SANDBOX)


def options_of(places: Mapping[str, object]) -> dict[str, str]:
    """Options of a suite from the flags that were given. Raises UsageError."""
    found = {name: str(value.absolute()) for name, value in places.items() if isinstance(value, Path)}
    for text in cast("tuple[str, ...]", places.get("option", ())):
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise UsageError(f"--option {text}: no name and value", "--option NAME=VALUE")
        found[name] = value
    return found


def open_suite(
    context: Context,
    name: str,
    limit: int | None,
    options: Mapping[str, str] | None = None,
    sandbox: Sandbox | None = None,
) -> tuple[TaskSuite, str]:
    """A suite by ``name/split``, closed when the command ends; dev without a split. Raises UsageError, UnknownNameError."""
    from ..episode.workshop import make_suite
    from ..experiment.foresight import answering

    base, _, split = name.partition("/")
    if split not in ("", "train", "dev", "test"):
        raise UsageError(f"suite {base!r} has no split {split!r}", "known: train, dev, test")
    catalog = context.plugins.catalog
    with answering(catalog, "suite", base):
        made = make_suite(catalog, base, limit, sandbox=sandbox, options=options)
    if isinstance(made, Closes):
        click.get_current_context().call_on_close(made.close)
    return made, split or "dev"


def confined_suite(
    context: Context,
    name: str,
    limit: int | None,
    options: Mapping[str, str],
    *,
    sandbox: str,
    allow_weaker: bool,
    patches: str = "",
) -> tuple[TaskSuite, str, Sequence[Task]]:
    """A suite whose tests run in a sandbox as strong as their code demands, and its candidates.

    ``patches`` says whose patches are run besides. Raises SandboxError when none here is strong enough.
    """
    from ..episode.confining import PLAIN, Demand, choose, demand_of
    from ..interfaces import Level

    made, split = open_suite(context, name, limit, options)
    tasks, catalog = candidates(context, name, made, split), context.plugins.catalog
    demand = demand_of((), tasks, catalog)
    if any(task.base_commit for task in tasks):
        demand = Demand(Level.LANDLOCK, "code of foreign repositories")
    elif patches:
        demand = Demand(Level.LANDLOCK, patches)
    if sandbox in ("auto", PLAIN) and demand.level <= Level.RLIMITS:
        return made, split, tasks
    chosen = choose(catalog, sandbox, demand, allow_weaker=allow_weaker)
    if chosen.weaker:
        context.say(f"warning: {demand.reason} runs without a sandbox that holds it: {chosen}")
    if chosen.name == PLAIN:
        return made, split, tasks
    made, split = open_suite(context, name, limit, options, catalog.make("sandbox", chosen.name))
    return made, split, candidates(context, name, made, split)


def candidates(context: Context, name: str, suite: TaskSuite, split: str) -> Sequence[Task]:
    """Every task of a split, those included that were not checked. Raises SuiteError, PluginError."""
    from ..experiment.planning import tasks_of

    return tasks_of(context.plugins.catalog, name.partition("/")[0], suite, split, unchecked=True)


def totals(tasks: Sequence[Task]) -> list[str]:
    """How many tasks, families and clusters."""
    families = Counter(t.family for t in tasks)
    clusters = Counter(t.cluster for t in tasks)
    largest = max(clusters.values(), default=0)
    shares = ", ".join(f"{name or 'none'} {100 * n / len(tasks):.0f} %" for name, n in families.most_common())
    return [f"{len(tasks)} tasks; {shares}", f"{len(clusters)} clusters, the largest with {largest} tasks"]


def _with(command: F, options: Sequence[Callable[[F], F]]) -> F:
    for option in reversed(options):
        command = option(command)
    return command
