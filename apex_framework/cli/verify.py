"""``apex verify``: are the files of finished runs what they were when the runs ended?"""

from __future__ import annotations

from collections.abc import Container, Iterator
from pathlib import Path

import click

from ..errors import ArtifactError
from .context import Context

CHANGED = 5
"""Exit status when something is not what it was."""
_SHOWN = 20


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=Path))
@click.pass_obj
def verify(context: Context, /, runs: tuple[Path, ...]) -> int:
    """Check run folders, or an experiment's folder, against their manifests; exit status 5 when something was changed.

    A changed line is named as file:line. The plan must have the digest that it was written with, metrics that a run
    tells of itself must follow from its lines, and the decision of an experiment from its runs. A manifest finds
    accidents and edits; whoever can write the folder can write a new manifest too, so keep the digest that is printed.
    Deviations from the plan are listed; they are no damage.
    """
    from ..experiment.folder import LOOKS, RESULT
    from ..experiment.manifest import DONE
    from ..experiment.told import wrong_result

    checked = [(folder, folder / DONE, list(_wrong(folder))) for run in runs for folder in _runs(run)]
    checked += [(run / LOOKS, run / LOOKS, list(_wrong_looks(run))) for run in runs if (run / LOOKS).exists()]
    if not any(found for _, _, found in checked):  # else a result would only tell of the same damage again
        results = ((run / RESULT, list(wrong_result(run / RESULT))) for run in runs if (run / RESULT).exists())
        checked += [(path, path, found) for path, found in results if found]
    rows, damaged = [], 0
    for path, told_by, found in checked:
        damaged += bool(found)
        rows.append({"run": str(path), "manifest": _digest(told_by), "intact": not found, "damages": found})
        for damage in found[:_SHOWN]:
            context.say(damage)
        if len(found) > _SHOWN:
            context.say(f"… and {len(found) - _SHOWN} more in {path}")
    lines = [
        f"{'intact ' if row['intact'] else 'CHANGED'}  {row['run']}  manifest {str(row['manifest'])[:16]}"
        for row in rows
    ]
    wrong = {path for path, _, found in checked if found}
    told = list(dict.fromkeys(found for run in runs for found in _deviations(run, wrong)))
    lines += [f"deviation  {what}" for what in told]
    context.emit({"intact": not damaged, "runs": rows, "deviations": told}, "\n".join(lines))
    return CHANGED if damaged else 0


def _runs(path: Path) -> list[Path]:
    """The folder itself, or the run folders in it. Raises ArtifactError when there are none."""
    if any((path / name).exists() for name in ("run.json", "DONE", "episodes.jsonl")):
        return [path]
    found = sorted({child.parent for name in ("run.json", "DONE") for child in path.glob(f"*/{name}")})
    if not found:
        raise ArtifactError(f"{path} is no run folder and holds none", "name a folder that apex run made")
    return found


def _deviations(path: Path, damaged: Container[Path]) -> Iterator[str]:
    """What was done otherwise than planned: by an experiment, and by its runs, or by one run. Raises ArtifactError."""
    from ..experiment.deviations import deviations_of, read_deviations

    home = path.absolute().parent if (path / "run.json").exists() else path
    rows = read_deviations(home)
    for folder in _runs(path):
        try:
            rows += deviations_of(folder) if (folder / "run.json").exists() else []
        except ArtifactError:
            if folder not in damaged:  # else it is told already
                raise
    for row in rows:
        yield f"{row.get('what')}{': ' + str(row['why']) if row.get('why') else ''}"


def _wrong(folder: Path) -> Iterator[str]:
    """One sentence per thing that is not what it was. Raises ArtifactError for a run without a manifest."""
    from ..analysis.recompute import differences
    from ..experiment.artifacts import read_plan
    from ..experiment.layout import METRICS
    from ..experiment.manifest import damages, strangers

    found = [str(damage) for damage in damages(folder)]
    yield from found
    yield from (f"{folder / name} came after the run: the manifest does not name it" for name in strangers(folder))
    if found:
        return  # the rest would only tell of the same damage again
    try:
        read_plan(folder)
        if (folder / METRICS).exists():
            yield from (f"{folder}/{difference}" for difference in differences(folder))
    except ArtifactError as error:
        yield error.cause


def _wrong_looks(out: Path) -> Iterator[str]:
    """What is wrong with the looks of an experiment: a damaged file, or episodes that are not those that a look saw."""
    from ..experiment.looks import changed_runs

    try:
        yield from (f"{out}/{changed}" for changed in changed_runs(out))
    except ArtifactError as error:
        yield error.cause


def _digest(path: Path) -> str:
    import hashlib

    return hashlib.sha256(path.read_bytes()).hexdigest()
