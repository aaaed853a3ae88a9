"""``apex report``: finished runs as something to read, every number made again from their files."""

from __future__ import annotations

from pathlib import Path

import click

from ..catalog import Catalog
from ..errors import ArtifactError, RunFolderError, UsageError
from ..experiment.manifest import REPORTS
from ..interfaces import Illustrated, Illustrates, Report
from ..ports import SystemFiles
from .checked import check_finished
from .context import Context
from .rendering import illustrate, render
from .whole import write_whole


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=Path))
@click.option(
    "--report",
    "--format",
    "name",
    default="table",
    show_default=True,
    metavar="NAME",
    help="Form: table, markdown, html.",
)
@click.option("--best-static", metavar="ARM", help="The static topology that was best on dev.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="A file instead of the terminal.")
@click.option(
    "--figures", type=click.Path(path_type=Path, file_okay=False), help="A folder for every figure as SVG and CSV."
)
@click.pass_obj
def report(
    context: Context,
    runs: tuple[Path, ...],
    name: str,
    best_static: str | None,
    out: Path | None,
    figures: Path | None,
) -> None:
    """Verdict, tables and limits of one or more run folders, in a form that a plugin brings.

    Several runs are read as one, which is refused when their suite digests differ. So is a finished run whose files are
    not those of its manifest, or whose experiment's result does not follow from them. Nothing is written before all of it
    is made.
    """
    for run in runs:
        check_finished(context, run)
        _check_result(run.absolute().parent)
    for target, option in ((out, "--out"), (figures, "--figures")):
        _check_place(target, option, runs)
    options = {} if best_static is None else {"best_static": best_static}
    catalog = context.plugins.catalog
    made = _made(catalog, catalog.make("report", name, **options), name, runs, figures is not None)
    if figures is not None:
        _write_figures(figures, made)
    if out is not None:
        write_whole(out, made.text)
    value = {
        "report": name,
        "runs": [str(run) for run in runs],
        "out": out and str(out),
        "figures": [str(figures / file) for file in sorted(made.figures)] if figures is not None else [],
        **(_found(runs, best_static or "") if context.json else {}),
        **({"text": made.text} if out is None else {}),
    }
    context.emit(value, made.text.rstrip() if out is None else f"{out}: report {name!r} of {len(runs)} run(s)")


def _found(runs: tuple[Path, ...], best_static: str) -> dict[str, object]:
    """The verdict as a program reads it: word, decision, and the lift over the best static topology, else the smallest."""
    from ..analysis import answer_runs, read_run
    from ..analysis.rungs import apart_by_budget

    read, _ = apart_by_budget([read_run(run) for run in runs])
    answer = answer_runs([run.path for run in read], best_static=best_static)
    if not answer.verdicts:
        return {"verdict": None, "decision": None, "arm": None, "against": None, "lift": None, "interval": None}
    verdict = answer.verdicts[0]
    lifts = [lift for lift in verdict.lifts if lift.against == verdict.best_static] or list(verdict.lifts)
    least = min(lifts, key=lambda lift: lift.estimate, default=None)
    return {
        "verdict": str(verdict.word),
        "decision": verdict.decision,
        "arm": verdict.arm,
        "against": least and least.against,
        "lift": least and least.estimate,
        "interval": least and [least.interval.low, least.interval.high],
    }


def _made(catalog: Catalog, maker: Report, name: str, runs: tuple[Path, ...], figures: bool) -> Illustrated:
    """The report, with its figures if they are wanted. Raises UsageError when it draws none, PluginError."""
    if not figures:
        return Illustrated(render(catalog, maker, name, runs))
    if not isinstance(maker, Illustrates):
        raise UsageError(f"report {maker.name!r} draws no figures", "--format html does")
    return illustrate(catalog, maker, name, runs)


def _check_result(out: Path) -> None:
    """Raises ArtifactError when the result of an experiment is not what its runs say: it would stand at the top."""
    from ..experiment.folder import RESULT
    from ..experiment.told import wrong_result

    for wrong in wrong_result(out / RESULT) if (out / RESULT).exists() else ():
        raise ArtifactError(
            wrong, f"apex verify {out} looks at all of it; the experiment's command makes {RESULT} again from its runs"
        )


def _check_place(target: Path | None, option: str, runs: tuple[Path, ...]) -> None:
    """Raises UsageError for a place inside of a run folder: what a manifest vouches for must stay as it is."""
    for run in runs if target is not None else ():
        assert target is not None
        home, place = run.resolve(), target.resolve()
        if home == place or (home in place.parents and place.relative_to(home).parts[0] != REPORTS):
            raise UsageError(
                f"{option} {target} is part of the run {run}", f"choose another place, or {run / REPORTS}/…"
            )


def _write_figures(folder: Path, made: Illustrated) -> None:
    """All files, each whole. Raises RunFolderError when something else is in the folder, or it cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        strange = sorted(path.name for path in folder.iterdir() if path.name not in made.figures)
        if strange:
            raise RunFolderError(
                f"{folder} holds files that are no figures of this report, such as {strange[0]}",
                "choose another --figures",
            )
        for name, text in made.figures.items():
            SystemFiles().replace(folder / name, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise RunFolderError(f"cannot write {folder}: {error.strerror}", "choose another --figures") from error
