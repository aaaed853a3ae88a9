"""Conformance kit of blob stores."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from ..errors import StoreError
from ..interfaces import BlobStore
from .conformance import run_checks

KIND: Final = "store"
BAD_KEYS: Final = ("", "../outside", "a/../b", "UPPER", "with blank", "a" * 257, "null\0byte", "ünicode")

Make = Callable[[], BlobStore]


def check_store(make: Make) -> None:
    """Run every check on fresh stores, which may share their place. Raises ConformanceError."""
    run_checks(
        KIND,
        {
            "gets_what_was_put": lambda: check_gets_what_was_put(make),
            "put_replaces": lambda: check_put_replaces(make),
            "keys_are_apart": lambda: check_keys_are_apart(make),
            "stat_is_exact": lambda: check_stat_is_exact(make),
            "absent_is_a_key_error": lambda: check_absent_is_a_key_error(make),
            "delete_forgets": lambda: check_delete_forgets(make),
            "delete_is_idempotent": lambda: check_delete_is_idempotent(make),
            "bad_keys_are_refused": lambda: check_bad_keys_are_refused(make),
            "blobs_expire": lambda: check_blobs_expire(make),
            "close_is_idempotent": lambda: check_close_is_idempotent(make),
        },
    )


def check_gets_what_was_put(make: Make) -> None:
    """Any bytes come back, none and many included, also when many are put at once."""
    blobs = {f"got/{i}": data for i, data in enumerate((b"", b"a", bytes(range(256)) * 4096, b"\r\n\0"))}

    async def work(store: BlobStore) -> None:
        await asyncio.gather(*(store.put(key, data) for key, data in blobs.items()))
        for key, data in blobs.items():
            assert await store.get(key) == data, f"{len(data)} bytes came back changed"

    _with(make, work)


def check_put_replaces(make: Make) -> None:
    """The last put counts, longer or shorter."""

    async def work(store: BlobStore) -> None:
        for data in (b"first", b"second, longer", b"3"):
            await store.put("replaced", data)
            assert await store.get("replaced") == data, "an older blob came back"

    _with(make, work)


def check_keys_are_apart(make: Make) -> None:
    """Keys that look alike are different keys; one may begin another."""
    keys = ("k", "k/a", "k.a", "k-a", "k_a", "k/a.b", "k/a-b")

    async def work(store: BlobStore) -> None:
        for key in keys:
            await store.put(key, key.encode())
        for key in keys:
            assert await store.get(key) == key.encode(), f"{key!r} holds another key's blob"

    _with(make, work)


def check_stat_is_exact(make: Make) -> None:
    """Put and stat tell key, size and SHA-256, and what is left of its life."""
    data = b"some bytes"

    async def work(store: BlobStore) -> None:
        for ttl_s in (None, 1000.0):
            for info in (await store.put("stat", data, ttl_s=ttl_s), await store.stat("stat")):
                assert (info.key, info.size) == ("stat", len(data)), f"{info}"
                assert info.sha256 == hashlib.sha256(data).hexdigest(), f"sha256 is {info.sha256}"
                left = info.expires_s
                assert (left is None) if ttl_s is None else (left is not None and 0 < left <= ttl_s), (
                    f"{ttl_s} -> {left}"
                )

    _with(make, work)


def check_absent_is_a_key_error(make: Make) -> None:
    """Get and stat of what was never put raise KeyError."""

    async def work(store: BlobStore) -> None:
        assert await _missing(store.get("never/put")), "get of an absent blob"
        assert await _missing(store.stat("never/put")), "stat of an absent blob"

    _with(make, work)


def check_delete_forgets(make: Make) -> None:
    """A deleted blob is absent, and can be put again."""

    async def work(store: BlobStore) -> None:
        await store.put("deleted", b"old")
        await store.delete("deleted")
        with suppress(KeyError):
            assert await store.get("deleted") != b"old", "the blob is still there"
        await store.put("deleted", b"new")
        assert await store.get("deleted") == b"new", "a deleted key cannot be used again"

    _with(make, work)


def check_delete_is_idempotent(make: Make) -> None:
    """Deleting what is not there does nothing."""

    async def work(store: BlobStore) -> None:
        await store.delete("never/there")

    _with(make, work)


def check_bad_keys_are_refused(make: Make) -> None:
    """Empty, long, upper-case, non-ASCII keys and ``..`` raise StoreError."""

    async def work(store: BlobStore) -> None:
        for key in BAD_KEYS:
            try:
                await store.put(key, b"x")
            except StoreError:
                continue
            raise AssertionError(f"key {key[:20]!r} was taken")

    _with(make, work)


def check_blobs_expire(make: Make) -> None:
    """A blob is absent, for get and stat alike, when its time is over."""

    async def work(store: BlobStore) -> None:
        await store.put("brief", b"x", ttl_s=0.02)
        await asyncio.sleep(0.1)
        assert await _missing(store.get("brief"), found=b"x"), "get of an expired blob"

    _with(make, work)


def check_close_is_idempotent(make: Make) -> None:
    """Closing twice is closing once."""

    async def work(store: BlobStore) -> None:
        await store.close()

    _with(make, work)


async def _missing(asked: Awaitable[object], found: object = ...) -> bool:
    try:
        answer = await asked
    except KeyError:
        return True
    return found is not ... and answer != found


def _with(make: Make, work: Callable[[BlobStore], Awaitable[None]]) -> None:
    async def run() -> None:
        store = make()
        try:
            await work(store)
        finally:
            await store.close()

    asyncio.run(run())
