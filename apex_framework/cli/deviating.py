"""What keeps an experiment's folder to its registered plan: no older results, and every deviation written down."""

from __future__ import annotations

import contextlib
import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import RunFolderError, StaleResultError
from ..ports import SystemFiles
from .context import Context

if TYPE_CHECKING:
    from ..experiment.planfile import PlanFile
    from ..experiment.registration import Lock

DEVIATIONS = "deviations.jsonl"
"""File of an experiment's folder."""


def refuse_stale(plan: PlanFile, lock: Lock | None, out: Path) -> None:
    """Raises StaleResultError when a run of this folder was begun before the plan was registered."""
    from ..experiment.artifacts import read_run

    if lock is None:
        return
    registered = datetime.datetime.fromisoformat(lock.registered)
    for part in plan.parts:
        for run in plan.runs(part):
            folder = out / run.folder
            if (folder / "run.json").exists():
                created = datetime.datetime.fromisoformat(str(read_run(folder).get("created", "")))
                if created < registered:
                    raise StaleResultError(
                        f"{folder} was begun on {created.isoformat()}, before {plan.path} was registered on {lock.registered}",
                        "name a new --out: results may not be older than their plan",
                    )


def note_deviations(out: Path, changed: list[str], why: str | None, lock: Lock | None, context: Context) -> None:
    """Write down, once each, what is not as it was registered, and versions that are others."""
    from ..experiment.planning import versions

    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    found = [{"when": now, "what": what, "why": why} for what in changed]
    if lock is not None:
        here = versions(context.plugins)
        other = [n for n in sorted({*here, *lock.versions}) if here.get(n) != lock.versions.get(n)]
        found += [
            {"when": now, "what": f"version of {n}: {lock.versions.get(n)} -> {here.get(n)}", "why": ""} for n in other
        ]
    known = {row["what"] for row in read_deviations(out)}
    for row in found:
        if row["what"] not in known:
            context.say(f"deviation: {row['what']}")
            SystemFiles().append(out / DEVIATIONS, json.dumps(row, ensure_ascii=False).encode() + b"\n", sync=True)


def read_deviations(out: Path) -> list[dict[str, Any]]:
    """What was written down. Raises ArtifactError."""
    from ..experiment.lines import cut_torn_tail, read_rows

    cut_torn_tail(out / DEVIATIONS)
    return read_rows(out / DEVIATIONS)


@contextlib.contextmanager
def writing(out: Path) -> Iterator[None]:
    """A disk that fails is one line. Raises RunFolderError."""
    try:
        yield
    except OSError as error:
        raise RunFolderError(f"cannot write to {out}: {error.strerror}", "choose another --out") from error
