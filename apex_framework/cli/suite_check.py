"""``apex suite check``: do the tasks behave here? The gold patch passes, the empty one fails, untouched work is no success."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError, WorkspaceError
from ..interfaces import ChecksTasks, ComparesVerdicts, Comparison, GradesPatches, TaskCheck
from .context import Context
from .suites import LIMIT, SUITE, confined_suite, options_of, sandbox_options, source_options, totals

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..interfaces import Task, TaskSuite


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
    made, split, tasks = confined_suite(
        context, suite, limit, options_of(places), sandbox=sandbox, allow_weaker=allow_weaker_sandbox
    )
    ready = time.perf_counter()
    if official is not None:
        _compared(context, suite, made, tasks, official)
        return
    with _progress(context, len(tasks)) as advance:
        if isinstance(made, GradesPatches):
            _with_gold(context, suite, split, made, tasks, advance, anew=anew)
        else:
            _untouched(context, suite, made, tasks, advance, ready - started)


def _with_gold(
    context: Context,
    name: str,
    split: str,
    suite: TaskSuite,
    tasks: Sequence[Task],
    advance: Callable[[TaskCheck], None],
    *,
    anew: bool,
) -> None:
    found: list[TaskCheck] = []
    for task in tasks:
        one = suite.check(task, anew=anew) if isinstance(suite, ChecksTasks) else _check(suite, task)
        found.append(one)
        advance(one)
    behave = [c for c in found if c.behaves]
    bad = [c for c in found if not c.behaves and not c.infrastructure_error]
    broken = [c for c in found if c.infrastructure_error]
    value = {
        "suite": name,
        "digest": suite.digest,
        "tasks": len(found),
        "behave": len(behave),
        "do_not_behave": {c.task: c.why for c in bad},
        "not_judged": {c.task: c.infrastructure_error for c in broken},
        "left_out": {c.task: list(c.left_out) for c in behave if c.left_out},
        "cached": sum(c.cached for c in found),
        "seconds": round(sum(c.seconds for c in found if not c.cached), 1),
        "checks": [asdict(c) for c in found],
    }
    left_out = sum(len(c.left_out) for c in behave)
    lines = [
        f"{name}: {len(behave)} of {len(found)} tasks behave: gold passes and the empty patch fails; digest {suite.digest[:12]}",
        f"{value['cached']} were known, the others took {value['seconds']} s",
        *(f"does not behave: {c.task}: {c.why}" for c in bad),
        *(f"could not be judged: {c.task}: {c.infrastructure_error}" for c in broken),
        f"tests left out because they fail here even on gold: {left_out}",
    ]
    context.emit(value, "\n".join(lines))
    if bad or broken:
        click.get_current_context().exit(5 if bad else 4)


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


def _untouched(
    context: Context,
    name: str,
    suite: TaskSuite,
    tasks: Sequence[Task],
    advance: Callable[[TaskCheck], None],
    seconds_to_make: float,
) -> None:
    started = time.perf_counter()
    solved: list[str] = []
    broken: list[str] = []
    provider = suite.workspaces()
    try:
        for task in tasks:
            before = time.perf_counter()
            try:
                workspace = provider.create(task)
                verdict = suite.grade(task, workspace)
                workspace.dispose()
                success, error = verdict.success, verdict.infrastructure_error
            except WorkspaceError as problem:
                success, error = False, str(problem)
            if error:
                broken.append(task.id)
            elif success:
                solved.append(task.id)
            why = "solved untouched" if success else ""
            advance(TaskCheck(task.id, not (success or error), why, (), error, time.perf_counter() - before))
    finally:
        provider.close()
    value = {
        "suite": name,
        "digest": suite.digest,
        "tasks": len(tasks),
        "families": dict(Counter(t.family for t in tasks)),
        "clusters": len({t.cluster for t in tasks}),
        "solved_untouched": solved,
        "not_judged": broken,
        "seconds_to_make": round(seconds_to_make, 1),
        "seconds_to_judge": round(time.perf_counter() - started, 1),
    }
    lines = [
        f"{name}: {len(tasks)} tasks made or read in {value['seconds_to_make']} s, judged in "
        f"{value['seconds_to_judge']} s; digest {suite.digest[:12]}",
        *totals(tasks),
        f"solved before anybody worked on them: {', '.join(solved) or 'none'}",
        f"could not be judged: {', '.join(broken) or 'none'}",
    ]
    context.emit(value, "\n".join(lines))
    if solved or broken:
        click.get_current_context().exit(5 if solved else 4)


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
