"""The cache: a suite's tasks as one compressed file per digest and split in the user's cache folder."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from apex_framework.ports import SystemFiles

from .making import Draft, LeftOut

FORMAT = 1


def load(file: Path) -> tuple[list[Draft], list[LeftOut]] | None:
    """What was stored; None when it is missing or damaged."""
    try:
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            head, *rows = [json.loads(line) for line in lines]
        if head != {"format": FORMAT, "rows": len(rows)}:
            return None
        drafts = [_draft(row["task"]) for row in rows if "task" in row]
        return drafts, [LeftOut(**row["left_out"]) for row in rows if "left_out" in row]
    except (OSError, EOFError, ValueError, KeyError, TypeError):
        return None


def store(file: Path, drafts: Sequence[Draft], left_out: Sequence[LeftOut]) -> None:
    """Write whole or not at all. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    rows = [*({"task": asdict(d)} for d in drafts), *({"left_out": asdict(o)} for o in left_out)]
    lines = [json.dumps(row) + "\n" for row in ({"format": FORMAT, "rows": len(rows)}, *rows)]
    SystemFiles().replace(file, gzip.compress("".join(lines).encode()))


def _draft(row: dict[str, object]) -> Draft:
    for name in ("visible_ids", "hidden_ids"):
        row[name] = tuple(row[name])  # type: ignore[arg-type]  # a list in JSON
    row["extra"] = tuple((path, text) for path, text in row["extra"])  # type: ignore[attr-defined]  # pairs in JSON
    return Draft(**row)  # type: ignore[arg-type]  # checked by the file's own header
