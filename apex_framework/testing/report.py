"""Conformance kit of reports."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ..errors import ArtifactError
from ..interfaces import Report
from .conformance import run_checks

KIND: Final = "report"

Make = Callable[[], Report]


def check_report(make: Make, run: Path) -> None:
    """Run every check on fresh reports over one finished ``run`` folder. Raises ConformanceError."""
    run_checks(
        KIND,
        {
            "has_a_name": lambda: check_has_a_name(make),
            "suffix_is_a_suffix": lambda: check_suffix_is_a_suffix(make),
            "renders_text": lambda: check_renders_text(make, run),
            "same_run_same_text": lambda: check_same_run_same_text(make, run),
            "leaves_runs_alone": lambda: check_leaves_runs_alone(make, run),
            "missing_run_is_an_artifact_error": lambda: check_missing_run_is_an_artifact_error(make, run),
        },
    )


def check_has_a_name(make: Make) -> None:
    """It says what it is."""
    name = make().name
    assert isinstance(name, str) and name, f"name is {name!r}"


def check_suffix_is_a_suffix(make: Make) -> None:
    """Its output's suffix is empty or begins with a point."""
    suffix = make().suffix
    assert suffix == "" or (suffix.startswith(".") and len(suffix) > 1 and "/" not in suffix), f"suffix is {suffix!r}"


def check_renders_text(make: Make, run: Path) -> None:
    """It makes some text of a finished run."""
    text = make().render((run,))
    assert isinstance(text, str) and text.strip(), f"the report is {str(text)[:40]!r}"


def check_same_run_same_text(make: Make, run: Path) -> None:
    """The same artifacts give the same text: no clock, no chance."""
    assert make().render((run,)) == make().render((run,)), "two renderings differ"


def check_leaves_runs_alone(make: Make, run: Path) -> None:
    """Reading changes nothing in the run folder."""
    before = _contents(run)
    make().render((run,))
    after = _contents(run)
    changed = sorted(set(before.items()) ^ set(after.items()))
    assert not changed, f"changed {changed[0][0]}"


def check_missing_run_is_an_artifact_error(make: Make, run: Path) -> None:
    """A folder that is no run is told as ArtifactError."""
    nowhere = run / "no" / "such" / "run"
    try:
        make().render((nowhere,))
    except ArtifactError:
        return
    raise AssertionError("a missing run folder was reported on")


def _contents(folder: Path) -> dict[str, str]:
    files = (p for p in sorted(folder.rglob("*")) if p.is_file())
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}
