"""The specification's own files, ``budgets.yaml`` and ``controller.yaml``, as settings by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from .errors import ConfigError
from .interfaces.budget import ceiling

Found = dict[str, tuple[str, Any]]
"""Setting -> the place that says it, and its value."""
Place = Callable[..., str]
"""Keys that lead to a value -> where it stands in the file."""

CEILINGS: Final = {"episode_tokens": "budget", "run_tokens": "run_budget", "daily_tokens": "day_budget"}
ROLES: Final = "per_agent_tokens"
POOL: Final = "tokenizer_pool"
BIAS: Final = "approximator_bias_pct"

CACHE: Final = "plan_cache"

CONTROLLER: Final[Mapping[str, Mapping[str, str]]] = {
    CACHE: {"capacity": "", "ttl_s": ""},
    "parallelism": {"enable_parallel_prepare": "parallel_prepare", "health_probe_timeout_ms": ""},
    "health_cache": {"ttl_s": ""},
}
"""Table -> key -> the setting that it is, or nothing for what is no setting of its own."""
FIXED: Final = {("parallelism", "health_probe_timeout_ms"): 20, ("health_cache", "ttl_s"): 10}
"""What is no setting here and always so."""


def budgets(data: object, place: Place) -> Found:
    """budgets.yaml, parsed: episode_tokens, run_tokens, daily_tokens, per_agent_tokens, tokenizer_pool.

    Nothing is no ceiling: null is refused. Raises ConfigError that names the place and the key.
    """
    tables = _table(data, place, (), {*CEILINGS, ROLES, POOL})
    found: Found = {}
    for key, name in CEILINGS.items():
        if key in tables:
            found[name] = place(key), ceiling(tables[key], f"{place(key)}: {key}", least=1)
    if ROLES in tables:
        roles = _table(tables[ROLES], place, (ROLES,))
        checked = {str(k).lower(): ceiling(v, f"{place(ROLES, k)}: {ROLES}: {k}") for k, v in roles.items()}
        if len(checked) < len(roles):
            raise ConfigError(f"{place(ROLES)}: {ROLES} names a role twice", "keep one of them")
        found["role_budgets"] = place(ROLES), checked
    pool = _table(tables.get(POOL, {}), place, (POOL,), {"enable", BIAS})
    if pool.get("enable", True) is not True:
        raise ConfigError(f"{place(POOL, 'enable')}: tokenizers are always pooled", "enable: true, or leave it out")
    if BIAS in pool:
        bias, where = pool[BIAS], place(POOL, BIAS)
        if type(bias) not in (int, float) or not 0 <= bias <= 100:
            raise ConfigError(f"{where}: {BIAS} must be a number from 0 to 100, not {bias!r}")
        found[BIAS] = where, float(bias)
    return found


def controller(data: object, place: Place) -> Found:
    """controller.yaml, parsed: plan_cache, parallelism, health_cache. What is fixed here may be said, and not otherwise.

    Raises ConfigError that names the place and the key.
    """
    found: Found = {}
    for table, given in _table(data, place, (), set(CONTROLLER)).items():
        names = CONTROLLER[table]
        for key, value in _table(given, place, (table,), set(names)).items():
            where = place(table, key)
            if name := names[key]:
                if type(value) is not bool:
                    raise ConfigError(f"{where}: {key} must be true or false, not {value!r}")
                found[name] = where, value
                continue
            if type(value) not in (int, float) or not 0 < value < float("inf"):
                raise ConfigError(f"{where}: {key} must be a number above 0, not {value!r}")
            if table == CACHE:
                options = f"{found[CACHE][1]};" if CACHE in found else ""
                found[CACHE] = found[CACHE][0] if CACHE in found else place(table), f"{options}{key}={value}"
                continue
            fixed = FIXED.get((table, key))
            if fixed is not None and value != fixed:
                raise ConfigError(f"{where}: {key} is {fixed} and no setting", "leave it out")
    return found


def _table(value: object, place: Place, path: tuple[str, ...], known: set[str] | None = None) -> Mapping[Any, Any]:
    of = f" of {path[-1]}" if path else ""
    if not isinstance(value, Mapping):
        what = path[-1] if path else "this file"
        raise ConfigError(f"{place(*path)}: {what} must be a table of names and values, not {value!r}")
    if known is not None and (strange := sorted(map(str, set(value) - known))):
        known_names = f"known: {', '.join(sorted(known))}"
        raise ConfigError(f"{place(*path, strange[0])}: unknown setting {strange[0]!r}{of}", known_names)
    return value
