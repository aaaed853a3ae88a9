"""The cache: a suite's tasks as one compressed file per digest and split in the user's cache folder."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from .making import Draft, LeftOut

FORMAT = 1


def cache_folder() -> Path:
    """``$APEX_CACHE``, or the system's place for caches."""
    if os.environ.get("APEX_CACHE"):
        return Path(os.environ["APEX_CACHE"]) / "suites"
    import platformdirs

    return Path(platformdirs.user_cache_dir("apex-framework")) / "suites"


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
    temporary = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    rows = [*({"task": asdict(d)} for d in drafts), *({"left_out": asdict(o)} for o in left_out)]
    try:
        with gzip.open(temporary, "wt", encoding="utf-8") as out:
            for row in ({"format": FORMAT, "rows": len(rows)}, *rows):
                out.write(json.dumps(row) + "\n")
        os.replace(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)


def _draft(row: dict[str, object]) -> Draft:
    for name in ("visible_ids", "hidden_ids"):
        row[name] = tuple(row[name])  # type: ignore[arg-type]  # a list in JSON
    row["extra"] = tuple((path, text) for path, text in row["extra"])  # type: ignore[attr-defined]  # pairs in JSON
    return Draft(**row)  # type: ignore[arg-type]  # checked by the file's own header
