"""A switch log in memory that can fail, and a way to cancel work at each of its awaits."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from dataclasses import dataclass, field
from typing import Any

from apex_framework.runtime import SwitchRecord


@dataclass
class Logbook:
    """Keeps what it is told, in order; raises ``fails[what]`` instead of keeping it."""

    fails: dict[str, BaseException] = field(default_factory=dict)
    told: list[tuple[str, SwitchRecord, str]] = field(default_factory=list)

    def _tell(self, what: str, record: SwitchRecord, reason: str = "") -> None:
        if what in self.fails:
            raise self.fails[what]
        self.told.append((what, record, reason))

    def intent(self, record: SwitchRecord) -> None:
        self._tell("intent", record)

    def commit(self, record: SwitchRecord) -> None:
        self._tell("commit", record)

    def abort(self, record: SwitchRecord, reason: str) -> None:
        self._tell("abort", record, reason)

    @property
    def words(self) -> list[str]:
        """What was told: ``intent``, ``commit`` or ``abort reason``."""
        return [f"{what} {reason}".strip() for what, _, reason in self.told]

    @property
    def decided(self) -> tuple[str, int]:
        """Topology and epoch of the last commit: where a recovery would go on."""
        commits = [record for what, record, _ in self.told if what == "commit"]
        return (commits[-1].target, commits[-1].epoch) if commits else ("", 0)


class _Counting:
    """Awaits work and cancels its own task the n-th time that it is suspended."""

    def __init__(self, work: Coroutine[Any, Any, Any], n: int) -> None:
        self.work, self.n, self.seen = work, n, 0

    def __await__(self) -> Generator[Any, Any, Any]:
        inner = self.work.__await__()
        task = asyncio.current_task()
        assert task is not None
        answer: Any = None
        error: BaseException | None = None
        while True:
            try:
                waits_for = inner.send(answer) if error is None else inner.throw(error)
            except StopIteration as end:
                return end.value
            self.seen += 1
            if self.seen == self.n:
                asyncio.get_running_loop().call_soon(task.cancel)
            answer, error = None, None
            try:
                answer = yield waits_for
            except BaseException as thrown:  # noqa: BLE001 - handed on to the work
                error = thrown


async def cancelled_at(work: Coroutine[Any, Any, Any], n: int) -> bool:
    """Run work in a task that is cancelled at its n-th suspension; false when it ended before."""

    async def counted() -> int:
        counting = _Counting(work, n)
        try:
            await counting
        finally:
            seen.append(counting.seen)
        return counting.seen

    seen: list[int] = []
    task = asyncio.ensure_future(counted())
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()
    return seen[0] >= n
