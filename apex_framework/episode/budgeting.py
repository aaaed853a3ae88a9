"""The budget of one episode: its guard, and what ceilings that it shares with others did to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from ..budget import BudgetSettings, Durations, Grant, Guard, Ledger
from ..catalog import Catalog
from ..interfaces import MOST_TOKENS, BudgetScope, CallTags, Denied, Refills
from ..ports import Clock, Effects
from ..telemetry.registry import Registry
from .arm import Arm

T = TypeVar("T")
TOO_LITTLE: Final = "tok_headroom"
"""The reason of a ceiling that has too little left, and not of one that cannot be asked."""


def settings_of(run: Mapping[str, Any]) -> BudgetSettings:
    """The ceilings that a run's settings say, for its jobs. Raises ConfigError."""
    return BudgetSettings.from_json(run.get("budgets") or {})


def scopes_of(arm: Arm, catalog: Catalog, budgets: BudgetSettings) -> list[BudgetScope]:
    """The scopes in force for an arm, those that settings add included, each made with its options."""
    return [catalog.make("budget_scope", name, **budgets.options(name)) for name in budgets.scopes(arm.scopes)]


def build_guard(
    arm: Arm, catalog: Catalog, run: Mapping[str, Any], clock: Clock, effects: Effects, ledger: Ledger
) -> EpisodeGuard:
    """The guard of an episode; close it at the end, so that what was leased and not spent is free again."""
    budgets = settings_of(run)
    scopes = scopes_of(arm, catalog, budgets)
    return EpisodeGuard(ledger, scopes, safety=budgets.margin, clock=clock, effects=effects)


def timed(service: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a model service; where calls have a budget of time, what the last ones took is what the next reserves.

    Before there was any, a call reserves all that it may take.
    """
    ms = settings_of(run).ms
    if ms is None:
        return dict(service)
    return {**service, "deadline_s": min(service["deadline_s"], ms / 1000), "durations": Durations(least=1)}


class EpisodeGuard(Guard):
    """A guard that remembers when a ceiling shared with other episodes decided what its own would have decided otherwise.

    What such an episode shows is how much the others had left of a common budget, and not what its arm can do: it is no
    result. ``denied_by`` says which scopes, and why; empty for an episode that was not touched.
    """

    def __init__(self, ledger: Ledger, scopes: list[BudgetScope], **options: Any) -> None:
        super().__init__(ledger, scopes, **options)
        self._shared = {scope.name: scope for scope in scopes if isinstance(scope, Refills)}
        self.denied_by: dict[str, str] = {}

    async def admit(
        self, tags: CallTags, estimate_tokens: int, estimate_ms: int = 0, *, max_tokens: int = 0, margin: float = 1.0
    ) -> Grant | Denied:
        """As every guard; and a refusal that a shared ceiling had a part in is remembered.

        It had when it could not be asked, or had less left than every ceiling of the episode's own: what callers are told is
        left, and what they ask for then, comes from it. Where it had none, callers are told of their own ceilings only.
        """
        answer = await super().admit(tags, estimate_tokens, estimate_ms, max_tokens=max_tokens, margin=margin)
        if isinstance(answer, Grant) or not self._shared:
            return answer
        reasons, left = self._own(answer.reasons), self._own(answer.remaining)
        least = min(left.values(), default=MOST_TOKENS + 1)
        for name in self._shared:
            reason = answer.reasons.get(name, "")
            alone = bool(reason) and not reasons
            if alone or reason not in ("", TOO_LITTLE) or answer.remaining.get(name, least) < least:
                self.denied_by.setdefault(name, reason or TOO_LITTLE)
        return answer if self.denied_by else Denied(reasons, left, answer.estimate)

    def own_headroom(self, tags: CallTags) -> dict[str, float]:
        """``headroom`` of the episode's own scopes: what agents and controllers do must not depend on other episodes."""
        return self._own(self.headroom(tags))

    def _own(self, told: Mapping[str, T]) -> dict[str, T]:
        return {name: value for name, value in told.items() if name not in self._shared}

    def measure(self, registry: Registry, tags: CallTags) -> None:
        """What is left of shared ceilings, and spent of the day's, by all together, as this episode saw it last."""
        left, shares = self.remaining(tags), self.headroom(tags)
        for name, scope in self._shared.items():
            registry.gauge("budget_headroom", scope=name).set(shares[name])
            whole = scope.limits(tags).tokens
            if name == "day" and whole is not None:
                registry.gauge("daily_tokens_used").set(whole - left[name])

    def columns(self) -> dict[str, Any]:
        """What the episode's line says of it: nothing, or ``denied_by``, and that it could not be run."""
        if not self.denied_by:
            return {}
        told = ", ".join(f"{name} ({reason})" for name, reason in sorted(self.denied_by.items()))
        return {
            "status": "infrastructure",
            "success": False,
            "reason": f"cut short by a budget that it shares: {told}",
            "denied_by": dict(sorted(self.denied_by.items())),
        }
