"""What a command asks of a run folder before it reads it."""

from __future__ import annotations

from pathlib import Path

from ..experiment.manifest import DONE, verify_manifest
from .context import Context


def check_finished(context: Context, run: Path) -> None:
    """Raises ArtifactError when a finished run's files are not those of its manifest; says that a run is not finished."""
    if (run / DONE).exists():
        verify_manifest(run)
    elif (run / "episodes.jsonl").exists():
        context.say(f"{run} is not finished: no {DONE} vouches for its files")
