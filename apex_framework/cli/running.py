"""Carrying out a plan for a command: folder, progress, interruption, result."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import logging
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..episode.confining import confining_of
from ..errors import BudgetTooSmallError
from ..experiment.allowance import allowance_of
from ..experiment.artifacts import RunFolder
from ..experiment.identities import identify
from ..experiment.lock import require_free
from ..experiment.manifest import DONE
from ..experiment.plan import Plan
from ..experiment.resume import RUNS, reopen_same
from ..experiment.run import Runner, RunOutcome

if TYPE_CHECKING:
    from ..config import Settings
    from ..events import Event
    from .context import Context

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
    sandbox = confining_of(plan.settings, context.plugins.catalog).to_json()
    command = shlex.join(["apex", *sys.argv[1:]])
    return RunFolder.create(out, plan, command=command, config=config, models=models, sandbox=sandbox)


def check_out(out: Path | None) -> None:
    """Refuse an ``--out`` that holds something else, before tasks are made for it. Raises RunFolderError."""
    if out is not None and not (out / "run.json").exists():
        require_free(out)


def say_confining(context: Context, plan: Plan) -> None:
    """One line on stderr when others' code runs in a sandbox that does not hold it."""
    if "sandbox_demand" not in plan.settings:
        return
    confining = confining_of(plan.settings, context.plugins.catalog)
    if confining.weaker:
        context.say(f"warning: {confining.demand.reason} runs without a sandbox that holds it: {confining}")


def execute(context: Context, folder: RunFolder, workers: int) -> RunOutcome:
    """Run what is left of a folder's plan with progress on stderr. Raises BudgetTooSmallError; then a new run is gone."""
    from ..episode.episode import run_episode
    from .exporting import Exporting
    from .progress import progress_on

    plugins = context.plugins
    say_confining(context, folder.plan)
    shared = folder.plan.settings
    executor = plugins.catalog.make("executor", str(shared.get("executor", "local")))
    exporting = None
    try:
        allowance = allowance_of(folder, plugins.catalog)
        allowance.check()
        exporting = Exporting(folder, shared.get("hist_buckets"))
        for name in shared.get("exporters", ()):
            exporting.add(plugins.catalog.make("exporter", name))
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
            executor,
            run_episode,
            workers=workers,
            notify=notify,
            on_interrupt=interrupted,
            on_result=exporting.result,
            allowance=allowance,
        )
        try:
            return runner.run()
        except BudgetTooSmallError:
            if folder.new:
                folder.discard()
            raise


def carry_out(context: Context, folder: RunFolder, workers: int) -> int:
    """Run, report, and return the exit status."""
    outcome = execute(context, folder, workers)
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
    tell(context, path)
    warn_of_failures(context, folder, outcome)
    return outcome.exit_status


def warn_of_failures(context: Context, folder: RunFolder, outcome: RunOutcome) -> None:
    """Which episodes failed for infrastructure, and the command that runs them again; and calls that failed in others."""
    results = [record for record in folder.records.values() if record["status"] != "infrastructure"]
    if failed := sum(record.get("failed_calls", 0) for record in results):
        calls = sum(record.get("calls", 0) for record in results)
        context.say(f"note: {failed} of {calls} model calls had no answer, in episodes that count (failed_calls)")
    if outcome.infrastructure:
        reason = next(r["reason"] for r in folder.records.values() if r["status"] == "infrastructure")
        context.say(
            f"warning: {outcome.infrastructure} of {outcome.planned} episodes could not be run; the first: {reason}\n"
            f"  apex resume {folder.path} --retry-failed"
        )


def tell(context: Context, path: Path) -> None:
    """The result on stdout, and the readable reports in the folder."""
    text = write_reports(context, path)
    context.emit(summary(path) if context.json else {}, f"{text.rstrip()}\n\nrun folder: {path}".lstrip())


def write_reports(context: Context, path: Path) -> str:
    """Put the readable reports into the folder; returns the first of them."""
    catalog = context.plugins.catalog
    text = ""
    (path / "report").mkdir(exist_ok=True)
    for name in ("table", "markdown"):
        if name in catalog.names("report"):
            report = catalog.make("report", name)
            rendered = report.render((path,))
            (path / "report" / f"report{report.suffix or '.txt'}").write_text(rendered, encoding="utf-8")
            text = text or rendered
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
