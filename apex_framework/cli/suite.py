"""``apex suite``: which tasks there are, what one looks like, and whether a suite keeps its contract here."""

from __future__ import annotations

import difflib
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from ..errors import UnknownNameError, UsageError
from .context import Context

if TYPE_CHECKING:
    from ..interfaces import Task, TaskSuite

_SUITE = click.argument("suite", metavar="SUITE[/SPLIT]", default="mini/dev")
_LIMIT = click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the first N tasks.")


@click.group()
def suite() -> None:
    """Look at sets of tasks. The first look makes them and takes a while; progress is on stderr."""


@suite.command("list")
@_SUITE
@_LIMIT
@click.pass_obj
def list_tasks(context: Context, suite: str, limit: int | None) -> None:
    """List the tasks of a split: id, family and cluster, then the totals."""
    made, split = _open(context, suite, limit)
    tasks = made.tasks(split)
    rows = [{"id": t.id, "family": t.family, "cluster": t.cluster, "tests": len(t.visible_tests)} for t in tasks]
    width = max((len(t.id) for t in tasks), default=0)
    lines = [f"{r['id']:<{width}}  {r['family']:<20}  {r['cluster']}" for r in rows]
    context.emit(rows, "\n".join([*lines, "", *_totals(tasks)]))


@suite.command()
@click.argument("task")
@click.option("--suite", "name", metavar="SUITE[/SPLIT]", default="mini/dev", help="Where it is: mini/dev.")
@click.option("--files", is_flag=True, help="The text of every file, too.")
@_LIMIT
@click.pass_obj
def show(context: Context, task: str, name: str, files: bool, limit: int | None) -> None:
    """Show one task as agents meet it: issue, visible tests, files."""
    made, split = _open(context, name, limit)
    found = {t.id: t for t in made.tasks(split)}
    if task not in found:
        near = difflib.get_close_matches(task, found, n=5, cutoff=0.3) or list(found)[:5]
        raise UnknownNameError(f"task of {name}", task, near, "; all of them: apex suite list")
    one = found[task]
    value = {
        "id": one.id,
        "family": one.family,
        "cluster": one.cluster,
        "issue": one.issue,
        "visible_tests": list(one.visible_tests),
        "files": dict(one.files) if files else sorted(one.files),
    }
    parts = [f"{one.id}  ({one.family}, {one.cluster})", "", one.issue, "", "visible tests:"]
    parts += [f"  {t}" for t in one.visible_tests]
    parts += ["", "files:", *(f"  {p}  {len(text):,} characters" for p, text in one.files.items())]
    if files:
        parts += [part for p, text in one.files.items() for part in ("", f"--- {p}", text)]
    context.emit(value, "\n".join(parts))


@suite.command()
@_SUITE
@_LIMIT
@click.pass_obj
def check(context: Context, suite: str, limit: int | None) -> None:
    """Grade every task untouched, and say how long that took. Exit status 5 when one counts as solved."""
    made, split = _open(context, suite, limit)
    started = time.perf_counter()
    tasks = made.tasks(split)
    ready = time.perf_counter()
    solved, broken = _grade_untouched(context, made, tasks)
    value = {
        "suite": suite,
        "digest": made.digest,
        "tasks": len(tasks),
        "families": dict(Counter(t.family for t in tasks)),
        "clusters": len({t.cluster for t in tasks}),
        "solved_untouched": solved,
        "not_judged": broken,
        "seconds_to_make": round(ready - started, 1),
        "seconds_to_judge": round(time.perf_counter() - ready, 1),
    }
    lines = [
        f"{suite}: {len(tasks)} tasks made or read in {value['seconds_to_make']} s, judged in "
        f"{value['seconds_to_judge']} s; digest {made.digest[:12]}",
        *_totals(tasks),
        f"solved before anybody worked on them: {', '.join(solved) or 'none'}",
        f"could not be judged: {', '.join(broken) or 'none'}",
    ]
    context.emit(value, "\n".join(lines))
    if solved or broken:
        click.get_current_context().exit(5 if solved else 4)


def _grade_untouched(context: Context, suite: TaskSuite, tasks: Sequence[Task]) -> tuple[list[str], list[str]]:
    """Ids of tasks that count as solved before any work, and of those without a verdict."""
    from rich.progress import track

    solved: list[str] = []
    broken: list[str] = []
    provider = suite.workspaces()
    try:
        for task in track(tasks, "judging", console=context.console, disable=not context.console.is_terminal):
            workspace = provider.create(task)
            verdict = suite.grade(task, workspace)
            workspace.dispose()
            if verdict.infrastructure_error:
                broken.append(task.id)
            elif verdict.success:
                solved.append(task.id)
    finally:
        provider.close()
    return solved, broken


def _totals(tasks: Sequence[Task]) -> list[str]:
    families = Counter(t.family for t in tasks)
    clusters = Counter(t.cluster for t in tasks)
    largest = max(clusters.values(), default=0)
    shares = ", ".join(f"{name or 'none'} {100 * n / len(tasks):.0f} %" for name, n in families.most_common())
    return [f"{len(tasks)} tasks; {shares}", f"{len(clusters)} clusters, the largest with {largest} tasks"]


def _open(
    context: Context, name: str, limit: int | None, options: Mapping[str, str] | None = None
) -> tuple[TaskSuite, str]:
    """A suite by ``name/split``; dev without a split."""
    base, _, split = name.partition("/")
    if split not in ("", "train", "dev", "test"):
        raise UsageError(f"suite {base!r} has no split {split!r}", "known: train, dev, test")
    from ..episode.workshop import make_suite

    return make_suite(context.plugins.catalog, base, limit, options=options), split or "dev"
