"""Looks of a registered sequential plan: each is taken once, written down before the run goes on, and stands."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from math import isclose
from pathlib import Path
from typing import Any

from ..analysis import ArmRole, RunData, arm_role, merge_runs, pair, read_run
from ..analysis.anytime import ON, Evidence, decision_at, evidence_at, sentence_at
from ..analysis.episodes import read_lines
from ..errors import ArtifactError
from ..ports import Files, SystemFiles
from .folder import LOOKS
from .lines import cut_torn_tail, to_line
from .manifest import DONE
from .planfile import PlanFile


@dataclass(frozen=True)
class TakenLook:
    """A look. Equal episodes give equal looks."""

    number: int
    tasks: int
    """Of the plan, in the order of looks."""
    decision: str
    """GO, KILL, EXTEND (the last look), or ON."""
    sentence: str
    comparisons: tuple[Evidence, ...]
    missing: tuple[str, ...]
    excluded: int
    """Episodes that the registered exclusions left out, infrastructure failures not among them."""
    runs: Mapping[str, str]
    """Run folders that it saw -> sha256 of their manifests."""

    @property
    def stops(self) -> bool:
        """Whether nothing is run after it."""
        return self.decision != ON


def take_look(plan: PlanFile, out: Path, order: Mapping[str, str], before: Sequence[TakenLook]) -> TakenLook:
    """The look after those ``before``, from the run folders up to it; ``order`` is task -> cluster of the whole plan.

    Raises ArtifactError, NotComparableError.
    """
    said, part = plan.prereg, plan.primary
    assert said is not None and part is not None
    number = len(before) + 1
    folders = [run.folder for run in plan.runs(part)[:number]]
    run = merge_runs([read_run(out / folder) for folder in folders])
    rows = [row for row in run.rows if not said.excludes(row.family, row.task_id)]
    earlier = {e.against: e for e in before[-1].comparisons} if before else {}
    comparisons = tuple(
        evidence_at(
            pair(rows, said.arm, name),
            order,
            said.looks[number - 1],
            alpha=said.alpha,
            claim=said.claim,
            unit=said.unit,
            before=earlier.get(name),
        )
        for name in said.against
    )
    roles = {arm_role(name, run.arms.get(name)) for name in said.against}
    needed = {ArmRole.STATIC: "a static topology", ArmRole.SINGLE: "the single agent"}
    lacking = {role: words for role, words in needed.items() if role not in roles}
    unnamed = [name for name in left_out(plan, run) if arm_role(name, run.arms.get(name)) not in lacking]
    missing = (*lacking.values(), *unnamed)
    lacks = (*lacking.values(), *(f"a comparison with {name}" for name in unnamed))
    decision = decision_at(comparisons, part.best_static, missing, last=number == len(said.looks), claim=said.claim)
    return TakenLook(
        number,
        said.looks[number - 1],
        decision,
        sentence_at(decision, comparisons, part.best_static, lacks, claim=said.claim),
        comparisons,
        missing,
        len(run.rows) - len(rows),
        {folder: hashlib.sha256((out / folder / DONE).read_bytes()).hexdigest() for folder in folders},
    )


def left_out(plan: PlanFile, run: RunData) -> list[str]:
    """Static topologies and single agents of the judged part that ``against`` does not name: without them nothing is BETTER."""
    said, part = plan.prereg, plan.primary
    assert said is not None and part is not None
    baselines = (ArmRole.STATIC, ArmRole.SINGLE)
    names = (name for name in part.arms if name != said.arm and name not in said.against)
    return [name for name in names if arm_role(name, run.arms.get(name)) in baselines]


def keep_look(out: Path, look: TakenLook, *, files: Files | None = None) -> TakenLook:
    """Make a look durable, once: the look as it is written, which is the one that was written first.

    Raises ArtifactError when the written one does not follow from the episodes that it names.
    """
    for written in read_looks(out):
        if written.number == look.number:
            if written.runs == look.runs and not _same(asdict(written), asdict(look)):
                raise ArtifactError(
                    f"{out / LOOKS}: look {look.number} does not follow from the episodes that it names",
                    "restore the file, or name a new --out",
                )
            return written
    cut_torn_tail(out / LOOKS)
    (files or SystemFiles()).append(out / LOOKS, to_line(asdict(look)), sync=True)
    return look


def read_looks(out: Path) -> list[TakenLook]:
    """The looks that were taken, in their order; a line that was torn while it was written is none. Raises ArtifactError."""
    path = out / LOOKS
    try:
        looks = [_read(row) for row in read_lines(path, missing_ok=True)]
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(f"{path} is damaged: {error}", "restore the file, or name a new --out") from error
    if [look.number for look in looks] != list(range(1, len(looks) + 1)):
        raise ArtifactError(f"{path}: looks are missing or there twice", "restore the file, or name a new --out")
    return looks


def changed_runs(out: Path) -> list[str]:
    """Run folders that are not what the looks saw, one phrase each. Raises ArtifactError."""
    found: dict[str, str] = {}
    for look in read_looks(out):
        for folder, manifest in look.runs.items():
            path = out / folder / DONE
            if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != manifest:
                found.setdefault(folder, f"{folder}: not the episodes that look {look.number} saw")
    return list(found.values())


def _read(row: Mapping[str, Any]) -> TakenLook:
    if row.keys() != {field.name for field in fields(TakenLook)} or row["decision"] not in (ON, "GO", "KILL", "EXTEND"):
        raise ValueError("a line is no look")
    comparisons = tuple(Evidence(**evidence) for evidence in row["comparisons"])
    return TakenLook(**{**row, "comparisons": comparisons, "missing": tuple(row["missing"])})


def _same(one: Any, other: Any) -> bool:
    """Equal, but for the last digits that another numpy may give."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return isclose(one, other, rel_tol=1e-6, abs_tol=1e-6)
    return bool(one == other)
