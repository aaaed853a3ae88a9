"""Report: turns a run's artifacts into something to read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable


@runtime_checkable
class Report(Protocol):
    """Reads run folders only, so that every number can be made again."""

    @property
    def name(self) -> str:
        """Name under which it is registered."""
        ...

    @property
    def suffix(self) -> str:
        """File suffix of its output, e.g. ``.md``; empty for plain text."""
        ...

    def render(self, runs: tuple[Path, ...]) -> str:
        """The report over one or more run folders. Same artifacts, same text. Raises ArtifactError."""
        ...


@dataclass(frozen=True, slots=True)
class Illustrated:
    """A report with its figures as files of their own."""

    text: str
    figures: Mapping[str, str] = field(default_factory=dict)
    """File name -> text: SVG drawings, and CSV files with the numbers in them."""


@runtime_checkable
class Illustrates(Protocol):
    """Optional ability of a report: figures."""

    def illustrate(self, runs: tuple[Path, ...]) -> Illustrated:
        """What ``render`` gives, with its figures. Same artifacts, same text. Raises ArtifactError."""
        ...
