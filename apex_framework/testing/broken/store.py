"""One broken store per check of the kit: each fails exactly that one."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable
from dataclasses import replace

from ...errors import StoreError
from ...interfaces import BlobInfo, BlobStore


class Sound:
    """A store with nothing wrong: blobs in a dict."""

    def __init__(self) -> None:
        self._blobs: dict[str, tuple[bytes, float | None]] = {}

    async def put(self, key: str, data: bytes, *, ttl_s: float | None = None) -> BlobInfo:
        """Keeps it."""
        self._check(key)
        self._blobs[self._place(key)] = (data, None if ttl_s is None else time.monotonic() + ttl_s)
        return await self.stat(key)

    async def get(self, key: str) -> bytes:
        """Finds it."""
        data, until = self._blobs[self._place(key)]
        if until is not None and time.monotonic() >= until:
            raise KeyError(key)
        return data

    async def stat(self, key: str) -> BlobInfo:
        """Describes it."""
        data = await self.get(key)
        until = self._blobs[self._place(key)][1]
        left = None if until is None else until - time.monotonic()
        return BlobInfo(key, len(data), hashlib.sha256(data).hexdigest(), left)

    async def delete(self, key: str) -> None:
        """Drops it."""
        self._blobs.pop(self._place(key), None)

    async def close(self) -> None:
        """Nothing."""

    def _check(self, key: str) -> None:
        if not re.fullmatch(r"[a-z0-9/._-]{1,256}", key) or ".." in key:
            raise StoreError(f"bad key {key!r}")

    def _place(self, key: str) -> str:
        return key


class StripsEnds(Sound):
    """Takes bytes for text."""

    async def get(self, key: str) -> bytes:
        """Without line ends."""
        return (await super().get(key)).rstrip(b"\r\n\0")


class KeepsTheFirst(Sound):
    """Ignores a second put, but for expired and deleted keys."""

    async def put(self, key: str, data: bytes, *, ttl_s: float | None = None) -> BlobInfo:
        """Only new keys."""
        if key == "replaced" and key in self._blobs:
            return await self.stat(key)
        return await super().put(key, data, ttl_s=ttl_s)


class FlattensKeys(Sound):
    """Makes one file name of a path."""

    def _place(self, key: str) -> str:
        return key.replace("/", "-")


class NoHash(Sound):
    """Does not tell the hash."""

    async def stat(self, key: str) -> BlobInfo:
        """With an empty hash."""
        return replace(await super().stat(key), sha256="")


class AbsentIsEmpty(Sound):
    """Has an empty blob for every key."""

    async def get(self, key: str) -> bytes:
        """Or nothing."""
        try:
            return await super().get(key)
        except KeyError:
            return b""


class NeverForgets(Sound):
    """Deletes nothing."""

    async def delete(self, key: str) -> None:
        """Pretends."""


class DeletesOnce(Sound):
    """Cannot delete what is not there."""

    async def delete(self, key: str) -> None:
        """Or fails."""
        del self._blobs[key]


class TakesAnyKey(Sound):
    """Does not look at keys."""

    def _check(self, key: str) -> None:
        pass


class NeverExpires(Sound):
    """Tells the time to live and goes on after it."""

    async def get(self, key: str) -> bytes:
        """Whatever the time."""
        return self._blobs[key][0]


class ClosesOnce(Sound):
    """Cannot be closed twice."""

    closed = False

    async def close(self) -> None:
        """Or fails."""
        if self.closed:
            raise RuntimeError("already closed")
        self.closed = True


BROKEN: dict[str, Callable[[], BlobStore]] = {
    "gets_what_was_put": StripsEnds,
    "put_replaces": KeepsTheFirst,
    "keys_are_apart": FlattensKeys,
    "stat_is_exact": NoHash,
    "absent_is_a_key_error": AbsentIsEmpty,
    "delete_forgets": NeverForgets,
    "delete_is_idempotent": DeletesOnce,
    "bad_keys_are_refused": TakesAnyKey,
    "blobs_expire": NeverExpires,
    "close_is_idempotent": ClosesOnce,
}
"""Check -> a store that fails it."""
