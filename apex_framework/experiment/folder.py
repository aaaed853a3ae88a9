"""The folder that holds an experiment's runs: its files beside them, and whose it is, so that two never share one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ArtifactError, PlanChangedError, RunFolderError
from ..ports import SystemFiles

if TYPE_CHECKING:
    from .planfile import PlanFile

RESULT = "experiment.json"
"""What came out, made again whenever the runs are complete."""
BEGUN = "begun.json"
"""Name and digest of the plan that the folder was begun with, from before its first episode on."""
DEVIATIONS = "deviations.jsonl"
"""One line per way in which the runs left the registered plan."""
LOOKS = "looks.jsonl"
"""One line per look of a sequential plan that was taken."""


def other_plan(plan: PlanFile, out: Path) -> str:
    """How the plan that this folder is of differs from this one; empty where it does not, or there is none.

    Raises PlanChangedError for another experiment's, ArtifactError for what tells of none, RunFolderError.
    """
    if (out / "run.json").exists():
        raise RunFolderError(f"{out} is a run folder", "choose another --out for the experiment")
    said = [(path, found) for path in (out / RESULT, out / BEGUN) if (found := _said(path)) is not None]
    for path, (name, digest) in said:
        _require_name(plan, out, name)
        if digest != plan.digest:
            return f"{path} is of a plan with digest {digest[:12]}, not {plan.digest[:12]}"
    return "" if said else _runs_of_others(plan, out)


def begin(plan: PlanFile, out: Path) -> None:
    """Say whose the folder is. Raises OSError."""
    data = json.dumps({"plan": {"name": plan.name}, "digest": plan.digest}).encode() + b"\n"
    path = out / BEGUN
    if not path.exists() or path.read_bytes() != data:
        SystemFiles().replace(path, data)


def _said(path: Path) -> tuple[str, str] | None:
    try:
        data = json.loads(path.read_bytes())
        return str(data["plan"]["name"]), str(data["digest"])
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise RunFolderError(f"cannot read {path}: {error.strerror}", "choose another --out") from error
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ArtifactError(
            f"{path} is damaged, or no result of an experiment", "choose another --out, or take the file away"
        ) from None


def _runs_of_others(plan: PlanFile, out: Path) -> str:
    """The same of a folder in which nothing but its runs says whose it is: builds before ``BEGUN`` left such ones."""
    from .artifacts import read_plan

    ours = {run.folder for part in plan.parts for run in plan.runs(part)}
    strange = ""
    for path in sorted(found.parent for found in out.glob("*/run.json")):
        experiment = read_plan(path).settings.get("experiment")
        if isinstance(experiment, dict):
            _require_name(plan, out, str(experiment.get("name")))
            if path.name not in ours:
                strange = strange or f"{path} is no run of this plan"
    return strange


def _require_name(plan: PlanFile, out: Path, name: str) -> None:
    if name != plan.name:
        raise PlanChangedError(f"{out} holds experiment {name!r}, not {plan.name!r}", "choose another --out")
