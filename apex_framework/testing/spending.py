"""Calls under a budget, at random, against the very ledger and guard; judged by sums kept apart."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

from ..budget import Grant, Guard, Ledger
from ..errors import LedgerError
from ..interfaces import CallTags, Limits
from ..ports import Clock
from .faults import Faults
from .invariants import Findings

ROLES = ("planner", "coder", "runner", "critic", "summarizer")


@dataclass(frozen=True)
class Ceiling:
    """A budget scope: ``episode`` is one ceiling, ``role`` one for each role."""

    name: str
    parent: str | None
    tokens: int

    def key(self, tags: CallTags) -> str:
        return tags.episode_id if self.name == "episode" else f"{tags.episode_id}/{tags.role}"

    def limits(self, tags: CallTags) -> Limits:
        return Limits(self.tokens, None)


@dataclass
class _Call:
    scopes: tuple[str, ...]
    tokens: int
    actual: int | None = None


class Spending:
    """Reserves, settles, abandons, settles twice; ``check`` after every step compares the ledger with the sums."""

    def __init__(self, findings: Findings, faults: Faults, rng: random.Random, clock: Clock) -> None:
        self.findings = findings
        self._faults, self._rng = faults, rng
        self._episode, self._role = rng.randint(100, 1500), rng.randint(60, 700)
        self.ledger = Ledger(ttl_ms=rng.choice((200, 10_000)))
        scopes = (Ceiling("role", "episode", self._role), Ceiling("episode", None, self._episode))
        self.guard = Guard(self.ledger, scopes, clock=clock)
        self._calls: dict[str, _Call] = {}
        self._owed: dict[str, int] = {}
        """Scope -> used + reserved, as it must be."""
        self._over: dict[str, int] = {}
        """Scope -> tokens spent above what was reserved for them."""
        self.denied = 0

    def check(self) -> None:
        """I4, after any step."""
        for scope, owed in self._owed.items():
            balance = self.ledger.balance(scope)
            if balance.used + balance.reserved != owed:
                self.findings.blame("budget", f"{scope}: used {balance.used} + reserved {balance.reserved}, not {owed}")
                self._owed[scope] = balance.used + balance.reserved
            limit = balance.limits.tokens
            if limit is not None and balance.used + balance.reserved > limit + self._over.get(scope, 0):
                self.findings.blame("budget", f"{scope}: {balance.used} + {balance.reserved} exceed {limit}")
                self._over[scope] = balance.used + balance.reserved - limit

    async def call(self, role: str) -> None:
        """One call, from its reservation to its settlement."""
        faults, rng = self._faults, self._rng
        tags = CallTags("sim", "e", role, role, 0)
        estimate, output = rng.randint(0, 60), rng.randint(0, 60)
        wanted = estimate + output
        answer = self.guard.reserve(tags, estimate, max_tokens=output)
        scopes = ("episode:e", f"role:e/{role}")
        limits = {scopes[0]: self._episode, scopes[1]: self._role}
        fits = all(self._owed.get(s, 0) + wanted <= limits[s] for s in scopes)
        if isinstance(answer, Grant) != fits:
            self.findings.blame("budget", f"{wanted} tokens {'fit' if fits else 'do not fit'}, the guard says {answer}")
        if not isinstance(answer, Grant):
            self.denied += 1
            return
        if answer.id in self._calls:
            self.findings.blame("budget", f"grant {answer.id} is given twice")
        call = self._calls[answer.id] = _Call(scopes, wanted)
        self._add(call, wanted)
        abandoned = faults.strikes("abandoned", 0.1)
        for _ in range(rng.randint(0, 2)):
            await asyncio.sleep(rng.random() * 0.2)
            if not abandoned:
                self.guard.renew(answer.id)
        if abandoned and rng.random() < 0.5:
            return
        if abandoned:
            await asyncio.sleep(0.5)
        actual = rng.randint(0, wanted)
        if faults.strikes("overspend", 0.05):
            actual = wanted + rng.randint(1, 30)
        self._settle(answer.id, call, actual)
        if rng.random() < 0.1:
            self._settle(answer.id, call, rng.randint(0, 100))

    def finish(self) -> None:
        """At the end: the entries alone rebuild the ledger, and nobody else's reservation can be settled."""
        replayed = Ledger.replay(self.ledger.entries, ttl_ms=self.ledger.ttl_ms)
        if replayed.state() != self.ledger.state():
            self.findings.blame("budget", "the replayed ledger differs")
        try:
            self.guard.settle("r0", 1)
        except LedgerError:
            return
        self.findings.blame("budget", "an unknown reservation was settled")

    def _settle(self, grant: str, call: _Call, actual: int) -> None:
        self.guard.settle(grant, actual)
        if call.actual is None:
            call.actual = actual
            self._add(call, actual - call.tokens)
            if actual > call.tokens:
                for scope in call.scopes:
                    self._over[scope] = self._over.get(scope, 0) + actual - call.tokens

    def _add(self, call: _Call, tokens: int) -> None:
        for scope in call.scopes:
            self._owed[scope] = self._owed.get(scope, 0) + tokens
