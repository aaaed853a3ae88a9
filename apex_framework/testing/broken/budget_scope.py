"""One broken budget scope per check of the kit: each fails exactly that one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...interfaces.budget import BudgetScope, CallTags, Limits


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
