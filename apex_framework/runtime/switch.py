"""The switch engine: PREPARE, QUIESCE, then COMMIT or ABORT."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ..interfaces.message import Epoch
from ..interfaces.topology import Roster, Topology
from ..ports import Clock
from .gate import EpochGate
from .router import Router
from .routes import RouteTable


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """What a journal writes at the commit point: from here on recovery rolls forward."""

    origin: str
    target: str
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class SwitchStats:
    """What a switch took and did; ``phase_ms`` by phase (prepare, quiesce, commit) on the router's clock."""

    phase_ms: Mapping[str, float] = field(default_factory=dict)
    migrated: int = 0
    dropped_by_reason: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SwitchResult:
    """How a switch ended; ``epoch`` is the one in force now, ``reason`` why it was aborted."""

    ok: bool
    epoch: Epoch
    stats: SwitchStats
    origin: str
    target: str
    reason: str = ""


class SwitchEngine:
    """Changes the topology under running agents.

    ``on_busy`` says what happens to messages that wait for an agent with a message in its hands:
    ``drain`` waits for them until the deadline and then aborts, ``migrate`` takes them along into the
    next epoch. Messages in agents' hands never hold a switch up; what comes of them routes by the
    table of its time. ``prepare`` are warm-ups, run together before the gate is shut.
    """

    def __init__(
        self,
        router: Router,
        topologies: Mapping[str, Topology],
        *,
        clock: Clock,
        deadline_ms: float = 50.0,
        on_busy: str = "drain",
        prepare: Sequence[Callable[[], Awaitable[None]]] = (),
        prepare_deadline_ms: float = 1000.0,
        commit_record: Callable[[CommitRecord], None] | None = None,
    ) -> None:
        if on_busy not in ("drain", "migrate"):
            raise ValueError(f"on_busy is {on_busy!r}, not 'drain' or 'migrate'")
        self.router = router
        self.topologies = dict(topologies)
        self._gate = EpochGate(router)
        self._clock = clock
        self._deadline_s = deadline_ms / 1000
        self._migrate = on_busy == "migrate"
        self._prepare = tuple(prepare)
        self._prepare_deadline_s = prepare_deadline_ms / 1000
        self._commit_record = commit_record
        self._switching = False

    def active(self) -> tuple[str, Epoch]:
        """Name of the topology in force, and its epoch."""
        return self.router.table.name, self.router.epoch

    async def switch_to(self, target: str, roster: Roster | None = None) -> SwitchResult:
        """Switch to a topology, and to another roster where one is given.

        An unknown topology, one that cannot serve the roster, a failed warm-up, a passed deadline or
        an unwritable commit record abort: the result says why and everything is as before. Cancelled
        at any point it leaves the old epoch or the new one, complete. Raises RuntimeError when a
        switch is in flight. Must not be awaited by the one who is to drain a lane.
        """
        if self._switching:
            raise RuntimeError("a switch is in flight")
        self._switching = True
        try:
            return await self._switch(target, roster or self.router.table.roster)
        finally:
            self._switching = False

    execute_switch = switch_to

    async def _switch(self, target: str, roster: Roster) -> SwitchResult:
        origin = self.router.table.name
        now = self._clock.monotonic
        phase_ms: dict[str, float] = {}
        started = now()

        def ended(ok: bool, reason: str = "", moved: int = 0, dropped: Mapping[str, int] | None = None) -> SwitchResult:
            stats = SwitchStats(phase_ms, moved, dropped or {})
            return SwitchResult(ok, self.router.epoch, stats, origin, target, reason)

        table, reason = await self._prepared(target, roster)
        phase_ms["prepare"] = (now() - started) * 1000
        if table is None:
            return ended(False, reason)
        if self.router.closed:
            return ended(False, "episode_over")
        started = now()
        self._gate.shut()
        try:
            drained = await self._quiesced()
            phase_ms["quiesce"] = (now() - started) * 1000
            if self.router.closed:
                return ended(False, "episode_over")
            if not drained:
                return ended(False, "quiesce_deadline")
            started = now()
            if self._commit_record is not None:
                try:
                    self._commit_record(CommitRecord(origin, target, Epoch(self.router.epoch + 1)))
                except OSError as error:
                    return ended(False, f"journal: {error}")
            moved, dropped = self._gate.commit(table)
            phase_ms["commit"] = (now() - started) * 1000
            return ended(True, "", moved, dropped)
        finally:
            if self._gate.is_shut:
                self._gate.abort()

    async def _prepared(self, target: str, roster: Roster) -> tuple[RouteTable | None, str]:
        """The compiled table once all warm-ups are done; or None and why not."""
        topology = self.topologies.get(target)
        if topology is None:
            return None, "unknown_topology"
        try:
            table = RouteTable.compile(topology, roster)
            async with asyncio.timeout(self._prepare_deadline_s), asyncio.TaskGroup() as group:
                for warm in self._prepare:
                    group.create_task(_finish(warm()))
        except TimeoutError:
            return None, "prepare_deadline"
        except ExceptionGroup as failures:
            return None, f"prepare: {failures.exceptions[0]}"
        except Exception as error:  # noqa: BLE001 - a plugin's routes(): whatever it raises, the old epoch goes on
            return None, f"prepare: {error}"
        return table, ""

    async def _quiesced(self) -> bool:
        """Wait until the old epoch's lanes are empty; false when the deadline passes first."""
        if self._gate.drained(self._migrate):
            return True
        quiet: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def changed() -> None:
            if not quiet.done() and (self.router.closed or self._gate.drained(self._migrate)):
                quiet.set_result(None)

        self._gate.watch(changed)
        try:
            async with asyncio.timeout(self._deadline_s):
                await quiet
        except TimeoutError:
            return self._gate.drained(self._migrate)
        finally:
            self._gate.watch(None)
        return True


async def _finish(work: Awaitable[None]) -> None:
    await work
