"""Sandbox: what confines the code of a task while its tests run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final, Protocol, runtime_checkable


class Level(IntEnum):
    """Strength of confinement, weakest first."""

    NONE = 0
    RLIMITS = 1
    LANDLOCK = 2
    NAMESPACES = 3


@dataclass(frozen=True, slots=True)
class Confinement:
    """What a process tree may use. Sizes in bytes, times in seconds."""

    root: Path
    memory: int = 2 * 1024**3
    cpu_s: float = 60.0
    processes: int = 256
    file_size: int = 64 * 1024**2
    network: bool = False
    writable: tuple[Path, ...] = ()
    """Folders besides ``root`` that may be written to."""
    readable: tuple[Path, ...] = ()
    """Folders besides ``root``, ``writable`` and what programs need (interpreters, libraries) that may be read."""
    open_files: int = 256


@dataclass(frozen=True, slots=True)
class SandboxStatus:
    """What a sandbox achieves on this machine; ``lacks`` names what it does not hold."""

    level: Level
    lacks: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    """Names of the probes (attempts to get out) that were stopped."""


WATCHER: Final = "apex-sandbox"
"""What a sandbox calls a process of its own that stays beside the confined ones: whoever asks whether they still do
something leaves it out (Linux: ``PR_SET_NAME``)."""


@runtime_checkable
class Sandbox(Protocol):
    """Confines processes."""

    @property
    def name(self) -> str:
        """Name under which it is registered."""
        ...

    def probe(self) -> SandboxStatus:
        """What it really achieves here, found by trying."""
        ...

    def wrap(self, argv: Sequence[str], limits: Confinement) -> list[str]:
        """The command to start instead of ``argv`` so that it runs confined."""
        ...

    def enter(self, limits: Confinement) -> None:
        """Confine the calling process; called in a fresh child before any task code. Raises OSError."""
        ...
