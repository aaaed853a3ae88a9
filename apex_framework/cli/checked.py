"""What a command asks of a run folder before it reads it."""

from __future__ import annotations

import json
from pathlib import Path

from ..errors import ArtifactError
from ..experiment.manifest import DONE, verify_manifest
from .context import Context


def check_finished(context: Context, run: Path) -> None:
    """Says that a run is not finished, or that all is there but its manifest. Raises ArtifactError when a finished one's
    files are not those of its manifest, or when there is no episode yet."""
    if (run / DONE).exists():
        verify_manifest(run)
    elif (run / "episodes.jsonl").exists():
        missing = _missing(run)
        what = f"is not finished: {missing:,} episodes are missing; no" if missing else "has no"
        context.say(f"{run} {what} {DONE}, so nothing vouches for its files")
    elif (run / "run.json").exists():
        raise ArtifactError(
            f"{run} has no episode yet: there is no episodes.jsonl", f"apex resume {run} goes on with it"
        )


def _missing(run: Path) -> int:
    """Episodes that are planned and not there; none where the files do not tell: who reads them says what is wrong."""
    try:
        plan = json.loads((run / "run.json").read_bytes())["plan"]
        with (run / "episodes.jsonl").open("rb") as file:
            there = sum(line.endswith(b"\n") for line in file)
        return max(0, len(plan["arms"]) * len(plan["tasks"]) * len(plan["seeds"]) - there)
    except (OSError, ValueError, KeyError, TypeError):
        return 0
