"""One broken report per check of the kit: each fails exactly that one."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

from ...errors import ArtifactError
from ...interfaces import Report


class Sound:
    """A report with nothing wrong: the number of episodes."""

    name = "sound"
    suffix = ".txt"

    def render(self, runs: tuple[Path, ...]) -> str:
        """Counts lines."""
        try:
            lines = [len((run / "episodes.jsonl").read_text().splitlines()) for run in runs]
        except OSError as error:
            raise ArtifactError(str(error)) from error
        return f"{sum(lines)} episodes"


class Nameless(Sound):
    """Has an empty name."""

    name = ""


class BareSuffix(Sound):
    """Leaves the point out."""

    suffix = "txt"


class SaysNothing(Sound):
    """Renders blanks."""

    def render(self, runs: tuple[Path, ...]) -> str:
        """No text."""
        super().render(runs)
        return "\n"


class SignsEachCopy(Sound):
    """Puts a new id on every copy."""

    def render(self, runs: tuple[Path, ...]) -> str:
        """With an id."""
        return f"{super().render(runs)} (copy {secrets.token_hex(8)})"


class KeepsACache(Sound):
    """Writes into the run folder."""

    def render(self, runs: tuple[Path, ...]) -> str:
        """And leaves a file."""
        text = super().render(runs)
        for run in runs:
            (run / "report.cache").write_text(secrets.token_hex(8))
        return text


class EmptyForMissing(Sound):
    """Takes a missing folder for an empty run."""

    def render(self, runs: tuple[Path, ...]) -> str:
        """Zero episodes."""
        try:
            return super().render(runs)
        except ArtifactError:
            return "0 episodes"


BROKEN: dict[str, Callable[[], Report]] = {
    "has_a_name": Nameless,
    "suffix_is_a_suffix": BareSuffix,
    "renders_text": SaysNothing,
    "same_run_same_text": SignsEachCopy,
    "leaves_runs_alone": KeepsACache,
    "missing_run_is_an_artifact_error": EmptyForMissing,
}
"""Check -> a report that fails it."""
