"""Something that belongs to an event loop, for an owner that outlives loops: one per loop, closed when its loop ends."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class PerLoop(Generic[T]):
    """``opened`` is a generator that yields the thing once and then closes it.

    A generator, because a loop's runner (``asyncio.run``) ends those that are left over before it closes the loop.
    """

    def __init__(self, opened: Callable[[], AsyncGenerator[T, None]]) -> None:
        self._opened = opened
        self._things: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[AsyncGenerator[T, None], T]]
        self._things = weakref.WeakKeyDictionary()

    async def get(self) -> T:
        """The running loop's, opened if need be."""
        loop = asyncio.get_running_loop()
        found = self._things.get(loop)
        if found is None:
            opening = self._opened()
            found = self._things[loop] = (
                opening,
                await anext(opening),
            )  # the generator awaits nothing before it yields
        return found[1]

    async def close(self) -> None:
        """Close the running loop's; idempotent. The next ``get`` opens another."""
        if (found := self._things.pop(asyncio.get_running_loop(), None)) is not None:
            await found[0].aclose()
