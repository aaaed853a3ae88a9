"""What a command asks of a run folder before it reads it."""

from __future__ import annotations

from pathlib import Path

from ..errors import ArtifactError
from ..experiment.manifest import DONE, verify_manifest
from .context import Context


def check_finished(context: Context, run: Path) -> None:
    """Says that a run is not finished. Raises ArtifactError when a finished one's files are not those of its manifest, or
    when there is no episode yet."""
    if (run / DONE).exists():
        verify_manifest(run)
    elif (run / "episodes.jsonl").exists():
        context.say(f"{run} is not finished: no {DONE} vouches for its files")
    elif (run / "run.json").exists():
        raise ArtifactError(
            f"{run} has no episode yet: there is no episodes.jsonl", f"apex resume {run} goes on with it"
        )
