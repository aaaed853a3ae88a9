"""Whether an experiment's result is still what its run folders say: ``experiment.json`` is no part of any manifest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..analysis.episodes import read_episodes
from ..errors import ArtifactError, NotComparableError
from .artifacts import read_run
from .code import GONE_ON, code_changes, code_digests
from .judgement import Decision, decide_plan
from .manifest import DONE
from .result import looks_of, planned_in, told_deviations

_COMPARED = ("word", "sentence", "registered", "excluded", "hypothesis", "rule")


def wrong_result(path: Path) -> Iterator[str]:
    """One sentence per thing that the result in ``path`` says otherwise than the runs beside it."""
    out = path.parent
    try:
        data = json.loads(path.read_bytes())
        names = [name for row in data["runs"] for name in (row.get("runs") or (row["folder"],))]
        if gone := [name for name in names if not (out / name / DONE).exists()]:
            yield from (f"{out / name} is missing or not finished: {path} tells of it" for name in gone)
            return
        told, made = data["decision"] or {}, _decided(data, out)
        for key in _COMPARED:
            is_now = None if made is None else getattr(made, key)
            if told.get(key) != is_now:
                said = f"{path}: the decision's {key} is {told.get(key)!r}"
                if other := _other_build(data, [out / name for name in names]):
                    yield (
                        f"{said}, this build makes {is_now!r} of its runs: another build computed it ({other}); "
                        "compare with that build before it is made again"
                    )
                else:
                    yield f"{said}, its runs say {is_now!r}"
        yield from _deviated(path, data)
    except ArtifactError as error:
        yield error.cause
    except (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration, NotComparableError) as error:
        yield f"{path} is damaged: {error}"


def _other_build(data: Mapping[str, Any], runs: list[Path]) -> str:
    """What differs between the code of this build and that which computed the result, or ran its runs if that is not on file.

    Whoever edits the result can edit this too: it explains a difference and excuses none.
    """
    if told := data.get("code"):
        return code_changes(told, code_digests())
    for run in runs:
        found = read_run(run)
        before = ([found, *found.get(GONE_ON, ())])[-1].get("code")
        if before and (changed := code_changes(before, code_digests())):
            return changed
    return ""


def _decided(data: Mapping[str, Any], out: Path) -> Decision | None:
    plan = planned_in(data, out)
    looks = looks_of(data, out) if plan.prereg and plan.prereg.sequential else []
    return decide_plan(plan, out, looks, registered=data["lock"] is not None)


def _deviated(path: Path, data: Mapping[str, Any]) -> Iterator[str]:
    """What the result and its runs say differently of deviations, and of episodes that could not be run."""
    failed: dict[tuple[str, str], int] = {}
    folders = {str(row["folder"]): row.get("runs") or (row["folder"],) for row in data["runs"]}
    for row in data["runs"]:
        run = str(row["folder"])
        rows = [episode for name in folders[run] for episode in read_episodes(path.parent / name)]
        for arm in row["arms"]:
            count = sum(not episode.judged for episode in rows if episode.arm == arm["arm"])
            failed[run, str(arm["arm"])] = count
            if arm["infrastructure"] != count:
                yield (
                    f"{path}: of {arm['arm']} in {run} {arm['infrastructure']} episodes could not be run, its runs say {count}"
                )
    names = [name for names in folders.values() for name in names]
    said = [str(row["what"]) for row in data["deviations"]]
    made = [str(row["what"]) for row in told_deviations(path.parent, names, failed)]
    yield from (f"{path} does not tell of a deviation: {what}" for what in made if what not in said)
    yield from (f"{path} tells of a deviation that is not on file: {what}" for what in said if what not in made)
