"""The guard: no call without a reservation in every scope that it counts against. Fails closed."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from ..errors import ConfigError
from ..interfaces.budget import BudgetScope, CallTags, Denied, Limits, Refills, ceiling
from ..ports import Clock, Effects, RealEffects
from .entries import Reservation, ScopeInstance, Settlement
from .ledger import Ledger
from .scopes import Resolved, Resolver, nested
from .tranches import Tranches

_log = logging.getLogger(__name__)

MOST_SAFETY = 100.0


@dataclass(frozen=True, slots=True)
class Grant:
    """Permission for one call. ``tokens`` are reserved in all scopes; at most ``max_tokens`` of them are output."""

    id: str
    tokens: int
    ms: int
    max_tokens: int


class Guard:
    """Asks the ledger on behalf of calls: ``admit`` before a call, ``settle`` after it, ``close`` in the end.

    ``safety`` is the one margin there is: ceil(safety x estimate) is reserved, and ``max_tokens``, being a bound
    and no estimate, without it. What is broken denies: a scope that raises or answers nonsense
    (``policy:scope_error``), an estimate that is no number (``policy:no_estimate``), a clock that does not tell the time
    (``policy:no_clock``), a ledger that fails (``policy:no_ledger``). Scopes that share a ceiling with other
    processes lease from it through ``effects``, off the event loop.

    Raises ConfigError for a name used twice, a parent that is not among the scopes or nests in itself, or a safety
    that is no number from 1 to 100.
    """

    def __init__(
        self,
        ledger: Ledger,
        scopes: Sequence[BudgetScope],
        *,
        safety: float = 1.0,
        clock: Clock,
        effects: Effects | None = None,
    ) -> None:
        self.ledger = ledger
        self.safety = _margin(safety, "safety")
        self._factor = Fraction(str(self.safety))
        self._ratio = self._factor.numerator, self._factor.denominator
        self._clock = clock
        self._now_ms = 0
        self._plugins = tuple(scopes)
        self._resolver = Resolver(scopes)
        self._tranches = Tranches(ledger, effects or RealEffects())

    @property
    def scopes(self) -> tuple[str, ...]:
        """Names of the scopes, parents before children."""
        return tuple(scope.name for scope in self._resolver.scopes)

    def check(self) -> None:
        """Raise, before any work begins, what keeps a shared ceiling from being reached. Blocks."""
        for scope in self._resolver.scopes:
            if scope.refills is not None:
                scope.refills.check()

    def child(self, name: str, key: str, limits: Limits, tags: CallTags, *, parent: str) -> Guard | Denied:
        """A guard for part of the work: its calls also count against ``limits``, nested in scope ``parent``.

        A goal's guard gives its members theirs; the names of scopes on one path differ. Denied when the parent has
        less left than the child asks for. Children share ledger and tranches with this guard, which is the one to close.
        Raises ConfigError for a ceiling of tokens that is no integer >= 1, or an unknown parent.
        """
        ceiling(limits.tokens, f"budget of {name}", least=1)
        if limits.ms is not None:
            ceiling(limits.ms, f"milliseconds of {name}", least=1)
        guard = Guard(
            self.ledger, [*self._plugins, _Part(name, key, limits, parent)], safety=self.safety, clock=self._clock
        )
        left = self.remaining(tags)
        if limits.tokens is not None and parent in left and limits.tokens > left[parent]:
            return Denied({parent: "tok_headroom"}, left, limits.tokens)
        guard._tranches = self._tranches
        return guard

    # --- calls ----------------------------------------------------------------------------------

    async def admit(
        self, tags: CallTags, estimate_tokens: int, estimate_ms: int = 0, *, max_tokens: int = 0, margin: float = 1.0
    ) -> Grant | Denied:
        """``reserve``; where nothing but a tranche is too small, lease more and reserve then.

        Without scopes that share a ceiling nothing is awaited.
        """
        answer = self.reserve(tags, estimate_tokens, estimate_ms, max_tokens=max_tokens, margin=margin)
        if isinstance(answer, Grant) or not self._resolver.shared or not self._leasable(tags, answer):
            return answer
        async with self._tranches.drawing:
            while True:
                answer = self.reserve(tags, estimate_tokens, estimate_ms, max_tokens=max_tokens, margin=margin)
                short = [] if isinstance(answer, Grant) else self._leasable(tags, answer)
                if isinstance(answer, Grant) or not short:
                    return answer
                grew, reasons = False, {}
                for scope, instance in short:
                    more, reason = await self._tranches.draw(scope, instance, answer.estimate)
                    grew |= more
                    if reason:
                        reasons[instance.name] = reason
                again = grew or short != self._leasable(tags, answer)  # or: another day has begun
                if reasons or not again:
                    return Denied({**answer.reasons, **reasons}, self.remaining(tags), answer.estimate)

    def reserve(
        self, tags: CallTags, estimate_tokens: int, estimate_ms: int = 0, *, max_tokens: int = 0, margin: float = 1.0
    ) -> Grant | Denied:
        """Reserve ceil(safety x estimate) + max_tokens in every scope at once, or say which of them refuse.

        ``margin`` is what the estimate already holds; only what is missing to ``safety`` is added, so that margins
        never multiply. Of a shared ceiling only the tranche in hand is used.
        """
        if not _amounts(estimate_tokens, estimate_ms, max_tokens) or not _is_margin(margin):
            _log.error(
                "estimate of %r tokens x %r, %r ms, %r of output", estimate_tokens, margin, estimate_ms, max_tokens
            )
            return Denied({"estimate": "policy:no_estimate"}, self.remaining(tags), 0)
        tokens = self._padded(estimate_tokens, margin) + max_tokens
        if self._tranches.closed:
            return Denied({"guard": "policy:closed"}, {}, tokens)
        instances = self._resolver.instances(tags)
        if isinstance(instances, dict):
            return Denied(instances, self.remaining(tags), tokens)
        now_ms = self._now()
        if now_ms is None:
            return Denied({"clock": "policy:no_clock"}, self.remaining(tags), tokens)
        try:
            answer = self.ledger.reserve(instances, tokens, estimate_ms, now_ms=now_ms)
        except Exception:  # noqa: BLE001 - a ledger that fails must not let a call through, and not end the episode
            _log.exception("the ledger failed; the call is denied")
            return Denied({"ledger": "policy:no_ledger"}, {}, tokens)
        if isinstance(answer, Reservation):
            return Grant(answer.id, tokens, estimate_ms, max_tokens)
        return Denied(answer.reasons, self.remaining(tags), tokens)

    def settle(self, grant_id: str, actual_tokens: int, actual_ms: int = 0) -> Settlement:
        """Replace a grant by what its call really took; idempotent. Raises LedgerError for an unknown grant."""
        return self.ledger.settle(grant_id, actual_tokens, actual_ms)

    def release(self, grant_id: str) -> Settlement:
        """The call was never made: settle at nothing. Raises LedgerError for an unknown grant."""
        return self.ledger.release(grant_id)

    def renew(self, grant_id: str) -> bool:
        """Keep the grant of a running call alive; false when it has expired or been settled."""
        now_ms = self._now()
        return now_ms is not None and self.ledger.renew(grant_id, now_ms)

    def check_and_reserve(
        self, scope_tags: CallTags, est_tok: int, est_ms: int = 0
    ) -> tuple[bool, str | None, dict[str, str]]:
        """``reserve`` in the specification's words: (allowed, reservation_id or None, reasons per scope)."""
        answer = self.reserve(scope_tags, est_tok, est_ms)
        return (True, answer.id, {}) if isinstance(answer, Grant) else (False, None, answer.reasons)

    async def close(self) -> None:
        """Deny every later call and hand back what was leased and not spent; idempotent.

        Calls that are still open count at what they reserved.
        """
        await self._tranches.close()

    # --- questions ------------------------------------------------------------------------------

    def remaining(self, tags: CallTags) -> dict[str, int]:
        """Scope name -> tokens left for such a call, never more than its parent has left.

        Scopes without a limit are left out, broken ones have 0. Of a shared ceiling: what was free when last looked.
        """
        each = self._resolver.each(tags)
        left = {r.instance.id: self._left(r) for r in each if r.instance is not None}
        broken = {r.scope.name: 0 for r in each if r.instance is None}
        return broken | nested(left, [r.instance for r in each if r.instance is not None])

    def headroom(self, tags: CallTags) -> dict[str, float]:
        """Scope name -> share of its own token limit that is left, in [0, 1]; 0 for a broken scope."""
        return {r.scope.name: self._share(r) for r in self._resolver.each(tags)}

    def output_cap(self, tags: CallTags, estimate_tokens: int, wanted: int, *, margin: float = 1.0) -> int:
        """The most output tokens, at most ``wanted``, that a call with such a prompt could be granted now; 0 if none."""
        if not _amounts(estimate_tokens, wanted) or not _is_margin(margin):
            return 0
        prompt = self._padded(estimate_tokens, margin)
        return max(0, min([wanted, *(left - prompt for left in self.remaining(tags).values())]))

    def _padded(self, estimate_tokens: int, margin: float) -> int:
        """An estimate that already holds ``margin``, with what is missing to ``safety``; rounded up."""
        if margin == 1.0:
            over, under = self._ratio
        else:
            over, under = max(Fraction(1), self._factor / Fraction(str(margin))).as_integer_ratio()
        return -(-over * estimate_tokens // under)

    def _left(self, found: Resolved) -> int | None:
        instance, whole = found.instance, found.whole
        if instance is None or whole is None or whole.tokens is None:
            return None
        known = self.ledger.knows(instance.id)
        here = self.ledger.remaining(instance.id) if known else instance.limits.tokens
        if found.scope.refills is None:
            return here
        return min(whole.tokens, (here or 0) + self._tranches.free(instance.id, whole.tokens))

    def _share(self, found: Resolved) -> float:
        if found.instance is None or found.whole is None:
            return 0.0
        if found.whole.tokens is None:
            return 1.0
        return (self._left(found) or 0) / found.whole.tokens if found.whole.tokens else 0.0

    def _leasable(self, tags: CallTags, denied: Denied) -> list[tuple[Refills, ScopeInstance]]:
        """The scopes whose tranche is too small; none when anything else stands in the way, too."""
        found = {r.scope.name: (r.scope.refills, r.instance) for r in self._resolver.each(tags)}
        short = []
        for name, reason in denied.reasons.items():
            refills, instance = found.get(name, (None, None))
            if reason != "tok_headroom" or refills is None or instance is None:
                return []
            short.append((refills, instance))
        return short

    def _now(self) -> int | None:
        """Milliseconds that never go back; None when the clock does not tell."""
        try:
            self._now_ms = max(self._now_ms, int(self._clock.monotonic() * 1000))
        except Exception:  # noqa: BLE001 - the edge to the machine's clock: without time nothing would ever expire
            _log.exception("the clock does not tell the time; nothing is granted")
            return None
        return self._now_ms


@dataclass(frozen=True, slots=True)
class _Part:
    """The scope of a child: one instance, whoever calls."""

    name: str
    instance: str
    ceiling: Limits
    parent: str | None

    def key(self, tags: CallTags) -> str:
        return self.instance

    def limits(self, tags: CallTags) -> Limits:
        return self.ceiling


def _amounts(*values: object) -> bool:
    return all(type(value) is int and value >= 0 for value in values)


def _is_margin(value: float) -> bool:
    return type(value) in (int, float) and 1.0 <= value <= MOST_SAFETY  # NaN is in no order, so it is none


def _margin(value: float, what: str) -> float:
    if not _is_margin(value):
        raise ConfigError(f"{what} must be a number from 1 to {MOST_SAFETY:g}, not {value!r}")
    return float(value)
