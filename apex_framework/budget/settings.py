"""Budgets as a person writes them, and what each scope is made with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..interfaces.budget import ceiling


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

    def __post_init__(self) -> None:
        ceiling(self.episode, "episode_tokens", least=1)
        for value, what in ((self.run, "run_budget"), (self.day, "day_budget")):
            if value is not None:
                ceiling(value, what, least=1)
        for role, tokens in self.roles.items():
            ceiling(tokens, f"budget of role {role!r}")

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
            case "run":
                return _given(tokens=self.run, store=self.run_store)
            case "day":
                return _given(tokens=self.day, store=self.day_store, group=self.group)
        return {}

    def scopes(self, chosen: tuple[str, ...]) -> tuple[str, ...]:
        """Scopes in force: those chosen, and those whose ceiling somebody set."""
        wanted = {"run": self.run is not None, "day": self.day is not None, "role": bool(self.roles)}
        return chosen + tuple(name for name, set_ in wanted.items() if set_ and name not in chosen)


def from_file(data: Mapping[str, Any], place: str, defaults: BudgetSettings | None = None) -> BudgetSettings:
    """The specification's budgets.yaml, parsed: episode_tokens, daily_tokens, per_agent_tokens, tokenizer_pool.

    Keys that are absent keep the default; null is refused. Raises ConfigError that names ``place`` and the key.
    """
    settings = defaults or BudgetSettings()
    known = {"episode_tokens", "daily_tokens", "run_tokens", "per_agent_tokens", "tokenizer_pool"}
    if not isinstance(data, Mapping):
        raise ConfigError(f"{place}: budgets must be a table of names and values")
    if strange := sorted(map(str, set(data) - known)):
        raise ConfigError(f"{place}: unknown budget {strange[0]!r}", f"known: {', '.join(sorted(known))}")
    for key, name in (("episode_tokens", "episode"), ("run_tokens", "run"), ("daily_tokens", "day")):
        if key in data:
            given: dict[str, Any] = {name: ceiling(data[key], f"{place}: {key}", least=1)}
            settings = replace(settings, **given)
    if "per_agent_tokens" in data:
        roles = _table(data["per_agent_tokens"], f"{place}: per_agent_tokens")
        checked = {str(k).lower(): ceiling(v, f"{place}: per_agent_tokens: {k}") for k, v in roles.items()}
        settings = replace(settings, roles=checked)
    pool = _table(data.get("tokenizer_pool", {}), f"{place}: tokenizer_pool")
    if strange := sorted(map(str, set(pool) - {"enable", "approximator_bias_pct"})):
        raise ConfigError(f"{place}: unknown setting {strange[0]!r} of tokenizer_pool")
    if "approximator_bias_pct" in pool:
        bias = pool["approximator_bias_pct"]
        if type(bias) not in (int, float) or not 0 <= bias <= 100:
            raise ConfigError(f"{place}: approximator_bias_pct must be a number from 0 to 100, not {bias!r}")
        settings = replace(settings, bias_pct=float(bias))
    return settings


def _table(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{what} must be a table, not {value!r}")
    return value


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
