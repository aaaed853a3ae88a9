"""Many callers at the edge of four nested ceilings, in virtual time, judged by what their calls really burn.

The judge keeps sums of its own, apart from any ledger: what calls have burned, and the most that those in flight still may. A
guard is sound when, at every step and in every scope, both together stay within the ceiling.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ..budget import Grant, Guard, Ledger
from ..interfaces import CallTags, Limits
from ..ports import Clock, LoopClock, derive_seed
from .virtual_time import run

SCOPES = ("day", "run", "episode", "role")
ROLES = ("planner", "coder", "runner", "critic", "summarizer")
SAFETY = 1.2
ERROR = 0.1
"""Estimates of a prompt are wrong by up to this share; less than ``SAFETY`` covers."""
TTL_S = 10.0
SPAN_S = 60.0
"""Callers arrive within so many seconds."""
PROMPT, OUTPUT = (50, 400), (50, 600)
"""Tokens of a call, least and most."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A budget scope: so many tokens per day, run, episode or role of an episode, each nested in the one before."""

    name: str
    tokens: int

    @property
    def parent(self) -> str | None:
        """The scope around it."""
        place = SCOPES.index(self.name)
        return SCOPES[place - 1] if place else None

    def key(self, tags: CallTags) -> str:
        """One day, the run, the episode, or its role."""
        keys = {"day": "today", "run": tags.run_id, "episode": tags.episode_id}
        return keys.get(self.name, f"{tags.episode_id}/{tags.role}")

    def limits(self, tags: CallTags) -> Limits:
        """Tokens."""
        return Limits(self.tokens)


def ceilings(callers: int) -> tuple[Ceiling, ...]:
    """Ceilings that bind one after the other: a day takes about half of what so many callers ask for."""
    demand = callers * (sum(PROMPT) + sum(OUTPUT)) // 2
    shares = {"day": 0.5, "run": 0.3, "episode": 0.07, "role": 0.02}
    return tuple(Ceiling(name, int(demand * share)) for name, share in shares.items())


class Asked(Protocol):
    """A contender: decides over calls."""

    async def ask(self, tags: CallTags, estimate: int, output: int) -> str | None:
        """The call's ticket, or None when it is refused."""
        ...

    def settle(self, ticket: str, tokens: int) -> None:
        """The call burned so much."""
        ...

    def renew(self, ticket: str) -> None:
        """The call is still alive."""
        ...

    def counted(self, scope_id: str) -> int | None:
        """Tokens spent and put aside in a scope by its own books; None when it keeps no such books."""
        ...


class Guarded:
    """Ours: reservations in all scopes at once."""

    def __init__(self, scopes: Sequence[Ceiling], clock: Clock) -> None:
        self.ledger = Ledger(ttl_ms=int(TTL_S * 1000))
        self.guard = Guard(self.ledger, scopes, safety=SAFETY, clock=clock)

    async def ask(self, tags: CallTags, estimate: int, output: int) -> str | None:
        """Admitted or not."""
        answer = await self.guard.admit(tags, estimate, max_tokens=output)
        return answer.id if isinstance(answer, Grant) else None

    def settle(self, ticket: str, tokens: int) -> None:
        """Settled."""
        self.guard.settle(ticket, tokens)

    def renew(self, ticket: str) -> None:
        """A heartbeat."""
        self.guard.renew(ticket)

    def counted(self, scope_id: str) -> int | None:
        """Used and reserved."""
        if not self.ledger.knows(scope_id):
            return 0
        balance = self.ledger.balance(scope_id)
        return balance.used + balance.reserved


