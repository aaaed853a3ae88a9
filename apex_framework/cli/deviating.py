"""What keeps an experiment's folder to its registered plan: no older results, and every deviation written down."""

from __future__ import annotations

import contextlib
import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ArtifactError, RunFolderError, StaleResultError
from ..experiment.folder import DEVIATIONS
from ..ports import SystemFiles
from .context import Context

if TYPE_CHECKING:
    from ..experiment.planfile import PlanFile
    from ..experiment.registration import Lock


def refuse_stale(plan: PlanFile, lock: Lock | None, out: Path) -> None:
    """Raises StaleResultError when a run of this folder was begun before the plan was registered, ArtifactError when it
    does not tell."""
    from ..experiment.artifacts import read_run

    if lock is None:
        return
    registered = datetime.datetime.fromisoformat(lock.registered)
    for part in plan.parts:
        for run in plan.runs(part):
            folder = out / run.folder
            if (folder / "run.json").exists():
                try:
                    created = datetime.datetime.fromisoformat(str(read_run(folder).get("created", "")))
                    older = created < registered
                except (ValueError, TypeError):  # no date, or one without a zone
                    raise ArtifactError(
                        f"{folder / 'run.json'} does not tell when the run was begun",
                        "restore the file, or name a new --out",
                    ) from None
                if older:
                    raise StaleResultError(
                        f"{folder} was begun on {created.isoformat()}, before {plan.path} was registered on {lock.registered}",
                        "name a new --out: results may not be older than their plan",
                    )


def note_deviations(out: Path, changed: list[str], why: str | None, lock: Lock | None, context: Context) -> None:
    """Say what is not as it was registered, other code and versions too, and write it down, once each."""
    from ..experiment.code import code_changes, code_digests
    from ..experiment.deviations import read_deviations
    from ..experiment.lines import cut_torn_tail
    from ..experiment.planning import versions

    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    found = [{"when": now, "what": what, "why": why} for what in changed]
    if lock is not None:
        here = versions(context.plugins)
        other = [n for n in sorted({*here, *lock.versions}) if here.get(n) != lock.versions.get(n)]
        found += [
            {"when": now, "what": f"version of {n}: {lock.versions.get(n)} -> {here.get(n)}", "why": ""} for n in other
        ]
        if lock.code and (others := code_changes(lock.code, code_digests())):
            found.append({"when": now, "what": f"other code than registered: {others}", "why": ""})
    cut_torn_tail(out / DEVIATIONS)
    known = {row["what"] for row in read_deviations(out)}
    for row in found:
        context.say(f"deviation: {row['what']}")
        if row["what"] not in known:
            SystemFiles().append(out / DEVIATIONS, json.dumps(row, ensure_ascii=False).encode() + b"\n", sync=True)


@contextlib.contextmanager
def writing(out: Path) -> Iterator[None]:
    """A disk that fails is one line. Raises RunFolderError."""
    try:
        yield
    except OSError as error:
        raise RunFolderError(f"cannot write to {out}: {error.strerror}", "choose another --out") from error
