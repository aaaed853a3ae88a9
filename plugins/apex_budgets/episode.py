"""The ceiling of one episode."""

from __future__ import annotations

from apex_framework.interfaces import CallTags, Limits, ceiling


class EpisodeScope:
    """All calls of an episode together take at most its token budget. ``ms`` bounds their time, if given.

    A budget that is no integer >= 0 admits nothing. Raises ConfigError for such an ``ms``.
    """

    name = "episode"
    parent: str | None = None

    def __init__(self, ms: int | None = None) -> None:
        self._ms = None if ms is None else ceiling(ms, "milliseconds of an episode")

    def key(self, tags: CallTags) -> str:
        return tags.episode_id

    def limits(self, tags: CallTags) -> Limits:
        return Limits(ceiling(tags.token_budget, "budget of an episode"), self._ms)
