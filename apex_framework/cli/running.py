"""Carrying out a plan for a command: folder, progress, interruption, result."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import logging
import shlex
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..episode.confining import Confining, confining_of
from ..errors import ApexError, BudgetTooSmallError, ExecutorError, RunFolderError
from ..experiment.allowance import allowance_of
from ..experiment.artifacts import RunFolder
from ..experiment.code import code_digests, note_code
from ..experiment.identities import identify
from ..experiment.lock import require_free
from ..experiment.manifest import DONE, REPORTS
from ..experiment.plan import Plan
from ..experiment.resume import RUNS, reopen_same
from ..experiment.run import Runner, RunOutcome
from ..ports import SystemFiles
from .again import command_again, differing
from .judged import result_command, write_again
from .rendering import render
from .trying import tried

if TYPE_CHECKING:
    from ..config import Settings
    from ..events import Event
    from .context import Context

PAGE = Path(REPORTS, "report.html")
"""In a run folder, beside the other forms of the same report."""
SECONDS_PER_EPISODE = 0.5
"""Assumed of one worker where no earlier run tells."""


def open_folder(context: Context, plan: Plan, settings: Settings, out: Path | None) -> RunFolder:
    """A new run folder, or the unfinished one at ``out``. Raises RunFolderError, PlanChangedError."""
    if out is not None and (out / "run.json").exists() and not (out / DONE).exists():
        return reopen_same(out, context.plugins, plan)
    if out is None:
        stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
        out = RUNS / f"{stamp}-{plan.digest[:6]}"
    config = settings.model_dump(mode="json", exclude={"out", *settings.unsaid})
    models = identify(plan.arms, context.plugins.catalog)
    sandbox = _confining(context, plan).to_json()
    command = shlex.join(["apex", *sys.argv[1:]])
    said = {"again": command_again(settings, sys.argv[1:], f"{out}/config.toml"), "settings": differing(settings)}
    return RunFolder.create(
        out, plan, command=command, config=config, models=models, sandbox=sandbox, code=code_digests(), said=said
    )


def check_out(out: Path | None) -> None:
    """Refuse an ``--out`` that holds something else, before tasks are made for it. Raises RunFolderError."""
    if out is not None and not (out / "run.json").exists():
        require_free(out)


def say_confining(context: Context, plan: Plan) -> None:
    """One line on stderr when others' code runs in a sandbox that does not hold it. Raises SandboxError for one that lies."""
    confining = _confining(context, plan)
    if confining.weaker and "sandbox_demand" in plan.settings:
        context.say(f"warning: {confining.demand.reason} runs without a sandbox that holds it: {confining}")


def _confining(context: Context, plan: Plan) -> Confining:
    catalog = context.plugins.catalog
    return tried(confining_of(plan.settings, catalog), catalog)


def execute(context: Context, folder: RunFolder, workers: int, executor: str = "") -> RunOutcome:
    """Run what is left of a folder's plan with progress on stderr. Without an ``executor``, on that it was begun with.

    Raises BudgetTooSmallError and ExecutorError; then a new run without an episode is gone.
    """
    from ..episode.episode import run_episode
    from .exporting import Exporting
    from .progress import progress_on

    plugins = context.plugins
    say_confining(context, folder.plan)
    if folder.lost:
        key, what = next(iter(folder.lost.items()))
        context.say(
            f"warning: {folder.path}: {len(folder.lost)} finished episodes are run again, for what they left is not all "
            f"there; the first, {'/'.join(map(str, key))}: {what}"
        )
    shared = folder.plan.settings
    exporting = None
    try:
        if not folder.new and (what := note_code(folder)):
            context.say(f"deviation: {folder.path}: {what}")
        name = executor or executor_of(folder)
        place = plugins.catalog.make("executor", name)
        allowance = allowance_of(folder, plugins.catalog)
        allowance.check()
        exporting = Exporting(folder, shared.get("hist_buckets"))
        for exporter in shared.get("exporters", ()):
            exporting.add(plugins.catalog.make("exporter", exporter))
        exporting.open()
    except BaseException:
        if exporting is not None:
            exporting.discard()
        if folder.new:
            folder.discard()
        else:
            folder.close()
        raise

    def interrupted() -> None:
        context.say("finishing the episodes in flight (30 s at most); Ctrl-C again stops at once")

    with folder, progress_on(context.console, folder, workers) as progress, contextlib.ExitStack() as at_end:
        at_end.callback(exporting.close)

        def notify(event: Event) -> None:
            progress.take(event)
            plugins.notify(event)
            exporting.emit(event)

        runner = Runner(
            folder,
            place,
            run_episode,
            workers=workers,
            notify=notify,
            on_interrupt=interrupted,
            on_result=exporting.result,
            allowance=allowance,
            owner=str(plugins.catalog.entry("executor", name).owner),
        )
        try:
            if isinstance(place, contextlib.AbstractContextManager):
                at_end.enter_context(place)  # what it needs is looked for before the first episode
            return runner.run()
        except BudgetTooSmallError:
            if folder.new:
                exporting.discard()
                folder.discard()
            raise
        except ExecutorError:
            if folder.records:
                context.say(f"{len(folder.records)} of {folder.plan.size} episodes are safe: apex resume {folder.path}")
            elif folder.new:
                exporting.discard()
                folder.discard()
            raise


