"""Budgets as a person writes them, and what each scope is made with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..interfaces.budget import ceiling
from ..specified import budgets

_FIELDS = {
    "budget": "episode",
    "run_budget": "run",
    "day_budget": "day",
    "role_budgets": "roles",
    "approximator_bias_pct": "bias_pct",
}
"""Setting -> the field that it is here."""
SMALLEST_BUDGET = 200
"""Tokens below which no role's shortest prompt and answer can be paid."""
_MARGIN_PCT = 10.0
"""What an approximating tokenizer adds anyway."""


@dataclass(frozen=True, slots=True)
class BudgetSettings:
    """Ceilings in tokens; None means that nobody set one. ``store`` is the file that processes share.

    Raises ConfigError for a ceiling that is no integer >= 1 (of a role: >= 0).
    """

    episode: int = 10_000
    run: int | None = None
    """Of a run, over all its workers; it outlives interruption and resumption in the run's store."""
    day: int | None = None
    """Of a calendar day (UTC), over all runs of a ``group``."""
    roles: Mapping[str, int] = field(default_factory=dict)
    group: str = "default"
    run_store: Path | None = None
    """By convention ``budget.sqlite3`` in the run folder."""
    day_store: Path | None = None
    """None: ``budget.sqlite3`` in the user's state folder."""
    bias_pct: float | None = None
    """Margin, in percent, that an approximating tokenizer adds to its counts; None where nobody said."""
    ms: int | None = None
    """Milliseconds that an episode's calls may take together."""
    safety: float = 1.0
    """The guard's margin on the estimate of a prompt, from 1 to 100."""

    def __post_init__(self) -> None:
        ceiling(self.episode, "episode_tokens", least=1)
        for value, what in ((self.run, "run_budget"), (self.day, "day_budget")):
            if value is not None:
                ceiling(value, what, least=1)
        if self.ms is not None:
            ceiling(self.ms, "budget_ms", least=1)
        if type(self.safety) not in (int, float) or not 1 <= self.safety <= 100:
            raise ConfigError(f"budget_safety must be a number from 1 to 100, not {self.safety!r}")
        for role, tokens in self.roles.items():
            ceiling(tokens, f"budget of role {role!r}")

    @property
    def ordinary(self) -> bool:
        """Whether nothing is set but the episode's ceiling, which arms carry: then no job needs to know."""
        return self == BudgetSettings(self.episode)

    @property
    def margin(self) -> float:
        """What a guard is made with: a tokenizer's margin above the usual one is a margin for all prompts."""
        bias_pct = self.bias_pct or 0.0
        return max(self.safety, 1 + bias_pct / 100) if bias_pct > _MARGIN_PCT else self.safety

    def to_json(self) -> dict[str, Any]:
        """Plain values, for the settings that all jobs of a run share."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return values | {"roles": dict(self.roles)} | {k: str(v) for k, v in values.items() if isinstance(v, Path)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> BudgetSettings:
        """The inverse of ``to_json``. Raises ConfigError."""
        known = {f.name for f in fields(cls)}
        if strange := sorted(set(data) - known):
            raise ConfigError(f"unknown budget setting {strange[0]!r}", f"known: {', '.join(sorted(known))}")
        stores = {name: Path(data[name]) for name in ("run_store", "day_store") if data.get(name) is not None}
        return cls(**{**data, **stores})

    def options(self, scope: str) -> dict[str, Any]:
        """What ``catalog.make("budget_scope", scope, **options)`` is called with; nothing for a stranger's scope."""
        match scope:
            case "role":
                return {"ceilings": dict(self.roles)} if self.roles else {}
            case "episode":
                return _given(ms=self.ms)
            case "run":
                return _given(tokens=self.run, store=self.run_store)
            case "day":
                return _given(tokens=self.day, store=self.day_store, group=self.group)
        return {}

    def scopes(self, chosen: tuple[str, ...]) -> tuple[str, ...]:
        """Scopes in force: those chosen, and those whose ceiling somebody set."""
        wanted = {"run": self.run is not None, "day": self.day is not None, "role": bool(self.roles)}
        return chosen + tuple(name for name, set_ in wanted.items() if set_ and name not in chosen)


def from_file(data: object, place: str, defaults: BudgetSettings | None = None) -> BudgetSettings:
    """The specification's budgets.yaml, parsed: episode_tokens, daily_tokens, per_agent_tokens, tokenizer_pool.

    Keys that are absent keep the default; null is refused. Raises ConfigError that names ``place`` and the key.
    """
    found: dict[str, Any] = {_FIELDS[name]: value for name, (_, value) in budgets(data, lambda *_: place).items()}
    return replace(defaults or BudgetSettings(), **found)


def merged(settings: BudgetSettings, *, run: int | None = None, day: int | None = None) -> BudgetSettings:
    """With higher ceilings for the rest of a run. Raises ConfigError for one that was not there before, or is lower."""
    for what, before, now in (("run_budget", settings.run, run), ("day_budget", settings.day, day)):
        if now is not None and before is None:
            raise ConfigError(f"{what}: this run was begun without one", "start a new run with another --out")
        if now is not None and before is not None and now < before:
            raise ConfigError(
                f"{what} {now:,} is less than the {before:,} that this run has", "a ceiling is only raised"
            )
    return replace(settings, run=settings.run if run is None else run, day=settings.day if day is None else day)


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
