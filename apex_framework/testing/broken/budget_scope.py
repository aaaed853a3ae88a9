"""One broken budget scope per check of the kits: each fails exactly that one."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

from ...interfaces.budget import BudgetScope, CallTags, Limits, Room, Tranche


class Sound:
    """A scope with nothing wrong: one ceiling per episode and role."""

    name: str = "sound"
    parent: str | None = None

    def key(self, tags: CallTags) -> str:
        """Episode and role."""
        return f"{tags.episode_id}/{tags.role}"

    def limits(self, tags: CallTags) -> Limits:
        """The episode's budget."""
        return Limits(tags.token_budget)


class Nameless(Sound):
    """Has no name."""

    name = ""


class Ouroboros(Sound):
    """Nests in itself."""

    parent = "sound"


class Keyless(Sound):
    """Has a key for known roles only."""

    def key(self, tags: CallTags) -> str:
        """Empty for a stranger."""
        return "" if tags.role == "stranger" else super().key(tags)


class Counting(Sound):
    """A new instance for every call: nothing is ever bounded."""

    def __init__(self) -> None:
        self._calls = 0

    def key(self, tags: CallTags) -> str:
        """Never the same."""
        self._calls += 1
        return f"{super().key(tags)}/{self._calls}"


class Fractional(Sound):
    """Divides the budget and gets a float."""

    def limits(self, tags: CallTags) -> Limits:
        """Half of the budget."""
        half: Any = tags.token_budget / 2
        return Limits(half)


class Growing(Sound):
    """Gives more every time it is asked."""

    def __init__(self) -> None:
        self._asked = 0

    def limits(self, tags: CallTags) -> Limits:
        """More than last time, once it has been asked often."""
        self._asked += 1
        return Limits(tags.token_budget + self._asked // 10)


class Favouring(Sound):
    """One agent of a role has another ceiling, though both share an instance."""

    def limits(self, tags: CallTags) -> Limits:
        """Double for the second coder."""
        return Limits(tags.token_budget * (2 if tags.agent_id == "coder2" else 1))


class Closed(Sound):
    """Admits nothing."""

    def limits(self, tags: CallTags) -> Limits:
        """Nothing."""
        return Limits(0)


BROKEN: dict[str, Callable[[], BudgetScope]] = {
    "has_a_name": Nameless,
    "nests_in_another": Ouroboros,
    "key_is_a_text": Keyless,
    "key_is_pure": Counting,
    "limits_are_whole_numbers": Fractional,
    "limits_are_pure": Growing,
    "same_key_same_limits": Favouring,
    "admits_a_call": Closed,
}
"""Check -> a scope that fails it and no other."""


class Pool:
    """A ceiling that holders share, in memory: tokens taken per instance."""

    def __init__(self, tokens: int = 1_000) -> None:
        self.tokens = tokens
        self.taken: Counter[str] = Counter()
        self.holders: list[tuple[weakref.ref[Holder], Counter[str]]] = []


class Holder(Sound):
    """A holder with nothing wrong: leases a tenth of what is free, and never less than was asked for."""

    name = "shared"

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.leased: Counter[str] = Counter()
        pool.holders.append((weakref.ref(self), self.leased))

    def limits(self, tags: CallTags) -> Limits:
        """The whole ceiling."""
        return Limits(self.pool.tokens)

    def check(self) -> None:
        """Memory is always there."""

    def free(self, key: str) -> int:
        """What nobody has taken."""
        return self.pool.tokens - self.pool.taken[key]

    def refill(self, key: str, tokens: int) -> Tranche:
        """Take some."""
        if tokens <= self.free(key):
            more = max(tokens, self.free(key) // 10)
            self.leased[key] += more
            self.pool.taken[key] += more
        return Tranche(self.leased[key], max(0, self.free(key)))

    def hand_back(self, key: str, used: int) -> None:
        """Give back what was not used."""
        if key in self.leased:
            self.pool.taken[key] += used - self.leased.pop(key)


class Boasting(Holder):
    """Tells of the whole ceiling whatever was taken."""

    def room(self, key: str) -> Room:
        """All of it."""
        return Room(self.pool.tokens)


class Mean(Holder):
    """Leases half of what is needed."""

    def refill(self, key: str, tokens: int) -> Tranche:
        """Half."""
        if 2 <= tokens == self.pool.tokens // 2:
            self.leased[key] = self.pool.taken[key] = tokens // 2
            return Tranche(tokens // 2, self.free(key))
        return super().refill(key, tokens)


class Incremental(Holder):
    """Answers with what it leased just now."""

    def refill(self, key: str, tokens: int) -> Tranche:
        """The increment."""
        before = self.leased[key]
        tranche = super().refill(key, tokens)
        return Tranche(tranche.leased - before, tranche.free)


class Generous(Holder):
    """Gives what is left when it is too little."""

    def refill(self, key: str, tokens: int) -> Tranche:
        """All that is there."""
        return super().refill(key, min(tokens, self.free(key)) if tokens > self.pool.tokens else tokens)


class LastWriteWins(Holder):
    """Remembers what was taken when it looked first, and writes back its own sum."""

    def refill(self, key: str, tokens: int) -> Tranche:
        """On top of an old picture."""
        if key not in self.leased:
            self.seen = self.pool.taken[key]
        self.pool.taken[key] = self.seen + self.leased[key]
        return super().refill(key, tokens)


class OneForAll(Holder):
    """Knows one instance only."""

    def refill(self, key: str, tokens: int) -> Tranche:
        """Whatever the key."""
        return super().refill("", tokens)

    def hand_back(self, key: str, used: int) -> None:
        """Whatever the key."""
        super().hand_back("", used)


class Keeper(Holder):
    """Gives nothing back."""

    def hand_back(self, key: str, used: int) -> None:
        """All of it was spent."""
        super().hand_back(key, max(used, self.leased[key]))


class Doubling(Holder):
    """Gives back again when it is told again."""

    def hand_back(self, key: str, used: int) -> None:
        """Forgets nothing."""
        self.pool.taken[key] += used - self.leased[key]


class Clipping(Holder):
    """Does not believe that more was spent than leased."""

    def hand_back(self, key: str, used: int) -> None:
        """At most what was leased."""
        super().hand_back(key, min(used, self.leased[key]))


class Reclaiming(Holder):
    """Takes back the tranches of holders that are gone."""

    def __init__(self, pool: Pool) -> None:
        for holder, leased in pool.holders:
            if holder() is None:
                pool.taken.subtract(leased)
                leased.clear()
        super().__init__(pool)


def holders(kind: Callable[[Pool], BudgetScope]) -> Callable[[], Callable[[], BudgetScope]]:
    """What ``check_refills`` is given: a new ceiling each time, and its holders."""

    def new_ceiling() -> Callable[[], BudgetScope]:
        pool = Pool()
        return lambda: kind(pool)

    return new_ceiling


BROKEN_REFILLS: dict[str, Callable[[Pool], BudgetScope]] = {
    "leases_what_is_needed": Mean,
    "answers_with_the_total": Incremental,
    "all_or_nothing": Generous,
    "two_holders_never_exceed": LastWriteWins,
    "instances_are_apart": OneForAll,
    "hand_back_frees_the_rest": Keeper,
    "hand_back_counts_once": Doubling,
    "overspending_counts_in_full": Clipping,
    "the_dead_keep_their_tranche": Reclaiming,
    "room_is_what_is_free": Boasting,
}
"""Check of scopes that share a ceiling -> a holder that fails it and no other."""