class Naive:
    """Check, then call, then add: what a counter without reservations does, with the same margin."""

    def __init__(self, scopes: Sequence[Ceiling], clock: Clock) -> None:
        self._scopes = tuple(scopes)
        self._used: Counter[str] = Counter()
        self._calls: dict[str, CallTags] = {}

    async def ask(self, tags: CallTags, estimate: int, output: int) -> str | None:
        """Whether it would fit on top of what is known to be spent."""
        need = -int(-SAFETY * estimate // 1) + output
        if any(self._used[f"{s.name}:{s.key(tags)}"] + need > s.tokens for s in self._scopes):
            return None
        ticket = f"n{len(self._calls)}"
        self._calls[ticket] = tags
        return ticket

    def settle(self, ticket: str, tokens: int) -> None:
        """Now it is known."""
        tags = self._calls[ticket]
        for scope in self._scopes:
            self._used[f"{scope.name}:{scope.key(tags)}"] += tokens

    def renew(self, ticket: str) -> None:
        """Nothing expires."""

    def counted(self, scope_id: str) -> int | None:
        """It holds nothing, so its books say nothing about calls in flight."""
        return None


Contender = Callable[[Sequence[Ceiling], Clock], Asked]


@dataclass
class Judge:
    """Sums of what calls burned and may yet burn, per scope instance, and how far they ever were above its ceiling."""

    limits: dict[str, int] = field(default_factory=dict)
    burned: Counter[str] = field(default_factory=Counter)
    flying: Counter[str] = field(default_factory=Counter)
    exposed: int = 0
    """The most that burned + in flight was ever above a ceiling, in tokens."""
    wrong: list[str] = field(default_factory=list)
    """Where the contender's own books went wrong."""
    steps: int = 0
    calls: int = 0
    refused: int = 0

    def begin(self, scopes: Sequence[str], bound: int) -> None:
        """A call sets out that may burn up to ``bound``."""
        self.calls += 1
        for scope in scopes:
            self.flying[scope] += bound

    def end(self, scopes: Sequence[str], bound: int, tokens: int) -> None:
        """It burned so much."""
        for scope in scopes:
            self.flying[scope] -= bound
            self.burned[scope] += tokens

    def look(self, scopes: Sequence[str], books: Asked) -> None:
        """After any step: the scopes that it touched."""
        self.steps += 1
        for scope in scopes:
            real, counted = self.burned[scope] + self.flying[scope], books.counted(scope)
            self.exposed = max(self.exposed, real - self.limits[scope])
            if counted is not None and not real <= counted <= self.limits[scope]:
                self.wrong.append(f"{scope}: {real} burned or in flight, {counted} counted, of {self.limits[scope]}")

    @property
    def overspent(self) -> dict[str, int]:
        """Scope instance -> tokens burned above its ceiling."""
        return {scope: over for scope, limit in self.limits.items() if (over := self.burned[scope] - limit) > 0}


def simulate_callers(contender: Contender, *, callers: int, seed: int) -> Judge:
    """Let callers loose on a contender; the same seed gives the same callers to each, in a random interleaving.

    They arrive at random, take up to half a minute, sometimes without a sign of life, sometimes settle twice or never.
    """
    return run(_Crowd(contender, callers, seed).run(), seed=seed, shuffle=True)


class _Crowd:
    def __init__(self, contender: Contender, callers: int, seed: int) -> None:
        self._contender = contender
        self._callers = callers
        self._seed = seed
        self._judge = Judge()
        self._scopes = ceilings(callers)

    async def run(self) -> Judge:
        self._books = self._contender(self._scopes, LoopClock(asyncio.get_running_loop()))
        rng = random.Random(derive_seed("callers", self._seed))
        async with asyncio.TaskGroup() as group:
            for _ in range(self._callers):
                group.create_task(self._call(random.Random(rng.random())))
        return self._judge

    async def _call(self, rng: random.Random) -> None:
        judge, books = self._judge, self._books
        episode = f"e{rng.randrange(5)}"
        tags = CallTags("r", episode, "a", rng.choice(ROLES), 0)
        touched = self._touched(tags)
        await asyncio.sleep(rng.random() * SPAN_S)
        prompt, output = rng.randint(*PROMPT), rng.randint(*OUTPUT)
        actual = prompt + rng.randint(0, output)
        estimate = round(prompt * (1 + rng.uniform(-ERROR, ERROR)))
        takes = rng.random() * rng.choice((0.5, 3.0, 30.0))
        beats, late, dies, twice = rng.random() < 0.9, rng.random() < 0.1, rng.random() < 0.03, rng.random() < 0.1
        ticket = await books.ask(tags, estimate, output)
        if ticket is None:
            judge.refused += 1
            return judge.look(touched, books)
        judge.begin(touched, prompt + output)
        judge.look(touched, books)
        while takes > 0:
            await asyncio.sleep(min(takes, TTL_S / 3))
            takes -= TTL_S / 3
            if beats and not dies:
                books.renew(ticket)
                judge.look(touched, books)
        judge.end(touched, prompt + output, actual)
        judge.look(touched, books)
        if dies:
            return None
        if late:
            await asyncio.sleep(rng.random() * 2 * TTL_S)
        for _ in range(1 + (twice and isinstance(books, Guarded))):  # a counter cannot tell a second time from a first
            books.settle(ticket, actual)
            judge.look(touched, books)
        return None

    def _touched(self, tags: CallTags) -> list[str]:
        ids = [f"{scope.name}:{scope.key(tags)}" for scope in self._scopes]
        self._judge.limits.update(zip(ids, (scope.tokens for scope in self._scopes), strict=True))
        return ids
