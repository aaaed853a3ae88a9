"""Which run to go on with, and whether it still is the same run."""

from __future__ import annotations

from pathlib import Path

from ..errors import RunFolderError
from ..plugins import Plugins
from .artifacts import RunFolder, read_plan, read_run
from .manifest import DONE
from .plan import Plan
from .planning import replan

RUNS = Path("runs")
"""Where run folders are made unless --out says otherwise."""


def latest_unfinished(root: Path = RUNS) -> Path:
    """The unfinished run that was begun last. Raises RunFolderError when there is none."""
    found = [path.parent for path in root.glob("*/run.json") if not (path.parent / DONE).exists()]
    if not found:
        raise RunFolderError(f"no unfinished run in {root}", "name one: apex resume RUN")
    return max(found, key=lambda path: (str(read_run(path).get("created", "")), path.name))


def reopen_same(path: Path, plugins: Plugins, asked: Plan | None = None, *, retry_failed: bool = False) -> RunFolder:
    """Open an unfinished run to go on with it; with ``retry_failed`` also episodes that failed for infrastructure.

    Raises PlanChangedError when ``asked`` (a command given again), the suite, the policies or the versions differ
    from what the run was begun with; RunFolderError, ArtifactError.
    """
    written = read_plan(path)
    written.require_same(replan(written, plugins) if asked is None else asked)
    return RunFolder.reopen(path, retry_failed=retry_failed)
