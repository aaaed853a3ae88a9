"""``apex suite export``, ``fetch`` and ``grade``: tasks and patches in the SWE-bench format, out and in."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError
from ..interfaces import Fetches, GradesPatches, SpeaksSweBench, Verdict
from ..ports import derive_seed
from .context import Context
from .predictions import IMPORTED, imported_verdicts, read_predictions
from .suites import LIMIT, SUITE, candidates, confined_suite, open_suite, options_of, sandbox_options, source_options
from .whole import write_whole

if TYPE_CHECKING:
    from ..interfaces import Task, TaskSuite

_OUT = click.option("--out", type=click.Path(path_type=Path), required=True, metavar="F.jsonl", help="File to write.")


@click.command()
@SUITE
@LIMIT
@source_options
@_OUT
@click.option("--in-turns", is_flag=True, help="Clusters take turns, in an order that names alone decide.")
@click.pass_obj
def export(context: Context, /, suite: str, limit: int | None, out: Path, in_turns: bool, **places: object) -> None:
    """Write the tasks of a split in the SWE-bench format, a line each. The file holds solutions: keep it from agents."""
    made, split = open_suite(context, suite, None if in_turns else limit, options_of(places))
    tasks = candidates(context, suite, made, split)
    if in_turns:
        tasks = _in_turns(tasks)[:limit]
    rows = [_row(made, task) for task in tasks]
    write_whole(out, _lines(rows))
    bare = sum(not json.loads(row["FAIL_TO_PASS"]) for row in rows)
    value = {"suite": suite, "tasks": len(rows), "out": str(out), "without_fail_to_pass": bare}
    told = f"{suite}: {len(rows)} tasks written to {out}"
    if bare:
        told += f"\n{bare} name no tests that decide (FAIL_TO_PASS): only {made.name} itself can judge these"
    context.emit(value, told)


@click.command()
@SUITE
@source_options
@click.option("--dry-run", is_flag=True, help="Only say what is to be downloaded, and where to.")
@click.pass_obj
def fetch(context: Context, /, suite: str, dry_run: bool, **places: object) -> None:
    """Download what a suite reads: its data into the folder --data, bare clones of the repositories they name into --repos.

    What is there is not downloaded again. Interrupted, the same command goes on. Where a suite cannot do that itself, what
    to download is told.
    """
    made, _ = open_suite(context, suite, None, options_of(places))
    if isinstance(made, Fetches) and not dry_run:
        paths = list(made.fetch(context.say))
        context.emit({"suite": suite, "fetched": paths}, "\n".join(paths) or "everything is there")
        return
    sources = list(made.sources()) if isinstance(made, SpeaksSweBench) else []
    context.emit(
        {"suite": suite, "sources": sources}, "\n".join(sources) or f"{made.name} needs no download that it knows of"
    )


@click.command()
@SUITE
@source_options
@sandbox_options
@click.option(
    "--predictions", type=click.Path(path_type=Path), required=True, help="Patches, as the official harness takes them."
)
@click.option("--out", type=click.Path(path_type=Path), metavar="F.jsonl", help="Also write the verdicts, a line each.")
@click.option(
    "--imported",
    type=click.Path(path_type=Path),
    metavar="REPORT.json",
    help="Run nothing: the official harness's report.",
)
@click.pass_obj
def grade(
    context: Context,
    /,
    suite: str,
    predictions: Path,
    out: Path | None,
    imported: Path | None,
    sandbox: str,
    allow_weaker_sandbox: bool,
    **places: object,
) -> None:
    """Judge patches against the tasks of a split. Exit status 4 when some could not be judged."""
    patches = read_predictions(predictions)
    if imported is not None:
        made, split = open_suite(context, suite, None, options_of(places))
        tasks = candidates(context, suite, made, split)
    else:
        made, split, tasks = confined_suite(
            context,
            suite,
            None,
            options_of(places),
            sandbox=sandbox,
            allow_weaker=allow_weaker_sandbox,
            patches="code of predictions",
        )
    known = {task.id: task for task in tasks}
    if unknown := [p for p in patches if p.instance_id not in known]:
        raise UsageError(
            f"{unknown[0].where}: {made.name}/{split} has no task {unknown[0].instance_id!r}", "another split?"
        )
    told = imported_verdicts(imported) if imported is not None else {}
    rows = []
    for number, one in enumerate(patches, 1):
        if imported is not None:
            verdict = told.get(one.instance_id) or Verdict(False, IMPORTED, infrastructure_error=f"not in {imported}")
        elif isinstance(made, GradesPatches):
            verdict = made.grade_patch(known[one.instance_id], one.patch)
        else:
            raise UsageError(f"{made.name} cannot judge patches", "name a suite that can")
        rows.append({"instance_id": one.instance_id, "model_name_or_path": one.model, **asdict(verdict)})
        if imported is None:
            context.say(f"{number}/{len(patches)} {one.instance_id}: {_word(verdict)}")
    if out is not None:
        write_whole(out, _lines(rows))
    judged = [row for row in rows if not row["infrastructure_error"]]
    value = {
        "suite": suite,
        "predictions": len(rows),
        "resolved": sum(row["success"] for row in judged),
        "judged": len(judged),
        "evaluators": dict(Counter(row["evaluator"] for row in rows)),
        "verdicts": rows,
    }
    lines = [f"{row['instance_id']}  {_word_of(row)}" for row in rows]
    lines.append(
        f"{value['resolved']} of {len(judged)} judged patches resolve their task; {len(rows) - len(judged)} not judged"
    )
    context.emit(value, "\n".join(lines))
    if len(judged) < len(rows):
        click.get_current_context().exit(4)


def _in_turns(tasks: Sequence[Task]) -> list[Task]:
    """A smaller sample is part of every larger one, and has each cluster equally often as long as it lasts."""
    turns: Counter[str] = Counter()
    placed: list[tuple[int, int, Task]] = []
    for task in sorted(tasks, key=lambda task: derive_seed("sample", task.id)):
        placed.append((turns[task.cluster], derive_seed("sample", task.cluster), task))
        turns[task.cluster] += 1
    return [task for _, _, task in sorted(placed, key=lambda place: place[:2])]


def _row(suite: TaskSuite, task: Task) -> Mapping[str, Any]:
    if isinstance(suite, SpeaksSweBench):
        return suite.swebench_row(task)
    return {
        "repo": task.repo or f"{task.suite}/{task.cluster}",
        "instance_id": task.id,
        "base_commit": task.base_commit,
        "patch": suite.gold(task) if isinstance(suite, GradesPatches) else "",
        "test_patch": "",
        "problem_statement": task.issue,
        "hints_text": "",
        "created_at": "",
        "version": "",
        "FAIL_TO_PASS": "[]",
        "PASS_TO_PASS": "[]",
        "environment_setup_commit": "",
        "split": task.split,
        "files": dict(task.files),
    }


def _lines(rows: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def _word(verdict: Verdict) -> str:
    return _word_of(asdict(verdict))


def _word_of(row: Mapping[str, Any]) -> str:
    if row["infrastructure_error"]:
        return f"not judged: {row['infrastructure_error']}"
    told = f" ({row['detail']})" if row["detail"] else ""
    return ("resolved" if row["success"] else "not resolved") + f" by {row['evaluator']}{told}"
