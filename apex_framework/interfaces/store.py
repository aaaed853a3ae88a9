"""Store: large blobs by key, so that messages carry pointers (anchors) instead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class BlobInfo:
    """What a store knows about a blob. ``expires_s`` is the rest of its life in seconds, None for ever."""

    key: str
    size: int
    sha256: str
    expires_s: float | None = None


@runtime_checkable
class BlobStore(Protocol):
    """Bytes by key, with a time to live. Keys are non-empty, at most 256 characters, ``[a-z0-9/._-]``, without ``..``."""

    async def put(self, key: str, data: bytes, *, ttl_s: float | None = None) -> BlobInfo:
        """Store or replace a blob atomically. Raises StoreError for a bad key or a full store."""
        ...

    async def get(self, key: str) -> bytes:
        """The blob. Raises KeyError when it is absent or has expired."""
        ...

    async def stat(self, key: str) -> BlobInfo:
        """Facts about a blob. Raises KeyError when it is absent or has expired."""
        ...

    async def delete(self, key: str) -> None:
        """Forget a blob; nothing happens when it is absent."""
        ...

    async def close(self) -> None:
        """Release the store; idempotent."""
        ...
