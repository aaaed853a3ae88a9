"""The pump: one agent's loop of lease, handle and ack, and what becomes of a message that it fails on."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ..errors import PluginError
from ..interfaces import Agent, Intercepted, Message, Point
from ..runtime import Lease
from ..services import chain
from ..services.advice import is_interrupt
from .desk import Desk
from .durable_desk import DurableDesk
from .keeper import AHEAD
from .supervision import Unit

if TYPE_CHECKING:
    from .session import Session

log = logging.getLogger(__name__)


class Pump:
    """Serves one agent of a session, one message at a time."""

    def __init__(self, session: Session, agent: Agent) -> None:
        self._session, self._agent = session, agent
        self._router, self._crew, self._keeper = session.router, session.crew, session.keeper

    async def run(self) -> None:
        """Until the session ends, or the agent is let go in the middle of a message: then another pump serves it."""
        while not self._crew.closing:
            try:
                lease = await self._router.lease(self._agent.id)
            except asyncio.CancelledError:
                if self._crew.closing or not self._revived():
                    raise
                continue
            except PluginError as error:  # its lane broke its contract; a plain queue serves on
                self._session.blame(self._agent, "its lane", error)
                continue
            if lease is None:
                return
            if self._keeper is not None:
                await self._keeper.log.room(AHEAD)
                if self._keeper.settled(self._agent, lease):
                    continue
            if lease.is_relay:
                self._relay(lease)
            elif not await self._handle(lease):
                return

    def _revived(self) -> bool:
        """After a cancellation that came too late for the handler that asked for it; false when nobody asked."""
        task, asked = asyncio.current_task(), False
        while task is not None and task.cancelling():
            task.uncancel()
            asked = True
        if asked:
            self._session.faults.append(f"{self._agent.id}: CancelledError: cancelled its own task")
        return asked

    def _relay(self, lease: Lease) -> None:
        self._session.overhear(self._agent, lease.message)
        if self._keeper is not None:
            self._keeper.relayed(self._agent, lease)
            return
        self._router.ack(lease)
        self._session.check_quiet()

    async def _handle(self, lease: Lease) -> bool:
        """One message; False when this task was let go, and another one has taken its place."""
        error = ""
        desk = self._desk(lease)
        unit = self._unit(lease, desk)
        try:
            await unit.run(self._around_handle(desk, lease.message))
            if unit.expired:
                raise TimeoutError  # it swallowed its cancellation, and ended all the same
            if self._keeper is None:
                self._router.ack(lease)
            elif isinstance(desk, DurableDesk):
                self._keeper.done(self._agent, lease, desk.sent, desk.finished, self._session.count + 1)
                self._session.counted(desk.finished)
        except BaseException as fault:
            if unit.closed or is_interrupt(fault):
                raise
            if unit.abandoned:
                return False
            if isinstance(fault, asyncio.CancelledError) and self._crew.closing:
                self._router.nack(lease, "cancelled")
                raise
            if self._keeper is not None and self._keeper.log.failure is not None:
                raise  # nothing can be written any more, not even this
            error = self._failed(lease, unit, fault)
        finally:
            desk.leave()
            self._crew.end(unit)
        if self._keeper is None:
            self._session.told(self._session.counted(desk.finished), self._agent, lease.message, error)
        return True

    def _desk(self, lease: Lease) -> Desk:
        if self._keeper is None:
            return Desk(self._session, self._agent)
        return DurableDesk(self._session, self._agent, self._keeper, lease.message)

    def _unit(self, lease: Lease, desk: Desk) -> Unit:
        def let_go(unit: Unit) -> None:
            desk.leave()
            self._abandon(lease, unit)

        session = self._session
        unit = Unit(
            grace_s=session.cancel_grace_s,
            let_go=let_go,
            deadline_s=session.handler_deadline_s,
            renew=lambda: self._router.renew(lease),
            every_s=(lease.deadline - session.clock.monotonic()) / 3,
        )
        self._crew.begin(unit)
        return unit

    async def _around_handle(self, desk: Desk, message: Message) -> None:
        agent = self._agent

        async def handle(passing: Intercepted) -> None:
            answer: object = await agent.handle(passing.subject, desk)  # type: ignore[func-returns-value]  # a plugin may answer all the same
            if answer is not None:  # its work is done: not a reason to do it again
                error = TypeError(f"handle returned {type(answer).__name__}, not None")
                self._session.blame(agent, message.msg_id, error)

        passing = Intercepted(Point.HANDLE, message, str(agent.id), agent.role, self._session.episode_id)
        await chain(self._session.services.interceptors, passing, handle)

    # --- failures -------------------------------------------------------------------------------

    def _failed(self, lease: Lease, unit: Unit, fault: BaseException) -> str:
        """Give a message back; the error as it is told."""
        reason = type(fault).__name__
        if unit.expired:
            fault, reason = TimeoutError(f"no end within {self._session.handler_deadline_s:g} s"), "deadline"
        while unit.cancelled:  # the agent cancelled the task that it works in; nobody else has a reason to
            unit.task.uncancel()
        error = self._session.blame(self._agent, lease.message.msg_id, fault)
        self._give_back(lease, error, reason)
        return error

    def _give_back(self, lease: Lease, error: str, reason: str) -> None:
        if self._keeper is not None:
            self._keeper.failed(self._agent, lease.message, error, self._session.counted(""))
        self._router.nack(lease, reason)

    def _abandon(self, lease: Lease, unit: Unit) -> None:
        """Leave work that ignores its cancellation: the message goes back, and another pump serves the agent."""
        session, agent, message = self._session, self._agent, lease.message
        self._crew.end(unit)
        waited = f"cancelled twice, still at work {2 * session.cancel_grace_s:g} s later"
        error = f"{agent.id}: HandlerAbandoned: {waited}"
        session.faults.append(error)
        if session.is_news(error):
            log.warning("agent %s on %s: %s; left", agent.id, message.msg_id, waited)
        try:
            if self._crew.closing:
                self._router.nack(lease, "abandoned")
                return
            self._give_back(lease, error, "abandoned")
            if self._keeper is None:
                session.told(session.counted(""), agent, message, error)
            self._crew.start(Pump(session, agent).run(), str(agent.id))
        except BaseException as failure:  # noqa: BLE001 - called by a timer: nobody else could tell of it
            session.fail(failure)
        finally:
            self._crew.left(unit.task)
