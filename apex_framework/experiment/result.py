"""``experiment.json``: what came out of an experiment, made from its runs, and again when one of them was gone on with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ArtifactError
from .artifacts import read_plan
from .code import code_digests
from .deviations import deviations_of, read_deviations
from .folder import BEGUN, LOOKS, RESULT
from .judgement import Decision, Rung, decide_plan, judge_looked_at, judge_rung, to_json
from .looks import TakenLook, changed_runs, read_looks
from .manifest import DONE
from .plan import digest_of
from .planfile import Part, PlanFile
from .prereg import PreRegistration


@dataclass(frozen=True)
class Result:
    """What came out."""

    rungs: tuple[Rung, ...]
    decision: Decision | None
    value: Mapping[str, Any]
    """What the file says."""

    @property
    def folders(self) -> list[str]:
        """Names of the run folders that it tells of."""
        return [name for rung in self.rungs for name in rung.runs or (rung.folder,)]


def make_result(
    plan: PlanFile, out: Path, *, registered: str | None, lock: str | None, said: Mapping[str, Any] | None = None
) -> Result:
    """From the finished runs of a plan that was ``registered`` then, with a ``lock`` of that digest.

    ``said`` is what the file says of the plan, where ``plan`` itself does not say all of it. Raises ArtifactError,
    NotComparableError.
    """
    looks = read_looks(out) if plan.prereg and plan.prereg.sequential else []
    rungs = tuple(
        rung
        for part in plan.parts
        for rung in (
            [judge_looked_at(plan, out, looks)]
            if plan.looked_at(part)
            else [judge_rung(part, out / run.folder, run.budget) for run in plan.runs(part)]
        )
    )
    decision = decide_plan(plan, out, looks, registered=lock is not None)
    counts = {(rung.folder, str(arm["arm"])): int(arm["infrastructure"]) for rung in rungs for arm in rung.arms}
    names = [name for rung in rungs for name in rung.runs or (rung.folder,)]
    value = {
        "code": code_digests(),
        "plan": plan.to_json() if said is None else said,
        "digest": plan.digest if said is None else digest_of(said),
        "registered": registered,
        "lock": lock,
        "runs": [to_json(rung) for rung in rungs],
        "decision": to_json(decision) if decision else None,
        "deviations": told_deviations(out, names, counts),
    }
    return Result(rungs, decision, value)


def told_deviations(out: Path, runs: Sequence[str], failed: Mapping[tuple[str, str], int]) -> list[dict[str, Any]]:
    """What is told as otherwise than planned; ``failed`` are (folder, arm) -> episodes that could not be run.

    Raises ArtifactError.
    """
    return [
        *read_deviations(out),
        *(row for name in runs for row in deviations_of(out / name)),
        *(
            {"what": f"{run}, {arm}: {count} episodes could not be run"}
            for (run, arm), count in failed.items()
            if count
        ),
    ]


def make_again(run: Path) -> Result | None:
    """The result beside a run that was gone on with, from all the runs that it tells of.

    None where only the experiment's command can make it: there is none yet or it is damaged, it is of another plan than the
    folder, another of its runs is not finished, or a look has seen other episodes. Raises ArtifactError, NotComparableError.
    """
    out = run.absolute().parent
    try:
        data = json.loads((out / RESULT).read_bytes())
        plan = planned_in(data, out)
        begun = json.loads((out / BEGUN).read_bytes())["digest"] if (out / BEGUN).exists() else data["digest"]
        mine = read_plan(run).settings["experiment"]
        same = data["digest"] == digest_of(data["plan"]) == begun
        same = same and (mine["name"], mine["registered"] or None) == (plan.name, data["lock"])
        names = [name for row in data["runs"] for name in (row.get("runs") or (row["folder"],))]
        registered, lock = data["registered"], data["lock"]
        if plan.prereg and plan.prereg.sequential:
            looks_of(data, out)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration):
        return None
    if not same or run.name not in names or not all((out / name / DONE).exists() for name in names):
        return None
    if changed_runs(out):
        return None
    return make_result(plan, out, registered=registered, lock=lock, said=data["plan"])


def planned_in(data: Mapping[str, Any], out: Path) -> PlanFile:
    """The plan that a result tells of, as far as judging needs it."""
    said = data["plan"]
    prereg = PreRegistration(**_plain(said["prereg"])) if said["prereg"] else None
    return PlanFile(out, said["name"], tuple(Part(**_plain(part)) for part in said["parts"]), prereg=prereg)


def looks_of(data: Mapping[str, Any], out: Path) -> list[TakenLook]:
    """The looks of a sequential plan: at least one, and all that the result tells of. Raises ArtifactError."""
    looks = read_looks(out)
    needed = max(1, len((data["decision"] or {}).get("looks", ())))
    if len(looks) < needed:
        what = f"holds {len(looks)}" if (out / LOOKS).exists() else "is missing"
        raise ArtifactError(
            f"{out / LOOKS} {what}: {RESULT} tells of {needed} looks", "restore the file, or name a new --out"
        )
    return looks


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
