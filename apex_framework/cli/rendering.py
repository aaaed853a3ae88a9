"""What a report plugin makes of runs; its failure is its own."""

from __future__ import annotations

from pathlib import Path

from ..catalog import Catalog
from ..interfaces import Illustrated, Illustrates, Report


def render(catalog: Catalog, report: Report, name: str, runs: tuple[Path, ...]) -> str:
    """The text. Raises PluginError for a report that raises something of its own, or gives no text."""
    from ..experiment.foresight import answering

    with answering(catalog, "report", name, limit_s=0):
        return _text(report.render(runs))


def illustrate(catalog: Catalog, report: Illustrates, name: str, runs: tuple[Path, ...]) -> Illustrated:
    """The text with its figures. Raises PluginError as ``render`` does."""
    from ..experiment.foresight import answering

    with answering(catalog, "report", name, limit_s=0):
        made = report.illustrate(runs)
        for text in (made.text, *made.figures.values()):
            _text(text)
        return made


def _text(made: object) -> str:
    if not isinstance(made, str):
        raise TypeError(f"it made {type(made).__name__}, not text")
    return made
