"""The ceiling of one episode."""

from __future__ import annotations

from apex_framework.interfaces import CallTags, Limits


class EpisodeScope:
    """All calls of an episode together take at most its token budget. ``ms`` bounds their time, if given."""

    name = "episode"
    parent: str | None = None

    def __init__(self, ms: int | None = None) -> None:
        self._ms = ms

    def key(self, tags: CallTags) -> str:
        return tags.episode_id

    def limits(self, tags: CallTags) -> Limits:
        return Limits(tags.token_budget, self._ms)
