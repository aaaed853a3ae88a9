"""The trace of a run under virtual time: every callback and every event, in order, as one hash."""

from __future__ import annotations

import asyncio
import functools
import hashlib
from collections import deque
from typing import Any

from ..events import MessageMoved
from ..timeloop import NumberedTask


class Trace:
    """Pass ``callback`` as ``observe`` to a virtual-time loop and ``event`` as ``on_event`` to a router.

    Two runs that did the same things at the same times have the same ``hash``, in any process and under any hash
    seed. asyncio needs other callbacks in other Python versions, so hashes are compared under one of them.
    ``tail`` holds the last lines, for a failure's report.
    """

    def __init__(self, keep: int = 20) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self.steps = 0
        """Callbacks so far."""
        self.tail: deque[str] = deque(maxlen=keep)

    def callback(self, handle: asyncio.Handle, now: float) -> None:
        """Take in one callback of the loop."""
        self.steps += 1
        self.add(f"{now!r} {name_of(handle)}")

    def event(self, event: MessageMoved) -> None:
        """Take in one event of a router."""
        self.add(
            f"{event.ts!r} {event.what} {event.msg_id} {event.holder}>{event.receiver}"
            f" {event.epoch} {event.hop} {event.reason}"
        )

    def add(self, line: str) -> None:
        """Take in anything else."""
        self._hash.update(line.encode())
        self._hash.update(b"\n")
        self.tail.append(line)

    @property
    def hash(self) -> str:
        """32 hexadecimal digits over everything so far."""
        return self._hash.hexdigest()


def name_of(handle: asyncio.Handle) -> str:
    """A callback's name, without an address in it: a task's number and coroutine, or a function's qualified name."""
    callback: Any = handle._callback  # type: ignore[attr-defined]  # typeshed leaves it out
    while isinstance(callback, functools.partial):
        callback = callback.func
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, NumberedTask):
        return f"{owner.number}:{getattr(owner.get_coro(), '__qualname__', '')}"
    return getattr(callback, "__qualname__", type(callback).__name__)
