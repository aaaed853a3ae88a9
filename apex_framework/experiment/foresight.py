"""What would make every episode of an arm fail, found before the first one; and a limit on plugins while planning."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ..budget import BudgetSettings, Guard, Ledger
from ..catalog import Catalog
from ..episode.arm import Arm
from ..errors import ApexError, ConfigError, ModelServerError, PluginError
from ..interfaces import ChecksHealth, Health, LLMBackend
from ..ports import SystemClock
from ..runtime import RouteTable
from ..timelimit import TimeLimitExceeded, time_limit
from .manifest import STORE

PATIENCE_S = 30.0
"""Seconds that a plugin may take for one answer while a run is planned."""


@contextmanager
def answering(catalog: Catalog, kind: str, name: str, *, limit_s: float | None = None) -> Iterator[None]:
    """The body asks this plugin: what it raises, or that it hangs, becomes a PluginError that names it.

    With a ``limit_s`` of 0 it may take as long as it wants.
    """
    limit_s = PATIENCE_S if limit_s is None else limit_s
    cause: BaseException
    try:
        with time_limit(limit_s):
            yield
        return
    except ApexError:
        raise
    except TimeLimitExceeded as error:
        reason, cause = f"hangs (more than {limit_s:g} s)", error
    except Exception as error:  # noqa: BLE001 - the edge to a plugin's code: its failure is named as its own
        reason, cause = f"fails: {type(error).__name__}: {error}", error
    owner = catalog.entry(kind, name).owner
    raise PluginError(
        f"{kind} {name!r} of plugin {owner} {reason}",
        f"report this to its author, or leave it out: -p no:{owner.plugin}",
    ) from cause


def check_arm(arm: Arm, catalog: Catalog, *, real_time: bool, budgets: BudgetSettings | None = None) -> None:
    """Raises ConfigError for scopes, topologies, teams or backends that cannot work together, and PluginError.

    A backend that can say how it is is asked: ModelServerError when it is not well.
    """
    budgets = budgets or BudgetSettings()
    if (
        budgets.run is not None and budgets.run_store is None
    ):  # it will lie in the run's folder; a scope touches no file
        budgets = replace(budgets, run_store=Path(STORE))
    scopes = []
    for name in budgets.scopes(arm.scopes):
        with answering(catalog, "budget_scope", name):
            scopes.append(catalog.make("budget_scope", name, **budgets.options(name)))
    Guard(Ledger(), scopes, safety=budgets.margin, clock=SystemClock())
    _check_routes(arm, catalog)
    for name in arm.interceptors:
        with answering(catalog, "interceptor", name):
            catalog.make("interceptor", name)
    for name in arm.tools:
        with answering(catalog, "tool", name):
            catalog.make("tool", name)
    for name in sorted(set(arm.backends.values())):
        with answering(catalog, "llm_backend", name):
            backend: LLMBackend = catalog.make("llm_backend", name, **arm.backend_options)
            deterministic = backend.capabilities.deterministic
        if not deterministic and not real_time:
            raise ConfigError(f"backend {name} is not deterministic: add --real-time")
        if isinstance(backend, ChecksHealth):
            with answering(catalog, "llm_backend", name):
                health = asyncio.run(_health(backend))
            if not health.ok:
                remedy = health.remedy or "start it, or correct its address, its key or the model's name"
                raise ModelServerError(f"backend {name}: {health.detail}", f"{remedy}; nothing was run")


async def _health(backend: LLMBackend) -> Health:
    assert isinstance(backend, ChecksHealth)
    try:
        return await backend.health()
    finally:
        await backend.close()


def _check_routes(arm: Arm, catalog: Catalog) -> None:
    with answering(catalog, "team", arm.team):
        team = catalog.make("team", arm.team)
        try:
            roster = team.roster(arm.team_size)
        except ValueError as error:
            raise ConfigError(f"arm {arm.name!r}: {error}") from error
    for name in arm.topologies:
        with answering(catalog, "topology", name):
            topology = catalog.make("topology", name)
            if arm.free_messages or len(roster.members) == 1:  # nobody needs its routes
                continue
            try:
                RouteTable.compile(topology, roster)
            except ValueError as error:
                raise ConfigError(f"topology {name!r} does not fit team {arm.team!r}: {error}") from error
