"""``apex suite``: which tasks there are, what one looks like, and whether a suite keeps its contract here."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click

from ..errors import UnknownNameError, UsageError
from .context import Context
from .suite_check import check
from .suite_exchange import export, fetch, grade
from .suite_import import import_verdicts
from .suites import LIMIT, SUITE, candidates, open_suite, options_of, source_options, totals

_USUAL: Final = "mini/dev"


@click.group()
def suite() -> None:
    """Look at sets of tasks. The first look makes them and takes a while; progress is on stderr."""


@suite.command("list")
@SUITE
@LIMIT
@source_options
@click.pass_obj
def list_tasks(context: Context, /, suite: str, limit: int | None, **places: object) -> None:
    """List the tasks of a split: id, family and cluster, then the totals."""
    made, split = open_suite(context, suite, limit, options_of(places))
    tasks = candidates(context, suite, made, split)
    rows = [{"id": t.id, "family": t.family, "cluster": t.cluster, "tests": len(t.visible_tests)} for t in tasks]
    width = max((len(t.id) for t in tasks), default=0)
    lines = [f"{r['id']:<{width}}  {r['family']:<20}  {r['cluster']}" for r in rows]
    context.emit(rows, "\n".join([*lines, "", *totals(tasks)]))


@suite.command()
@click.argument("task")
@click.option("--suite", "name", metavar="SUITE[/SPLIT]", help=f"Where it is: {_USUAL}.")
@click.option("--files", is_flag=True, help="The text of every file, too.")
@LIMIT
@source_options
@click.pass_obj
def show(context: Context, /, task: str, name: str | None, files: bool, limit: int | None, **places: object) -> None:
    """Show one task as agents meet it: issue, visible tests, files."""
    name = name or _usual(context, task, places)
    made, split = open_suite(context, name, limit, options_of(places))
    found = {t.id: t for t in candidates(context, name, made, split)}
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
        **({"repo": one.repo, "base_commit": one.base_commit} if one.base_commit else {}),
    }
    parts = [f"{one.id}  ({one.family}, {one.cluster})", "", one.issue, "", "visible tests:"]
    parts += [f"  {t}" for t in one.visible_tests]
    if one.base_commit:
        parts += ["", f"repository: {one.repo or one.cluster} at {one.base_commit}"]
    parts += ["", "files:", *(f"  {p}  {len(text):,} characters" for p, text in one.files.items())]
    if files:
        parts += [part for p, text in one.files.items() for part in ("", f"--- {p}", text)]
    context.emit(value, "\n".join(parts))


def _usual(context: Context, task: str, places: Mapping[str, object]) -> str:
    """The suite where none is named. Raises UsageError where another one must be meant."""
    base, _, split = task.partition("/")
    if split in ("", "train", "dev", "test") and base in context.plugins.catalog.names("suite"):
        raise UsageError(f"{task} is a suite, and a task is shown", f"apex suite show TASK --suite {task}")
    if files := [option for option, value in places.items() if isinstance(value, Path)]:
        raise UsageError(f"--{files[0]} is for another suite than {_USUAL}", "apex suite show TASK --suite SUITE/SPLIT")
    return _USUAL


for _command in (check, export, fetch, grade, import_verdicts):
    suite.add_command(_command)
