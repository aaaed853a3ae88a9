"""A team on a virtual-time loop, with everything that happened written down."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

from apex_framework.events import MessageMoved
from apex_framework.interfaces import AgentID, Epoch, Member, Message, Roster, Topology
from apex_framework.ports import LoopClock
from apex_framework.runtime import Lease, Router, RouteTable, SwitchEngine
from apex_framework.timeloop import run
from apex_lanes.fifo import Fifo
from apex_topologies.chain import Chain
from apex_topologies.flat import Flat
from apex_topologies.star import Star
from apex_transports.inproc import InProcess

TOPOLOGIES: dict[str, Topology] = {"star": Star(), "chain": Chain(), "flat": Flat()}


def team(text: str = "planner coder runner critic summarizer") -> Roster:
    """Members whose ids are their roles; the first leads."""
    members = tuple(Member(AgentID(i), i) for i in text.split())
    return Roster(members, members[0].id)


class Rig:
    """A router and a switch engine; ``send`` numbers its messages m1, m2, …"""

    def __init__(
        self,
        topology: str = "star",
        roster: Roster | None = None,
        engine: dict[str, Any] | None = None,
        **router: Any,
    ) -> None:
        self.events: list[MessageMoved] = []
        self.clock = LoopClock(asyncio.get_running_loop())
        self.roster = roster or team()
        self.router = Router(
            RouteTable.compile(TOPOLOGIES[topology], self.roster),
            **{
                "lanes": Fifo(),
                "transport": InProcess(),
                "clock": self.clock,
                "rng": random.Random(1),
                "on_event": self.events.append,
                **router,
            },
        )
        self.engine = SwitchEngine(self.router, TOPOLOGIES, clock=self.clock, **engine or {})
        self._sent = 0

    def message(self, sender: str, audience: str, payload: dict[str, Any] | None = None, **more: Any) -> Message:
        self._sent += 1
        return Message(
            "e",
            f"m{self._sent}",
            AgentID(sender),
            AgentID(audience),
            Epoch(0),
            payload or {},
            audience=audience,
            **more,
        )

    def send(self, sender: str, audience: str, payload: dict[str, Any] | None = None, **more: Any) -> Any:
        return self.router.send(self.message(sender, audience, payload, **more))

    def take(self, agent: str) -> Lease:
        """A lease that must be there."""
        lease = self.router.try_lease(AgentID(agent))
        assert lease is not None
        return lease

    def idle(self, agent: str) -> bool:
        """Whether nothing is due for an agent."""
        return self.router.try_lease(AgentID(agent)) is None

    def pass_on(self, agent: str) -> str:
        """Lease and acknowledge; the message's id."""
        lease = self.take(agent)
        self.router.ack(lease)
        self.router.audit()
        return lease.message.msg_id


def on_virtual_time(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Runs an asynchronous test in virtual time."""

    def wrapped() -> None:
        run(test())

    wrapped.__name__ = test.__name__
    wrapped.__doc__ = test.__doc__
    return wrapped
