"""What a check found, kept in the user's cache by all that decides it: the row, the environment, the evaluator."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from apex_framework.ports import SystemFiles

from ..cache_folder import cache_folder
from .rows import Instance

if TYPE_CHECKING:
    from .containers import Container
    from .environments import Environment

_FORM: Final = 1


@dataclass(frozen=True, slots=True)
class Record:
    """The gold patch passes and the empty one fails, or ``why`` not. ``left_out``: PASS_TO_PASS that fail on gold here."""

    behaves: bool
    why: str
    left_out: tuple[str, ...]
    seconds: float


class Checks:
    """Small files below a folder; a damaged one counts as none."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or cache_folder("swebench")

    def find(self, key: str) -> Record | None:
        """What was found before."""
        try:
            row = json.loads((self._folder / f"{key}.json").read_text(encoding="utf-8"))
            return Record(
                bool(row["behaves"]), str(row["why"]), tuple(map(str, row["left_out"])), float(row["seconds"])
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, key: str, record: Record) -> None:
        """Whole or not at all. Raises OSError."""
        self._folder.mkdir(parents=True, exist_ok=True)
        SystemFiles().replace(self._folder / f"{key}.json", json.dumps(asdict(record)).encode())


def key_of(instance: Instance, environment: Environment | Container) -> str:
    """A hash of all that decides a verdict on an instance, the evaluator and its version included."""
    parts = [_FORM, instance.to_row(), environment.digest_parts]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:40]
