"""The switch engine: INTENT, PREPARE, QUIESCE, then COMMIT or ABORT."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

from ..errors import JournalError
from ..interfaces.message import AgentID, Epoch
from ..interfaces.topology import Roster, Topology
from ..ports import Clock
from .gate import EpochGate
from .patience import Ended, Patience, Work
from .router import Router
from .routes import RouteTable
from .switchlog import SwitchLog, SwitchRecord


class AbortReason(StrEnum):
    """Why a switch did not happen."""

    UNKNOWN_TOPOLOGY = "unknown_topology"
    PREPARE_DEADLINE = "prepare_deadline"
    """A warm-up took too long."""
    PREPARE_FAILED = "prepare_failed"
    """A warm-up, the topology or a lane plugin raised."""
    QUIESCE_DEADLINE = "quiesce_deadline"
    """Messages of the old epoch still waited."""
    JOURNAL = "journal"
    """The switch log cannot be written, or how its last commit ended is unknown."""
    EPISODE_OVER = "episode_over"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class SwitchStats:
    """What a switch took and did.

    ``phase_ms`` by phase on the engine's clock: probe (when there was one), prepare, quiesce, commit; a
    phase that was not reached is missing. ``total_ms`` is measured around all of them.
    """

    phase_ms: Mapping[str, float] = field(default_factory=dict)
    migrated: int = 0
    dropped_by_reason: Mapping[str, int] = field(default_factory=dict)
    total_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class SwitchResult:
    """How a switch ended; ``epoch`` is the one in force now.

    ``reason`` is an AbortReason, empty after a commit; ``detail`` says who or what it was.
    """

    ok: bool
    epoch: Epoch
    stats: SwitchStats
    origin: str
    target: str
    reason: str = ""
    detail: str = ""


class _Aborted(Exception):
    def __init__(self, reason: AbortReason, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail


class SwitchEngine:
    """Changes the topology under running agents.

    ``on_busy`` says what happens to messages that wait for an agent with a message in its hands:
    ``drain`` waits for them until the deadline and then aborts, ``migrate`` takes them along into the
    next epoch. Messages in agents' hands never hold a switch up; what comes of them routes by the
    table of its time.

    ``prepare`` are warm-ups, by name or not, each bounded by ``prepare_deadline_ms``. They run before the
    gate is shut: with ``parallel_prepare`` all together, while the route table is compiled and the lanes
    of the next epoch are made; without it one after the other, after that.

    ``log`` keeps what was decided: its ``commit`` is the commit point, after it nothing can abort.
    """

    def __init__(
        self,
        router: Router,
        topologies: Mapping[str, Topology],
        *,
        clock: Clock,
        deadline_ms: float = 50.0,
        on_busy: str = "drain",
        prepare: Mapping[str, Work] | Mapping[AgentID, Work] | Sequence[Work] = (),
        prepare_deadline_ms: float = 1000.0,
        parallel_prepare: bool = True,
        log: SwitchLog | None = None,
    ) -> None:
        if on_busy not in ("drain", "migrate"):
            raise ValueError(f"on_busy is {on_busy!r}, not 'drain' or 'migrate'")
        self.router = router
        self.topologies = dict(topologies)
        self.committed = 0
        """Switches that happened."""
        self.aborted: Counter[str] = Counter()
        """Switches that did not, by AbortReason, cancelled ones included (``switch_abort_total``)."""
        self._gate = EpochGate(router)
        self._clock = clock
        self._deadline_s = deadline_ms / 1000
        self._migrate = on_busy == "migrate"
        named = prepare.items() if isinstance(prepare, Mapping) else enumerate(prepare, 1)
        self._warm_ups = {str(name): work for name, work in named}
        self._patience = Patience(clock)
        self._prepare_deadline_s = prepare_deadline_ms / 1000
        self._parallel = parallel_prepare
        self._compiled_for: Roster | None = None
        self._tables: dict[str, RouteTable] = {}
        """Compiled tables for that roster, by target."""
        self._log = log
        self._in_doubt = ""
        self._switching = False

    def active(self) -> tuple[str, Epoch]:
        """Name of the topology in force, and its epoch."""
        return self.router.table.name, self.router.epoch

    async def switch_to(self, target: str, roster: Roster | None = None) -> SwitchResult:
        """Switch to a topology, and to another roster where one is given.

        Whatever stands in the way aborts: the result says why (AbortReason) and everything is as before.
        Cancelled at any point it leaves the old epoch or the new one, complete, and tells the log. Raises
        RuntimeError when a switch is in flight. Must not be awaited by the one who is to drain a lane.
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
        record = SwitchRecord(self.router.table.name, target, Epoch(self.router.epoch + 1), roster)
        begun = self._clock.monotonic()
        phase_ms: dict[str, float] = {}

        def took(since: float) -> float:
            return (self._clock.monotonic() - since) * 1000

        logged = False
        try:
            with self._phase("prepare", phase_ms):
                if target not in self.topologies:
                    raise _Aborted(AbortReason.UNKNOWN_TOPOLOGY, target)
                logged = self._intend(record)
                table = await self._prepared(target, roster)
            self._check_open()
            with self._phase("quiesce", phase_ms):
                self._gate.shut()
                await self._quiesced()
            committing = self._clock.monotonic()
            self._decide(record)
        except _Aborted as stop:
            detail = self._undo(record, stop.reason, stop.detail, logged)
            stats = SwitchStats(phase_ms, total_ms=took(begun))
            return SwitchResult(False, self.router.epoch, stats, record.origin, target, stop.reason, detail)
        except BaseException as error:
            if trouble := self._undo(record, AbortReason.CANCELLED, "", logged):
                error.add_note(trouble)
            raise
        # The commit point is behind us: outside the try, nothing may tell the log of an abort any more.
        moved, dropped = self._gate.commit(table)
        self.committed += 1
        phase_ms["commit"] = took(committing)
        stats = SwitchStats(phase_ms, moved, dropped, took(begun))
        return SwitchResult(True, self.router.epoch, stats, record.origin, target)

    @contextmanager
    def _phase(self, name: str, phase_ms: dict[str, float]) -> Iterator[None]:
        started = self._clock.monotonic()
        try:
            yield
        finally:
            phase_ms[name] = (self._clock.monotonic() - started) * 1000

    def _check_open(self) -> None:
        if self.router.closed:
            raise _Aborted(AbortReason.EPISODE_OVER)

    def _intend(self, record: SwitchRecord) -> bool:
        """Tell the log that a switch begins; whether there is a log that will have to hear how it ended."""
        if self._in_doubt:
            raise _Aborted(AbortReason.JOURNAL, self._in_doubt)
        if self._log is None:
            return False
        try:
            self._log.intent(record)
        except (OSError, JournalError) as error:
            raise _Aborted(AbortReason.JOURNAL, str(error)) from error
        return True

    def _decide(self, record: SwitchRecord) -> None:
        """The commit point."""
        if self._log is None:
            return
        try:
            self._log.commit(record)
        except BaseException as error:
            refused = isinstance(error, OSError | JournalError)
            if not refused or getattr(error, "in_doubt", False):
                # Neither written nor refused: another commit after it could contradict it.
                self._in_doubt = f"how the commit of epoch {record.epoch} ended is unknown: {error!r}"
            if not refused:
                raise
            raise _Aborted(AbortReason.JOURNAL, str(error)) from error

    def _undo(self, record: SwitchRecord, reason: AbortReason, detail: str, logged: bool) -> str:
        """Stay in the old epoch, and tell the log; returns the detail, with what the log had to say."""
        if self._gate.is_shut:
            self._gate.abort()
        self.aborted[reason] += 1
        if logged and self._log is not None:
            try:
                self._log.abort(record, reason)
            except (OSError, JournalError) as error:  # nothing is lost: a switch without a COMMIT never happened
                detail = f"{detail}; abort not recorded: {error}".removeprefix("; ")
        return detail

    async def _prepared(self, target: str, roster: Roster) -> RouteTable:
        """The compiled table once all warm-ups are done."""
        if self._parallel and self._warm_ups:
            with self._patience.begin(self._warm_ups, self._prepare_deadline_s) as batch:
                await asyncio.sleep(0)  # the warm-ups have begun, and wait, when this task compiles
                table = self._built(target, roster)
                self._check_warm(await batch.ended(first_failure=True))
            return table
        table = self._built(target, roster)
        for name, work in self._warm_ups.items():
            with self._patience.begin({name: work}, self._prepare_deadline_s) as batch:
                self._check_warm(await batch.ended())
        return table

    def _check_warm(self, ends: Mapping[str, Ended]) -> None:
        for name, end in ends.items():
            if isinstance(end.error, TimeoutError):
                raise _Aborted(AbortReason.PREPARE_DEADLINE, f"warm-up {name}: {end.error}")
            if end.error is not None:
                raise _Aborted(AbortReason.PREPARE_FAILED, f"warm-up {name}: {end.words}")

    def _built(self, target: str, roster: Roster) -> RouteTable:
        """The table, with the ways that are in use now looked up, and the lanes of the next epoch."""
        try:
            if roster != self._compiled_for:  # a topology is pure: one table serves until the roster changes
                self._compiled_for, self._tables = roster, {}
            table = self._tables.get(target) or RouteTable.compile(self.topologies[target], roster)
            self._tables[target] = table
            for origin, audience in list(self.router.table.plans):
                table.plan(origin, audience)
            self._gate.prepare(roster)
        except Exception as error:
            raise _Aborted(AbortReason.PREPARE_FAILED, f"{type(error).__name__}: {error}") from error
        return table

    async def _quiesced(self) -> None:
        """Wait until the old epoch's lanes are empty; abort when the deadline passes first."""
        if self._gate.drained(self._migrate):
            return
        quiet: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def changed() -> None:
            if not quiet.done() and (self.router.closed or self._gate.drained(self._migrate)):
                quiet.set_result(None)

        self._gate.watch(changed)
        try:
            async with asyncio.timeout(self._deadline_s):
                await quiet
        except TimeoutError:
            if not self._gate.drained(self._migrate):
                held_up = ", ".join(self._gate.undrained(self._migrate))
                raise _Aborted(AbortReason.QUIESCE_DEADLINE, f"messages wait for {held_up}") from None
        finally:
            self._gate.watch(None)
        self._check_open()
