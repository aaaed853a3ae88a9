"""Whether an experiment's result is still what its run folders say: ``experiment.json`` is no part of any manifest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import ArtifactError, NotComparableError
from .artifacts import read_run
from .code import GONE_ON, code_changes, code_digests
from .folder import LOOKS, RESULT
from .judgement import Decision, decide_plan
from .looks import TakenLook, read_looks
from .manifest import DONE
from .planfile import Part, PlanFile
from .prereg import PreRegistration

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
    said = data["plan"]
    prereg = PreRegistration(**_plain(said["prereg"])) if said["prereg"] else None
    parts = tuple(Part(**_plain(part)) for part in said["parts"])
    plan = PlanFile(out, said["name"], parts, prereg=prereg)
    looks = _looks(data, out) if prereg and prereg.sequential else []
    return decide_plan(plan, out, looks, registered=data["lock"] is not None)


def _looks(data: Mapping[str, Any], out: Path) -> list[TakenLook]:
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
