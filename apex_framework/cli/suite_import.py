"""``apex suite import``: verdicts that others reached, as a finished run that can be compared and reported."""

from __future__ import annotations

import hashlib
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ..errors import RunFolderError, UsageError
from .context import Context
from .verdicts import ImportedVerdict, check_grid, read_report, read_verdicts

if TYPE_CHECKING:
    from ..experiment.plan import Plan

IMPORTED: Final = "imported"
"""Controller, team and evaluator of arms that were not run here."""
_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("import")
@click.argument("verdicts", required=False, metavar="[VERDICTS.jsonl]", type=_FILE)
@click.option(
    "--report",
    "reports",
    multiple=True,
    metavar="ARM=REPORT.json",
    help="A report of the official harness, as verdicts of ARM; once per arm.",
)
@click.option(
    "--suite", default="imported/test", show_default=True, metavar="NAME/SPLIT", help="Where the tasks are from."
)
@click.option(
    "--level",
    type=click.Choice(("L1", "L2", "L3")),
    default="L3",
    show_default=True,
    help="What kind of evidence the verdicts are: of a simulator, of executed tasks and a rule-based solver, recorded.",
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Run folder to make.")
@click.pass_obj
def import_verdicts(
    context: Context, /, verdicts: Path | None, reports: tuple[str, ...], suite: str, level: str, out: Path
) -> None:
    """Make a finished run folder out of verdicts that others reached; nothing is run.

    A line of VERDICTS is {"arm", "task", "success"} and, where known, "seed", "cluster", "family", "tokens", "steps",
    "wall_ms", or "error" for an attempt that could not be judged. Every arm needs the same tasks and seeds. Level
    L3 is a choice among systems that ran elsewhere, not topologies that were switched; outcomes of a run of your own keep its
    level with --level. How many were resolved is told of those that were judged, and of all.
    """
    name, slash, split = suite.partition("/")
    if not (name and slash and split in ("train", "dev", "test")):
        raise UsageError(f"--suite {suite!r}: NAME/SPLIT is needed", "e.g. --suite swebench_lite/test")
    if verdicts is None and not reports:
        raise UsageError("there is nothing to import", "name a file of verdicts, or --report ARM=REPORT.json")
    sources: dict[str, str] = {}
    rows: list[ImportedVerdict] = []
    if verdicts is not None:
        rows += read_verdicts(verdicts)
        sources[verdicts.name] = _digest(verdicts)
    for text in reports:
        arm, equals, path = text.partition("=")
        if not (arm.strip() and equals and path):
            raise UsageError(f"--report {text!r}: ARM=REPORT.json is needed")
        rows += read_report(arm, Path(path))
        sources[f"{arm}={Path(path).name}"] = _digest(Path(path))
    plan = _plan(name, split, rows, sources, level)
    _write(out, plan, rows)
    unjudged = sum(bool(row.error) for row in rows)
    untold = sum(row.tokens is None for row in rows)
    resolved = {arm.name: _counts(row for row in rows if row.arm == arm.name) for arm in plan.arms}
    value = {
        "run": str(out),
        "arms": [arm.name for arm in plan.arms],
        "tasks": len(plan.tasks),
        "clusters": len({task.cluster for task in plan.tasks}),
        "seeds": list(plan.seeds),
        "episodes": len(rows),
        "not_judged": unjudged,
        "resolved": resolved,
        "tokens_unknown": untold,
        "level": plan.level,
        "digest": plan.digest,
    }
    if untold:
        context.say(
            f"note: {untold} of {len(rows)} verdicts tell no tokens: costs are compared where they are told only"
        )
    context.emit(
        value,
        f"{out}: {len(rows)} verdicts of {len(plan.arms)} arms on {len(plan.tasks)} tasks in {value['clusters']} clusters, "
        f"{unjudged} not judged; level {plan.level}\n" + "\n".join(_told(arm, n) for arm, n in resolved.items()),
    )


def _counts(rows: Iterable[ImportedVerdict]) -> dict[str, int]:
    found = list(rows)
    judged = [row for row in found if not row.error]
    return {"resolved": sum(row.success for row in judged), "judged": len(judged), "all": len(found)}


def _told(arm: str, counts: dict[str, int]) -> str:
    """With both denominators: rates that others publish are of all tasks."""
    resolved, judged, every = counts.values()
    rate = f", {100 * resolved / judged:.1f} %" if judged else ""
    told = f"  {arm}: {resolved} of {judged} judged resolved{rate}"
    return told if judged == every else f"{told}; {resolved} of all {every}, {100 * resolved / every:.1f} %"


def _plan(suite: str, split: str, rows: Sequence[ImportedVerdict], sources: dict[str, str], level: str) -> Plan:
    """Arms that stand for what ran elsewhere. Raises UsageError when they cannot be compared."""
    from .. import __version__
    from ..episode.arm import Arm
    from ..experiment.plan import Plan, PlannedTask, digest_of

    names, tasks, seeds = check_grid(rows)
    blank = Arm(
        "", IMPORTED, controller=IMPORTED, topologies=(), backends={}, scopes=(), tools=(), budget=0, candidates=0
    )
    planned = tuple(PlannedTask(task, one.cluster, one.family) for task, one in tasks.items())
    return Plan(
        suite=suite,
        split=split,
        suite_digest=digest_of([IMPORTED, suite, split, sorted([t.id, t.cluster, t.family] for t in planned)]),
        tasks=planned,
        arms=tuple(replace(blank, name=name) for name in names),
        seeds=tuple(seeds),
        seed=seeds[0],
        level=level,
        real_time=True,
        settings={IMPORTED: sources},
        versions={"apex-framework": __version__},
    )


def _write(out: Path, plan: Plan, rows: Sequence[ImportedVerdict]) -> None:
    """The whole folder, or none. Raises RunFolderError."""
    from ..experiment.artifacts import RunFolder
    from ..experiment.layout import EPISODES
    from ..experiment.lines import key_of, to_line
    from ..experiment.manifest import write_manifest
    from ..ports import SystemFiles

    if out.exists():
        raise RunFolderError(f"{out} is there already", "choose another --out")
    order = {key: index for index, key in enumerate(plan.keys())}
    records = [_record(row, plan.suite_digest) for row in sorted(rows, key=lambda r: order[r.arm, r.task, r.seed])]
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    except OSError as error:
        raise RunFolderError(f"cannot write to {out.parent}: {error.strerror}", "choose another --out") from error
    try:
        with RunFolder.create(part, plan, command=shlex.join(["apex", *sys.argv[1:]])) as folder:
            folder.replace(EPISODES, b"".join(map(to_line, records)))
            folder.records = {key_of(record): not record["reason"] for record in records}
            write_manifest(part, SystemFiles())
        part.chmod(0o755)
        part.rename(out)
    except OSError as error:
        raise RunFolderError(f"cannot write to {out}: {error.strerror}", "choose another --out") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _record(row: ImportedVerdict, digest: str) -> dict[str, Any]:
    record: dict[str, Any] = {
        "arm": row.arm,
        "task_id": row.task,
        "seed": row.seed,
        "success": row.success,
        "tokens": row.tokens,
        "steps": row.steps,
        "switches": 0,
        "denied": 0,
        "status": "infrastructure" if row.error else "finished",
        "reason": row.error,
        "cluster": row.cluster,
        "family": row.family,
        "suite_digest": digest,
        "evaluator": IMPORTED,
    }
    return record if row.wall_ms is None else {**record, "wall_ms": row.wall_ms}


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
