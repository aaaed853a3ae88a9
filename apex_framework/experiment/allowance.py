"""What a run may still spend of ceilings that its episodes share with each other and with other runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ..budget import BudgetSettings
from ..budget.settings import SMALLEST_BUDGET, merged
from ..catalog import Catalog
from ..episode.arm import Arm
from ..episode.budgeting import TOO_LITTLE, settings_of
from ..errors import ArtifactError, BudgetStoreError, GlobalBudgetSpentError
from ..interfaces import BudgetScope, CallTags, EpisodeJob, Refills, Room, TellsRoom
from .artifacts import RAISED, RunFolder, read_plan, read_run
from .foresight import answering
from .manifest import STORE
from .plan import Plan


@dataclass(frozen=True, slots=True)
class Spent:
    """A ceiling of which too little is left for a call."""

    scope: str
    left: int
    ceiling: int
    reopens: str = ""
    """When there is more by itself; empty: never."""

    def __str__(self) -> str:
        when = f"; it opens again at {self.reopens}" if self.reopens else ""
        return (
            f"the global budget is spent: {self.left:,} of {self.ceiling:,} tokens of the {self.scope} are left{when}"
        )

    @property
    def option(self) -> str:
        """The option that raises it; empty for a scope of somebody else's."""
        return f"--{self.scope}-budget N" if self.scope in ("run", "day") else ""


class Allowance:
    """The shared ceilings of some arms. Stores are asked at once, and for seconds at most.

    Without a ``run_store`` the ceiling of the run itself is left out: the run has not begun.
    """

    def __init__(self, catalog: Catalog, arms: Iterable[Arm], budgets: BudgetSettings, run_id: str = "") -> None:
        self.budgets = budgets
        self._tags = CallTags(run_id, "", "", "", 0)
        self._catalog = catalog
        self._scopes: dict[str, BudgetScope] = {}
        for name in dict.fromkeys(name for arm in arms for name in budgets.scopes(arm.scopes)):
            if name == "run" and budgets.run_store is None:
                continue
            with answering(catalog, "budget_scope", name):
                scope: BudgetScope = catalog.make("budget_scope", name, **budgets.options(name))
            if isinstance(scope, Refills):
                self._scopes[name] = scope

    def check(self) -> None:
        """Raises BudgetStoreError when a ceiling cannot be reached, and GlobalBudgetSpentError when one is spent."""
        for name, scope in self._scopes.items():
            if isinstance(scope, Refills):
                with answering(self._catalog, "budget_scope", name):
                    scope.check()
        if spent := self.spent():
            raise GlobalBudgetSpentError(str(spent), f"raise it: {spent.option}" if spent.option else "raise it")

    def spent(self) -> Spent | None:
        """The ceiling, if any, that pays for no further call. Raises BudgetStoreError."""
        for name, scope in self._scopes.items():
            if isinstance(scope, TellsRoom):
                room = scope.room(scope.key(self._tags))
                whole = scope.limits(self._tags).tokens or 0
                if room.tokens < SMALLEST_BUDGET:
                    return Spent(name, room.tokens, whole, room.reopens)
        return None

    def cut(self, denied_by: Mapping[str, str]) -> Spent:
        """Why an episode was cut short, scope -> reason. Raises BudgetStoreError when its ceiling could not be asked."""
        for name, reason in denied_by.items():
            if reason != TOO_LITTLE:
                self.check()
                word = reason.partition(":")[2] or reason
                raise BudgetStoreError(
                    f"the budget of the {name} could not be asked ({word})",
                    "see the log, then: apex resume",
                    reason=word,
                )
        name = next(iter(denied_by))
        scope = self._scopes.get(name)
        whole = scope.limits(self._tags).tokens or 0 if scope is not None else 0
        room = scope.room(scope.key(self._tags)) if isinstance(scope, TellsRoom) else Room(0)
        return Spent(name, room.tokens, whole, room.reopens)

    def equip(self, job: EpisodeJob) -> EpisodeJob:
        """The job as it is handed out: with ceilings as they are now, and the file of the run's own."""
        if self.budgets.ordinary:
            return job
        return replace(job, run={**job.run, "budgets": self.budgets.to_json()})


def budgets_of(path: Path, plan: Plan | None = None) -> BudgetSettings:
    """The ceilings of a run: as it was planned, and raised since. Raises ArtifactError, ConfigError."""
    budgets = settings_of((plan or read_plan(path)).settings)
    for entry in read_run(path).get(RAISED, ()):
        try:
            budgets = merged(budgets, run=entry.get("run"), day=entry.get("day"))
        except (AttributeError, TypeError) as error:
            raise ArtifactError(f"{path / 'run.json'}: {RAISED} is damaged", "start a new run") from error
    return budgets


def allowance_of(folder: RunFolder, catalog: Catalog) -> Allowance:
    """What an opened run may still spend."""
    budgets = budgets_of(folder.path, folder.plan)
    if budgets.run is not None:
        budgets = replace(budgets, run_store=(folder.path / STORE).absolute())
    return Allowance(catalog, folder.plan.arms, budgets, folder.plan.run_id)
