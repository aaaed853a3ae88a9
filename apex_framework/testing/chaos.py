"""Ports and wrappers that misbehave: a clock, a carrier, a transport; and cancellation at every await.

What production code gets through its ports it gets from here in a simulation, so no hot path carries a hook:
every callback of the loop is a point at which a run may be cut (``simulate``), every call of a simulated disk is
another (``SimulatedDisk``), every await a third (``cancel_everywhere``).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from ..errors import PayloadError
from ..interfaces import Codec, Message, RouteResult, Transport
from ..interfaces.message import MAX_PAYLOAD_BYTES
from ..timeloop import run
from .faults import Faults

TEN_YEARS_S = 10 * 365.25 * 86400
TICK_S = 0.015


class ChaosClock:
    """The loop's clock with faults: it leaps, and its wall time jumps. ``monotonic`` never goes back.

    The loop's own timers keep the loop's time, so after a leap they come late by this clock, as on a machine that
    was suspended. A coarse clock, on which many readings are equal, is the loop's ``tick_s``.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._time = loop.time
        self._offset = self._wall = 0.0
        self.leapt = False
        """Whether timers may be late by this clock."""

    def monotonic(self) -> float:
        """Seconds."""
        return self._time() + self._offset

    def wall(self) -> float:
        """Seconds since 1970, give or take the jumps so far."""
        return 1.75e9 + self._time() + self._wall

    def jump_wall(self, seconds: float) -> None:
        """Move the wall clock, back or forth."""
        self._wall += seconds

    def suspend(self, seconds: float, *, counted: bool) -> None:
        """The machine slept: wall time has passed, monotonic time only where the clock counts sleep."""
        self._wall += seconds
        if counted:
            self._offset += seconds
            self.leapt = True


class FaultyCarrier:
    """Brings messages to a router's ``send``, or loses, doubles, delays and swaps them on the way.

    Whatever is under way when faults heal still arrives: delays are timers, and a message that is held back to
    be overtaken waits at most a tenth of a second.
    """

    def __init__(
        self,
        send: Callable[[Message], RouteResult],
        faults: Faults,
        rng: random.Random,
    ) -> None:
        self._send, self._faults, self._rng = send, faults, rng
        self._held: dict[str, Message] = {}
        self.refused_payloads = self.smuggled = 0
        """Messages that the router would not take for their payload's sake; and such that it should not have taken."""

    def carry(self, message: Message) -> RouteResult | None:
        """Bring a message; None when it is not there yet, or never will be."""
        faults, rng = self._faults, self._rng
        if faults.strikes("drop", 0.03):
            return None
        if faults.strikes("duplicate", 0.05):
            self._later(replace(message), rng.random() * 0.2)
        if faults.strikes("delay", 0.05):
            self._later(message, rng.random())
            return None
        if message.sender not in self._held and faults.strikes("reorder", 0.05):
            self._held[message.sender] = message
            asyncio.get_running_loop().call_later(0.1, self._release, message.sender)
            return None
        result = self._deliver(message)
        self._release(message.sender)
        return result

    def _later(self, message: Message, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self._deliver, message)

    def _release(self, sender: str) -> None:
        if (held := self._held.pop(sender, None)) is not None:
            self._deliver(held)

    def _deliver(self, message: Message) -> RouteResult | None:
        oversized = self._faults.strikes("oversized", 0.01)
        if oversized:
            message = replace(message, payload={"blob": "x" * MAX_PAYLOAD_BYTES})
        try:
            result = self._send(message)
            self.smuggled += oversized
            return result
        except PayloadError:  # too large, or broken on its way
            self.refused_payloads += 1
        return None


class FaultyTransport:
    """A transport whose far end gets nothing readable now and then; otherwise the one inside."""

    def __init__(self, inner: Transport, faults: Faults) -> None:
        self._inner = inner
        self.name = inner.name
        self.fallback = inner.fallback
        self.local = inner.local and "corrupt" not in faults.enabled
        self.codec: Codec = inner.codec if self.local else _FaultyCodec(inner.codec, faults)

    async def open(self) -> Any:
        """Two connected ends of the transport inside."""
        return await self._inner.open()


class _FaultyCodec:
    def __init__(self, inner: Codec, faults: Faults) -> None:
        self._inner, self._faults = inner, faults
        self.schema_hash = inner.schema_hash
        self.size, self.encode = inner.size, inner.encode

    def decode(self, frame: bytes) -> tuple[bool, Message | None, str]:
        if self._faults.strikes("corrupt", 0.02):
            frame = frame[: len(frame) // 2]
        return self._inner.decode(frame)


def cancel_everywhere(
    scenario: Callable[[], Coroutine[Any, Any, Any]],
    after: Callable[[], None] = lambda: None,
    *,
    seed: int = 0,
    limit: int = 10_000,
) -> int:
    """Run ``scenario`` again and again, cancelled after its first callback, its second, …, until one run is not cut.

    A task suspends between two callbacks of the loop, so every await is met, and each in every state of what else
    is going on. ``after`` is called when a run has ended, to look at what it left. Returns how many runs were cut.
    Raises AssertionError when a run leaves a task behind, or is not over within ``limit`` callbacks.
    """
    for k in range(limit):
        cut = _Cut(k, limit)
        try:
            was_cut = run(cut.main(scenario), seed=seed, observe=cut.count)
        except BaseException as error:
            error.add_note(f"cancelled after callback {k}, seed {seed}")
            raise
        after()
        if not was_cut:
            return k
    raise AssertionError(f"more than {limit} callbacks")


class _Cut:
    """Cancels a task after so many callbacks of its loop."""

    def __init__(self, at: int, limit: int) -> None:
        self._left, self._limit = at, limit
        self._task: asyncio.Task[Any] | None = None

    def count(self, _handle: asyncio.Handle, _now: float) -> None:
        if self._task is not None and not self._task.done():
            if self._left == 0:
                self._task.cancel()
            self._left -= 1
            if self._left < -self._limit:
                raise AssertionError("the cancellation was swallowed")

    async def main(self, scenario: Callable[[], Coroutine[Any, Any, Any]]) -> bool:
        self._task = task = asyncio.ensure_future(scenario())
        await asyncio.wait([task])
        left = [t for t in asyncio.all_tasks() if t not in (task, asyncio.current_task())]
        assert not left, f"it left {left}"
        if not task.cancelled():
            task.result()
        return self._left < 0
