"""Ceilings per role: they are ceilings, not shares, so they may add up to more than the episode's."""

from __future__ import annotations

from collections.abc import Mapping

from apex_framework.interfaces import CallTags, Limits, ceiling

CEILINGS: Mapping[str, int] = {
    "planner": 3_000,
    "coder": 6_000,
    "runner": 3_000,
    "critic": 2_000,
    "summarizer": 1_000,
}
"""Tokens that all holders of a role may take in one episode."""


class RoleScope:
    """A role's calls take at most its ceiling; any role without one, a single agent's included, the episode's budget.

    ``ceilings`` replaces or adds ceilings by role. Raises ConfigError for one that is no integer >= 0.
    """

    name = "role"
    parent: str | None = "episode"

    def __init__(self, ceilings: Mapping[str, int] | None = None) -> None:
        self._ceilings = {**CEILINGS, **{role.lower(): tokens for role, tokens in (ceilings or {}).items()}}
        for role, tokens in self._ceilings.items():
            ceiling(tokens, f"ceiling of role {role!r}")

    def key(self, tags: CallTags) -> str:
        return f"{tags.episode_id}/{tags.role}"

    def limits(self, tags: CallTags) -> Limits:
        tokens = self._ceilings.get(tags.role.lower(), tags.token_budget)
        return Limits(ceiling(tokens, "budget of an episode"))
