"""The cache: one compressed JSON-lines file per split and digest in the user's cache folder."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .generation import Draft
from .sources import Repository

FORMAT = 1


def cache_folder() -> Path:
    """``$APEX_CACHE``, or the system's place for caches."""
    if os.environ.get("APEX_CACHE"):
        return Path(os.environ["APEX_CACHE"]) / "mini"
    import platformdirs

    return Path(platformdirs.user_cache_dir("apex-framework")) / "mini"


def cache_file(folder: Path, split: str, digest: str, count: int) -> Path:
    """Where the first ``count`` tasks of a split are."""
    return folder / f"{split}-{digest[:16]}-{count}.jsonl.gz"


Stored = tuple[dict[str, dict[str, Any]], list[Draft]]
"""Repositories by source name (``files``, ``block``), and tasks."""


def load(folder: Path, split: str, digest: str, count: int) -> Stored | None:
    """The stored tasks, at least ``count``; None when they are missing or damaged."""
    names = sorted(folder.glob(f"{split}-{digest[:16]}-*.jsonl.gz"))
    sizes = sorted(int(n.name.split("-")[-1].partition(".")[0]) for n in names)
    for size in (s for s in sizes if s >= count):
        try:
            with gzip.open(cache_file(folder, split, digest, size), "rt", encoding="utf-8") as file:
                rows = [json.loads(line) for line in file]
            head, *rest = rows
            sources = {r["source"]: r for r in rest if r["kind"] == "source"}
            drafts = [draft(r["task"]) for r in rest if r["kind"] == "task"]
        except (OSError, EOFError, ValueError, KeyError, TypeError):
            continue
        if head == header(digest, len(drafts)) and len(drafts) >= count:
            return sources, drafts[:count]
    return None


def draft(row: dict[str, Any]) -> Draft:
    """A draft from its JSON form."""
    row["edits"] = tuple((p, a, b, t) for p, a, b, t in row["edits"])
    row["visible_ids"], row["hidden_ids"] = tuple(row["visible_ids"]), tuple(row["hidden_ids"])
    return Draft(**row)


def header(digest: str, count: int) -> dict[str, Any]:
    """First line of the file."""
    return {"kind": "mini", "format": FORMAT, "digest": digest, "tasks": count}


def sources_of(repositories: Sequence[Repository], drafts: Sequence[Draft]) -> dict[str, dict[str, Any]]:
    """What tasks need of their repositories."""
    needed = {d.source for d in drafts}
    return {
        r.source.name: {
            "kind": "source",
            "source": r.source.name,
            "files": dict(r.files),
            "block": list(r.block),
        }
        for r in repositories
        if r.source.name in needed
    }


def store(folder: Path, split: str, digest: str, sources: dict[str, dict[str, Any]], drafts: Sequence[Draft]) -> None:
    """Write whole or not at all. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    target = cache_file(folder, split, digest, len(drafts))
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    rows = [header(digest, len(drafts)), *sources.values(), *({"kind": "task", "task": asdict(d)} for d in drafts)]
    try:
        with gzip.open(temporary, "wt", encoding="utf-8", compresslevel=6) as file:
            for row in rows:
                file.write(json.dumps(row) + "\n")
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