def executor_of(folder: RunFolder) -> str:
    """The executor that a run was begun with. It is no part of the plan: the episodes are the same on any."""
    try:
        config = tomllib.loads((folder.path / "config.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        config = {}
    return str(folder.plan.settings.get("executor") or config.get("executor") or "local")


def carry_out(context: Context, folder: RunFolder, workers: int, executor: str = "", *, page: bool = True) -> int:
    """Run, report (with ``page`` also as HTML), and return the exit status."""
    outcome = execute(context, folder, workers, executor)
    path = folder.path
    if not outcome.complete:
        spent = outcome.spent
        why = "interrupted" if spent is None else f"stopped: {spent}"
        cut = f", {outcome.cut} were cut short and will be run again" if outcome.cut else ""
        raising = f" {spent.option}" if spent is not None else ""
        context.say(
            f"{why}: {outcome.finished} of {outcome.planned} episodes are safe{cut}\n  apex resume {path}{raising}"
        )
        if context.json:
            told: dict[str, object] = {"run": str(path), "finished": outcome.finished, "planned": outcome.planned}
            context.emit(told if spent is None else {**told, "spent": dataclasses.asdict(spent)})
        return outcome.exit_status
    left = write_again(context, folder, page=page)  # it stands at the top of the reports
    tell(context, path, page=page)
    warn_of_failures(context, folder, outcome)
    if left:
        context.say(left)
    return outcome.exit_status


def warn_of_failures(context: Context, folder: RunFolder, outcome: RunOutcome) -> None:
    """Which episodes failed for infrastructure, and the command that runs them again; and calls that failed in others."""
    failed = calls = 0
    reason = ""
    for record in folder.lines():
        if record["status"] == "infrastructure":
            reason = reason or str(record["reason"])
            continue
        failed, calls = failed + record.get("failed_calls", 0), calls + record.get("calls", 0)
    if failed:
        context.say(f"note: {failed} of {calls} model calls had no answer, in episodes that count (failed_calls)")
    if outcome.infrastructure:
        looked_at = "look" in folder.plan.settings
        then = f"\n  then: {result_command(folder, seen=True)}: a look has seen these episodes" if looked_at else ""
        context.say(
            f"warning: {outcome.infrastructure} of {outcome.planned} episodes could not be run; the first: {reason}\n"
            f"  apex resume {folder.path} --retry-failed{then}"
        )


def tell(context: Context, path: Path, *, page: bool = True) -> None:
    """The result on stdout, and the readable reports in the folder."""
    text = write_reports(context, path, page=page)
    shown = path / PAGE if page and (path / PAGE).exists() else None
    told = {**summary(path), "page": shown and str(shown)} if context.json else {}
    where = f"run folder: {path}" + (f"\nreport: {shown}" if shown else "")
    context.emit(told, f"{text.rstrip()}\n\n{where}".lstrip())


def write_reports(context: Context, path: Path, *, page: bool = True) -> str:
    """Put the readable reports into the folder, each whole; returns the first of them. Raises RunFolderError.

    They are no part of the manifest: what they say is made from the files that it vouches for, and can be made again.
    """
    catalog = context.plugins.catalog
    text = ""
    try:
        (path / PAGE).parent.mkdir(exist_ok=True)
        for name in ("table", "markdown", *(("html",) if page else ())):
            if name in catalog.names("report"):
                report = catalog.make("report", name)
                try:
                    rendered = render(catalog, report, name, (path,))
                except ApexError as error:
                    if name != "html":
                        raise
                    context.say(f"note: no HTML report: {error.cause}")  # a finished run is told all the same
                    continue
                target = (path / PAGE).with_name(f"report{report.suffix or '.txt'}")
                SystemFiles().replace(target, rendered.encode("utf-8", "backslashreplace"))
                text = text or rendered
    except OSError as error:
        raise RunFolderError(
            f"cannot write to {path}: {error.strerror}", f"free space, then: apex report {path}"
        ) from error
    return text


def summary(path: Path) -> dict[str, object]:
    """The result as one object: arms, lifts and verdicts, every number made from the folder's files."""
    from ..analysis import answer_runs

    found = answer_runs([path])
    return {
        "run": str(path),
        "suite": f"{found.run.suite}/{found.run.split}",
        "suite_digest": found.run.suite_digest,
        "level": found.run.level,
        "exploratory": found.exploratory,
        "arms": [dataclasses.asdict(arm) for arm in found.arms],
        "lifts": [dataclasses.asdict(lift) for lift in found.lifts],
        "verdicts": [dataclasses.asdict(verdict) for verdict in found.verdicts],
        "verdict": found.verdicts[0].word if found.verdicts else None,
        "next_command": found.next_command,
    }


def show_plan(context: Context, plan: Plan, workers: int) -> None:
    """What would be run: size, tokens, time, and the smallest lift that it could detect."""
    from ..analysis.power import plan_power

    power = plan_power(len(plan.tasks))
    seconds, source = seconds_per_episode(plan.suite, plan.arms[0].backends)
    expected = plan.size * seconds / max(1, workers)
    lift = (
        "more than this many tasks can show"
        if power.detectable_lift is None
        else f"{100 * power.detectable_lift:.0f} pp"
    )
    values = {
        "suite": f"{plan.suite}/{plan.split}",
        "arms": [arm.name for arm in plan.arms],
        "tasks": len(plan.tasks),
        "seeds": len(plan.seeds),
        "episodes": plan.size,
        "tokens_at_most": plan.token_bound,
        "expected_seconds": round(expected, 1),
        "expected_from": source,
        "detectable_lift": power.detectable_lift,
        "assumed_discordance": power.discordance,
        "level": plan.level,
        "digest": plan.digest,
    }
    lines = [
        f"{plan.suite}/{plan.split}, evidence level {plan.level}, plan {plan.digest[:12]}",
        f"arms      {len(plan.arms)}: {', '.join(arm.name for arm in plan.arms)}",
        f"episodes  {plan.size:,} = {len(plan.arms)} arms x {len(plan.tasks)} tasks x {len(plan.seeds)} seeds",
        f"tokens    at most {plan.token_bound:,}",
        f"time      about {expected:.0f} s with {workers} workers ({source})",
        f"lift      detectable with 80 % power: {lift} ({100 * power.discordance:.0f} % discordant tasks assumed)",
    ]
    context.emit(values, "\n".join(lines))


def seconds_per_episode(suite: str, backends: Mapping[str, str], root: Path = RUNS) -> tuple[float, str]:
    """Mean wall time per episode of the latest finished run of the same suite and solver, or the assumption."""
    from ..analysis.episodes import read_lines
    from ..errors import ArtifactError
    from ..experiment.artifacts import read_plan

    finished = [
        done.parent for form in ("*/DONE", "*/*/DONE") for done in root.glob(form)
    ]  # runs, and experiments' runs
    for path in sorted(finished, key=lambda p: (p / "DONE").stat().st_mtime, reverse=True)[:5]:
        try:
            earlier = read_plan(path)
            times = [float(row["wall_ms"]) / 1000 for row in read_lines(path / "episodes.jsonl") if "wall_ms" in row]
        except (ArtifactError, ValueError) as error:
            logging.getLogger(__name__).debug("%s tells no times: %s", path, error)
            continue
        if earlier.suite == suite and earlier.arms[0].backends == backends and times:
            return sum(times) / len(times), f"as in {path}"
    return SECONDS_PER_EPISODE, "assumed"
