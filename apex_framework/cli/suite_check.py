"""``apex suite check``: do the tasks behave here? The gold patch passes, the empty one fails, untouched work is no success."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import EnvironmentProblem, UsageError, WorkspaceError
from ..interfaces import ChecksTasks, ComparesVerdicts, Comparison, GradesPatches, TaskCheck
from .context import Context
from .suites import LIMIT, SUITE, confined_suite, options_of, sandbox_options, source_options, totals

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..interfaces import Task, TaskSuite, WorkspaceProvider


@click.command()
@SUITE
@LIMIT
@source_options
@sandbox_options
@click.option("--anew", is_flag=True, help="Check again what was checked before.")
@click.option(
    "--official",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Compare verdicts with the official harness's; logs are kept in DIR.",
)
@click.pass_obj
def check(
    context: Context,
    /,
    suite: str,
    limit: int | None,
    sandbox: str,
    allow_weaker_sandbox: bool,
    anew: bool,
    official: Path | None,
    **places: object,
) -> None:
    """Check every task of a split, and say how long that took. Exit status 5 when one does not behave.

    Where the suite knows a gold patch it must pass, and the empty patch must fail; elsewhere untouched work must fail. What
    was checked before is taken from the cache, so that a check that was interrupted goes on where it was.

    With --official the gold patch, the empty one and a damaged one are judged by us and, from the same log, by the official
    harness: status 5 when a verdict or a single test differs. Logs that are in DIR already are not made again.
    """
    started = time.perf_counter()
    made, _, tasks = confined_suite(
        context, suite, limit, options_of(places), sandbox=sandbox, allow_weaker=allow_weaker_sandbox
    )
    seconds_to_make = round(time.perf_counter() - started, 1)
    if official is not None:
        _compared(context, suite, made, tasks, official)
        return
    found: list[TaskCheck] = []
    checks = _with_gold(made, tasks, anew=anew) if isinstance(made, GradesPatches) else _untouched(made, tasks)
    with closing(checks), _progress(context, len(tasks)) as advance:
        for one in checks:
            found.append(one)
            advance(one)
    _tell(context, suite, made, tasks, found, seconds_to_make)


def _tell(
    context: Context,
    name: str,
    suite: TaskSuite,
    tasks: Sequence[Task],
    found: Sequence[TaskCheck],
    seconds_to_make: float,
) -> None:
    """What was found, task by task, and the exit status."""
    behave = [c for c in found if c.behaves]
    bad = [c for c in found if not c.behaves and not c.infrastructure_error]
    broken = [c for c in found if c.infrastructure_error]
    value = {
        "suite": name,
        "digest": suite.digest,
        "tasks": len(found),
        "families": dict(Counter(t.family for t in tasks)),
        "clusters": len({t.cluster for t in tasks}),
        "behave": len(behave),
        "do_not_behave": {c.task: c.why for c in bad},
        "not_judged": {c.task: c.infrastructure_error for c in broken},
        "left_out": {c.task: list(c.left_out) for c in behave if c.left_out},
        "cached": sum(c.cached for c in found),
        "seconds_to_make": seconds_to_make,
        "seconds": round(sum(c.seconds for c in found if not c.cached), 1),
        "checks": [asdict(c) for c in found],
    }
    gold = isinstance(suite, GradesPatches)
    rule = "gold passes and the empty patch fails" if gold else "nobody worked on them, and they are not solved"
    lines = [
        f"{name}: {len(behave)} of {len(found)} tasks behave: {rule}; digest {suite.digest[:12]}",
        f"made or read in {seconds_to_make} s; {value['cached']} were known, the others took {value['seconds']} s",
        *totals(tasks),
        *(f"does not behave: {c.task}: {c.why}" for c in bad),
        *_not_judged(broken),
    ]
    if gold:
        lines.append(f"tests left out because they fail here even on gold: {sum(len(c.left_out) for c in behave)}")
    context.emit(value, "\n".join(lines))
    if bad or broken:
        lacking = not behave and {c.code[:3] for c in broken} == {EnvironmentProblem.code[:3]}
        click.get_current_context().exit(5 if bad else EnvironmentProblem.exit_status if lacking else 4)


def _not_judged(broken: Sequence[TaskCheck]) -> Iterator[str]:
    """A line for each cause, and each remedy once."""
    tasks: dict[tuple[str, str], list[str]] = {}
    for one in broken:
        tasks.setdefault((one.infrastructure_error, one.remedy), []).append(one.task)
    told = {""}
    for (why, remedy), names in tasks.items():
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        yield f"could not be judged: {', '.join(names[:3])}{more}: {why}"
        if remedy not in told:
            yield f"  {remedy}"
            told.add(remedy)


def _compared(context: Context, name: str, suite: TaskSuite, tasks: Sequence[Task], folder: Path) -> None:
    if not isinstance(suite, ComparesVerdicts):
        raise UsageError(f"{name} has no official grader", "leave --official out")
    found: list[Comparison] = []
    for number, task in enumerate(tasks, 1):
        for one in suite.compare(task, folder.absolute()):
            found.append(one)
            context.say(f"{number}/{len(tasks)} {_told(one)} ({one.seconds:.1f} s)")
    broken = [one for one in found if one.infrastructure_error]
    differ = [one for one in found if not one.equal and not one.infrastructure_error]
    value = {
        "suite": name,
        "digest": suite.digest,
        "tasks": len(tasks),
        "patches": len(found) - len(broken),
        "equal": sum(one.equal for one in found),
        "resolved": dict(Counter(one.patch for one in found if one.theirs == "resolved")),
        "different": [asdict(one) for one in differ],
        "not_judged": {one.task: one.infrastructure_error for one in broken},
        "comparisons": [asdict(one) | {"equal": one.equal} for one in found],
    }
    lines = [
        f"{name}: {value['equal']} of {value['patches']} verdicts equal to the official harness's, test by test",
        *(f"different: {_told(one)}" for one in differ),
        *(f"could not be judged: {one.task}: {one.infrastructure_error}" for one in broken),
    ]
    context.emit(value, "\n".join(lines))
    if differ or broken:
        click.get_current_context().exit(5 if differ else 4)


def _told(one: Comparison) -> str:
    if one.infrastructure_error:
        return f"{one.task}: {one.infrastructure_error}"
    if one.equal:
        return f"{one.task}, {one.patch} patch: equal, {one.ours}"
    tests = (
        f"; not equal on {', '.join(one.tests[:3])}" + (" and more" if len(one.tests) > 3 else "") if one.tests else ""
    )
    return f"{one.task}, {one.patch} patch: ours {one.ours}, official {one.theirs}{tests}"


def _with_gold(suite: Any, tasks: Sequence[Task], *, anew: bool) -> Generator[TaskCheck, None, None]:
    for task in tasks:
        yield suite.check(task, anew=anew) if isinstance(suite, ChecksTasks) else _check(suite, task)


def _check(suite: Any, task: Task) -> TaskCheck:
    """For suites that keep no record of their own."""
    started = time.perf_counter()
    gold, empty = suite.grade_patch(task, suite.gold(task)), suite.grade_patch(task, "")
    seconds = round(time.perf_counter() - started, 2)
    if error := gold.infrastructure_error or empty.infrastructure_error:
        return TaskCheck(task.id, False, infrastructure_error=error, seconds=seconds)
    why = "" if gold.success else f"the gold patch does not pass: {gold.detail}"
    why = why or ("the empty patch passes" if empty.success else "")
    return TaskCheck(task.id, not why, why, seconds=seconds)


def _untouched(suite: TaskSuite, tasks: Sequence[Task]) -> Generator[TaskCheck, None, None]:
    """For suites that know no gold patch."""
    provider = suite.workspaces()
    try:
        for task in tasks:
            started = time.perf_counter()
            success, error = _judged_untouched(suite, task, provider)
            why = "it is solved before anybody worked on it" if success else ""
            seconds = round(time.perf_counter() - started, 2)
            yield TaskCheck(task.id, not (success or error), why, infrastructure_error=error, seconds=seconds)
    finally:
        provider.close()


def _judged_untouched(suite: TaskSuite, task: Task, provider: WorkspaceProvider) -> tuple[bool, str]:
    """Whether it is solved, and why that could not be judged."""
    try:
        workspace = provider.create(task)
        try:
            verdict = suite.grade(task, workspace)
        finally:
            workspace.dispose()
    except WorkspaceError as error:
        return False, str(error)
    return verdict.success and not verdict.infrastructure_error, verdict.infrastructure_error


@contextmanager
def _progress(context: Context, total: int) -> Iterator[Callable[[TaskCheck], None]]:
    """A bar with the time that is left, on a terminal; elsewhere a line on stderr for each task that took a while."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    live = context.console.is_terminal
    spent: list[float] = []
    done = 0
    with Progress(*columns, console=context.console, disable=not live) as bar:
        judging = bar.add_task("judging", total=total)

        def advance(one: TaskCheck) -> None:
            nonlocal done
            done += 1
            bar.update(judging, advance=1, description=one.task)
            if one.cached or live:
                return
            spent.append(one.seconds)
            if one.seconds >= 1:
                left = (total - done) * sum(spent) / len(spent) / 60
                told = "behaves" if one.behaves else one.infrastructure_error or one.why
                context.say(f"{done}/{total} {one.task}: {told} ({one.seconds:.1f} s), about {left:.0f} min left")

        yield advance
