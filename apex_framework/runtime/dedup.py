"""Which messages a receiver has had already: digests in bounded memory. A duplicate is flagged, never dropped."""

from __future__ import annotations

from collections import OrderedDict

DEDUP_CAP = 50_000
"""The specification's number of messages remembered per receiver; full, that takes 14 MB (CPython 3.11)."""
DEDUP_TTL_S = 600.0


class DedupStore:
    """Remembers ``cap`` messages for ``ttl_s`` seconds each; the one not seen for longest goes first.

    A message is remembered as the 8 bytes of ``hash((episode_id, msg_id))``, which Python keys anew in every
    process, so nobody can choose ids that collide; two of 50,000 ids do with a probability below 1e-9.
    """

    __slots__ = ("_cap", "_due", "_seen", "_ttl_s")

    def __init__(self, cap: int = DEDUP_CAP, ttl_s: float = DEDUP_TTL_S) -> None:
        self._cap, self._ttl_s = cap, ttl_s
        self._seen: OrderedDict[int, float] = OrderedDict()
        """Digest -> when it was last seen, least recent first."""
        self._due = 0.0
        """Nothing expires before this."""

    def seen(self, episode_id: str, msg_id: str, now: float) -> bool:
        """Whether it was seen within the time to live; remembers it as seen at ``now``, clock seconds."""
        seen, digest = self._seen, hash((episode_id, msg_id))
        last = seen.pop(digest, None)
        seen[digest] = now
        if len(seen) > self._cap:
            seen.popitem(last=False)
        if now >= self._due:
            self._expire(now)
        return last is not None and last > now - self._ttl_s

    def _expire(self, now: float) -> None:
        seen = self._seen
        while seen[first := next(iter(seen))] <= now - self._ttl_s:
            del seen[first]
        self._due = seen[first] + self._ttl_s

    def __len__(self) -> int:
        """Messages remembered."""
        return len(self._seen)
