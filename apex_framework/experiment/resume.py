"""Which run to go on with, and whether it still is the same run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ..budget.settings import merged
from ..errors import RunFolderError, UsageError
from ..plugins import Plugins
from .allowance import budgets_of
from .artifacts import RunFolder, read_plan, read_run
from .identities import identify, require_same_models
from .manifest import DONE
from .plan import Plan, places_of
from .planning import replan

RUNS = Path("runs")
"""Where run folders are made unless --out says otherwise."""


def latest_unfinished(root: Path = RUNS) -> Path:
    """The unfinished run that was begun last. Raises RunFolderError when there is none."""
    found = [path.parent for path in root.glob("*/run.json") if not (path.parent / DONE).exists()]
    if not found:
        raise RunFolderError(f"no unfinished run in {root}", "name one: apex resume RUN")
    return max(found, key=lambda path: (str(read_run(path).get("created", "")), path.name))


def reopen_same(
    path: Path,
    plugins: Plugins,
    asked: Plan | None = None,
    *,
    retry_failed: bool = False,
    run_budget: int | None = None,
    day_budget: int | None = None,
    places: Mapping[str, str] | None = None,
) -> RunFolder:
    """Open an unfinished run to go on with it; with ``retry_failed`` also episodes that failed for infrastructure.

    ``run_budget`` and ``day_budget`` raise its ceilings from now on; the plan stays what it was. ``places`` say where files
    of its suite lie now (``data``, ``repos``). Raises UsageError for one that is not where the plan says;
    PlanChangedError when ``asked`` (a command given again), the suite, the policies, the versions or the models differ
    from what the run was begun with; ConfigError for ceilings that it has not, or that would be lower; RunFolderError,
    ArtifactError, BudgetStoreError, GlobalBudgetSpentError.
    """
    written = read_plan(path)
    budgets = merged(budgets_of(path, written), run=run_budget, day=day_budget)
    if asked is None:
        _require_places(path, {**places_of(written.settings), **(places or {})})
        asked = replan(written, plugins, budgets, places)
    written.require_same(asked)
    require_same_models(read_run(path).get("models"), lambda: identify(written.arms, plugins.catalog))
    folder = RunFolder.reopen(path, retry_failed=retry_failed)
    folder.plan = replace(folder.plan, places=places_of(asked.settings))
    if raised := {name: n for name, n in (("run", run_budget), ("day", day_budget)) if n is not None}:
        try:
            folder.note_raised(**raised)
        except BaseException:
            folder.close()
            raise
    return folder


def _require_places(path: Path, places: Mapping[str, str]) -> None:
    """Raises UsageError for a file of the suite that is not there: it was moved, or this is another machine."""
    for name, value in places.items():
        if Path(value).is_absolute() and not Path(value).exists():
            raise UsageError(
                f"{path}: its suite's {name}, {value}, is not there", f"apex resume {path} --{name} where it is now"
            )
