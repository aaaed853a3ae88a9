"""The guard: no call without a reservation in every scope that it counts against. Fails closed."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from ..errors import ConfigError
from ..interfaces.budget import BudgetScope, CallTags, Denied, Limits
from ..ports import Clock
from .entries import Balance, Reservation, ScopeInstance, Settlement
from .ledger import Ledger

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Grant:
    """Permission for one call. ``tokens`` are reserved in all scopes; at most ``max_tokens`` of them are output."""

    id: str
    tokens: int
    ms: int
    max_tokens: int


class Guard:
    """Asks the ledger on behalf of calls.

    ``safety`` is the one margin there is: ceil(safety x estimate) is reserved, and ``max_tokens``, being a bound
    and no estimate, without it. A scope that raises or answers nonsense denies the call (``policy:scope_error``).
    Raises ConfigError for a name used twice, a parent that is not among the scopes or nests in itself, or safety < 1.
    """

    def __init__(self, ledger: Ledger, scopes: Sequence[BudgetScope], *, safety: float = 1.0, clock: Clock) -> None:
        if not safety >= 1.0:
            raise ConfigError(f"safety must be at least 1, not {safety}")
        self.ledger = ledger
        self.safety = safety
        self._factor = Fraction(str(safety))
        self._clock = clock
        self._scopes = _parents_first(scopes)
        self._instances: dict[tuple[str, str], ScopeInstance] = {}

    @property
    def scopes(self) -> tuple[str, ...]:
        """Names of the scopes, parents before children."""
        return tuple(name for name, _, _ in self._scopes)

    def reserve(
        self, tags: CallTags, estimate_tokens: int, estimate_ms: int = 0, *, max_tokens: int = 0
    ) -> Grant | Denied:
        """Reserve ceil(safety x estimate) + max_tokens in every scope at once, or say which of them refuse.

        Raises LedgerError for amounts that are no integers >= 0.
        """
        tokens = -(-self._factor.numerator * estimate_tokens // self._factor.denominator) + max_tokens
        instances = self._resolve(tags)
        if isinstance(instances, dict):
            return Denied(instances, self.remaining(tags), tokens)
        answer = self.ledger.reserve(instances, tokens, estimate_ms, now_ms=self._now())
        if isinstance(answer, Reservation):
            return Grant(answer.id, tokens, estimate_ms, max_tokens)
        return answer

    def settle(self, grant_id: str, actual_tokens: int, actual_ms: int = 0) -> Settlement:
        """Replace a grant by what its call really took; idempotent. Raises LedgerError for an unknown grant."""
        return self.ledger.settle(grant_id, actual_tokens, actual_ms)

    def renew(self, grant_id: str) -> bool:
        """Keep the grant of a running call alive; false when it has expired or been settled."""
        return self.ledger.renew(grant_id, self._now())

    def check_and_reserve(
        self, scope_tags: CallTags, est_tok: int, est_ms: int = 0
    ) -> tuple[bool, str | None, dict[str, str]]:
        """``reserve`` in the specification's words: (allowed, reservation_id or None, reasons per scope)."""
        answer = self.reserve(scope_tags, est_tok, est_ms)
        return (True, answer.id, {}) if isinstance(answer, Grant) else (False, None, answer.reasons)

    def remaining(self, tags: CallTags) -> dict[str, int]:
        """Scope name -> tokens left for such a call; scopes without a limit are left out, broken ones have 0."""
        left = {name: self._balance(i).remaining if i is not None else 0 for name, i in self._each(tags)}
        return {name: tokens for name, tokens in left.items() if tokens is not None}

    def headroom(self, tags: CallTags) -> dict[str, float]:
        """Scope name -> share of its token limit that is left, in [0, 1]; 0 for a broken scope."""
        return {name: 0.0 if i is None else self._balance(i).headroom for name, i in self._each(tags)}

    def _balance(self, instance: ScopeInstance) -> Balance:
        known = self.ledger.knows(instance.id)
        return self.ledger.balance(instance.id) if known else Balance(instance.limits, 0, 0, 0, 0)

    def _each(self, tags: CallTags) -> list[tuple[str, ScopeInstance | None]]:
        """Every scope's instance, None where the scope is broken."""
        parents: dict[str, str] = {}
        each: list[tuple[str, ScopeInstance | None]] = []
        for name, parent, scope in self._scopes:
            instance = self._instance(name, parents.get(parent or ""), scope, tags)
            if instance is not None:
                parents[name] = instance.id
            each.append((name, instance))
        return each

    def _resolve(self, tags: CallTags) -> list[ScopeInstance] | dict[str, str]:
        """The instances of a call, or the reasons why there are none."""
        each = self._each(tags)
        good = [instance for _, instance in each if instance is not None]
        return good if len(good) == len(each) else {n: "policy:scope_error" for n, i in each if i is None}

    def _instance(self, name: str, parent: str | None, scope: BudgetScope, tags: CallTags) -> ScopeInstance | None:
        try:
            key = scope.key(tags)
            known = self._instances.get((name, key))
            if known is not None and known.parent == parent:
                return known
            limits = scope.limits(tags) if known is None else known.limits
        except Exception:  # noqa: BLE001 - a plugin's edge: a ceiling that cannot be read admits nothing
            _log.exception("budget scope %r failed; the call is denied", name)
            return None
        if not isinstance(key, str) or not key or not _sound(limits):
            _log.error("budget scope %r answered %r, %r; the call is denied", name, key, limits)
            return None
        instance = self._instances[(name, key)] = ScopeInstance(name, key, limits, parent)
        return instance

    def _now(self) -> int:
        return int(self._clock.monotonic() * 1000)


def _sound(limits: object) -> bool:
    return isinstance(limits, Limits) and all(
        v is None or (type(v) is int and v >= 0) for v in (limits.tokens, limits.ms)
    )


def _parents_first(scopes: Sequence[BudgetScope]) -> list[tuple[str, str | None, BudgetScope]]:
    waiting = {scope.name: scope for scope in scopes}
    if len(waiting) != len(scopes):
        raise ConfigError(f"a budget scope is named twice: {', '.join(s.name for s in scopes)}")
    for scope in scopes:
        if scope.parent is not None and scope.parent not in waiting:
            raise ConfigError(f"budget scope {scope.name!r} needs its parent {scope.parent!r}", f"add {scope.parent!r}")
    ordered: list[tuple[str, str | None, BudgetScope]] = []
    while waiting:
        ready = [s for s in waiting.values() if s.parent not in waiting]
        if not ready:
            raise ConfigError(f"budget scopes nest in each other: {', '.join(waiting)}")
        ordered += [(s.name, s.parent, waiting.pop(s.name)) for s in ready]
    return ordered
