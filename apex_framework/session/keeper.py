"""The keeper: the part of a durable session that writes down what happens, and lets it be seen once that is on disk."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ..budget import Ledger
from ..budget.entries import Entry, EntryLog, Renewed
from ..budget.ledger import FOREVER
from ..errors import BudgetStoreError, ConfigError, JournalError, LedgerError, RuntimeFault
from ..events import MessageMoved
from ..interfaces import Agent, AgentID, DeadReason, Message, Snapshots
from ..runtime import Lease
from ..runtime.reentry import Reentry
from .durable import DurableLog
from .records import FORM, Kind, from_entry, from_message, key_of, to_entry, to_message
from .state import OUTSIDE

if TYPE_CHECKING:
    from .session import Session

AHEAD = 256
"""Steps that agents may be ahead of the disk, all of them together."""


class Keeper:
    """Ties one session to its log, for one run."""

    def __init__(self, session: Session, log: DurableLog) -> None:
        self.session, self.log = session, log
        self.reentry = Reentry(session.router)
        self._ways: dict[str, list[str]] = {}
        """Messages that have just been given their way, and the first receivers on it."""
        self._entered: list[AgentID] = []
        """Receivers of the message that was let in last."""
        self._over = False

    def begin(self, first: Message) -> None:
        """Write that the session begins, or put back all that a journal says of it. Raises ConfigError, JournalError."""
        session, log = self.session, self.log
        log.on_failure = session.fail
        if log.begun:
            self._recover(first.payload)
        else:
            self._check(first.payload)
            roster = {"members": [{"id": m.id, "role": m.role} for m in session.roster.members],
                      "lead": session.roster.lead}  # fmt: skip
            log.write(
                Kind.BEGUN,
                {
                    "form": FORM,
                    "episode": session.episode_id,
                    "roster": roster,
                    "tells": session.on_step is not None,
                    "task": key_of(first.payload),
                    "topology": session.router.table.name,
                    "states": self._states(),
                    "first": to_message(first),
                },
            )
        self._rebuild(_Entries(self)).expire(FOREVER)  # whoever reserved anything is gone
        session.services.llm.before_call = log.barrier

    def recall(self, task: dict[str, Any]) -> None:
        """Set agents and ledger to the state in which a session ended. Raises ConfigError, RuntimeFault."""
        self._check(task)
        self._set_back()
        self._rebuild(None)

    async def open(self) -> None:
        """Once what was written is on disk, let the messages into the router, in their old order."""
        await self.log.barrier()
        session, state = self.session, self.log.state
        self.reentry.begin(self.log.epoch)
        self.reentry.hear(self._moved)
        self.log.before_write = self._settle_ways
        for row, holder, targets, attempts in list(state.ways()):
            message = from_message(row, session.episode_id, session.clock.monotonic())
            owed = None if targets is None else tuple(map(AgentID, targets))
            self._entered = []
            self.reentry.put(message, AgentID(holder) if holder != OUTSIDE else None, owed)
            if session.recovered:  # perhaps it was begun; only what is not marked is certainly new
                for receiver in self._entered:
                    self.reentry.mark(receiver, message.msg_id, attempts.get(receiver, 0))
        self._settle_ways()

    async def end(self, status: str, reason: str, steps: int) -> None:
        """Write how the session ended, durably."""
        self.log.write(Kind.ENDED, {"status": status, "reason": reason, "steps": steps, "faults": self.session.faults})
        await self.log.barrier()

    def close(self) -> None:
        """Write nothing more."""
        self._over = True
        self.session.services.llm.before_call = None
        self.log.on_failure, self.log.before_write = (lambda error: None), (lambda: None)

    # --- steps ----------------------------------------------------------------------------------

    def done(self, agent: Agent, lease: Lease, sent: list[Message], finished: str, number: int) -> None:
        """An agent has handled a message: one record, and when it is on disk all that follows from the step.

        Raises whatever makes the step impossible to write down; then nothing has happened.
        """
        message = lease.message
        record: dict[str, Any] = {
            "n": number,
            "m": message.msg_id,
            "by": agent.id,
            "rest": message.hop.rest,
            "sent": [to_message(one) for one in sent],
            **self._changed(agent),
        }
        if finished:
            record["fin"] = finished

        def release() -> None:
            for one in sent:
                self.reentry.put(one, one.sender, None)
            self._settle_ways()
            self.session.router.ack(lease)
            self.session.told(number, agent, message, "")

        self.log.then(self.log.write(Kind.STEP, record), release)

    def relayed(self, agent: Agent, lease: Lease) -> None:
        """An agent has overheard a message, which goes on once that is on disk."""
        record = {"m": lease.message.msg_id, "by": agent.id, "rest": lease.message.hop.rest, **self._changed(agent)}

        def release() -> None:
            self.session.router.ack(lease)
            self.session.check_quiet()

        self.log.then(self.log.write(Kind.RELAYED, record), release)

    def failed(self, agent: Agent, message: Message, error: str, number: int) -> None:
        """An agent has failed on a message: the step leaves no trace, but for calls whose answers are kept.

        Raises RuntimeFault when the agent cannot be set back.
        """
        self._restore(agent)
        record = {"n": number, "m": message.msg_id, "by": agent.id, "error": error}
        self.log.then(self.log.write(Kind.FAILED, record), lambda: self.session.told(number, agent, message, error))

    def settled(self, agent: Agent, lease: Lease) -> bool:
        """Whether this was handled before, and only its acknowledgement came too late; it is acknowledged now."""
        if lease.is_relay or self.log.state.owed(lease.message.msg_id, agent.id):
            return False

        def release() -> None:
            self.session.router.ack(lease)
            self.session.check_quiet()

        self.log.then(self.log.last, release)
        return True

    def judged(self, number: int) -> None:
        """``on_step`` has heard of a step."""
        self.log.write(Kind.JUDGED, {"n": number})

    # --- state of agents ------------------------------------------------------------------------

    def _changed(self, agent: Agent) -> dict[str, str]:
        text = _snapshot(agent)
        return {} if self.log.state.snapshots.get(agent.id) == text else {"state": text}

    def _restore(self, agent: Agent) -> None:
        assert isinstance(agent, Snapshots)
        try:
            agent.restore(json.loads(self.log.state.snapshots[agent.id]))
        except Exception as error:  # a plugin's edge: an agent in an unknown state must not go on
            raise RuntimeFault(f"agent {agent.id} cannot be set back: {type(error).__name__}: {error}") from error

    # --- the way of messages --------------------------------------------------------------------

    def _moved(self, event: MessageMoved) -> None:
        if event.what == "dead" and not self._over and event.reason != DeadReason.EPISODE_OVER.value:
            targets = self.reentry.latest_dead
            holder = OUTSIDE if event.holder == "user" else event.holder
            known = event.receiver and targets is not None
            record = {"m": event.msg_id, "holder": holder, "targets": list(targets) if known and targets else None}
            self.log.write(Kind.DEAD, {**record, "reason": event.reason})
        elif event.what == "routed":
            self._entered.append(AgentID(event.receiver))
            if event.holder != event.origin:
                return
            under = self.log.state.messages.get(event.msg_id)
            if under is not None and under.places is None:
                self._ways.setdefault(event.msg_id, []).append(event.receiver)

    def _settle_ways(self) -> None:
        """Write whom the messages let in last are for, where that is not simply their whole audience."""
        if not self._ways:
            return
        ways, self._ways = self._ways, {}
        state, table = self.log.state, self.session.router.table
        for msg_id, receivers in ways.items():
            under = state.messages[msg_id]
            sender = AgentID(under.row["from"])
            hops = table.plan(sender, under.row["for"] or under.row["to"]).hops
            targets = [
                t for h in hops if h.receiver in receivers for t in (h.rest if h.relay else (h.receiver, *h.rest))
            ]
            if set(targets) != set(state.places(under)):
                self.log.write(Kind.ROUTED, {"m": msg_id, "targets": targets})

    # --- the beginning --------------------------------------------------------------------------

    def _check(self, task: dict[str, Any]) -> None:
        session, log = self.session, self.log
        mute = [str(agent.id) for agent in session.agents.values() if not isinstance(agent, Snapshots)]
        if mute:
            raise ConfigError(
                f"a durable session cannot save the state of {', '.join(mute)}",
                "give these agents snapshot and restore (Snapshots), or leave durable out",
            )
        if session.share_everything:
            raise ConfigError("share_everything has no durable form", "leave durable out")
        if not log.begun:
            return
        assert log.state.begun is not None
        if (whose := log.state.begun["episode"]) != session.episode_id:
            raise ConfigError(f"{log.path} is the journal of {whose!r}, not of {session.episode_id!r}", "name another")
        if log.state.begun.get("task", asked := key_of(task)) != asked:
            raise ConfigError(
                f"{log.path} is the journal of another task", "go on with that task, or name another file"
            )
        if strangers := set(map(str, log.roster.ids if log.roster else ())) - set(map(str, session.agents)):
            raise ConfigError(f"{log.path} knows of agents that are not here: {', '.join(sorted(strangers))}",
                              "go on with the team that began")  # fmt: skip
        here = session.router.table.name
        if log.topology and here != log.topology:
            raise ConfigError(
                f"{log.path} ends under topology {log.topology!r}, not {here!r}",
                "make the router with DurableLog.topology and DurableLog.roster",
            )
        if not log.topology and (began := log.state.begun.get("topology", here)) != here:
            raise ConfigError(
                f"{log.path} began under topology {began!r}, not {here!r}", f"make the router with {began!r}"
            )

    def _states(self) -> dict[str, str]:
        """What every agent saves, at the start. Raises ConfigError for one that cannot."""
        states = {}
        for agent in self.session.agents.values():
            try:
                states[str(agent.id)] = _snapshot(agent)
            except Exception as error:
                raise ConfigError(
                    f"a durable session cannot save the state of {agent.id}: {type(error).__name__}: {error}",
                    "let its snapshot return a dict of JSON values, or leave durable out",
                ) from error
        return states

    def _recover(self, task: dict[str, Any]) -> None:
        state, session = self.log.state, self.session
        self._check(task)
        self._set_back()
        self._states()
        session.faults[:] = state.faults
        session.resume(state.steps, state.judged if session.on_step else state.steps, state.finished, state.last_id)
        if session.on_step is None:
            return
        for number, row in sorted(state.untold.items()):
            if row["message"] is not None:
                message = from_message(row["message"], session.episode_id, session.clock.monotonic())
                session.told(number, session.agents[AgentID(row["by"])], message, row["error"])

    def _set_back(self) -> None:
        for agent in self.session.agents.values():
            if agent.id in self.log.state.snapshots:
                self._restore(agent)

    def _rebuild(self, entries: EntryLog | None) -> Ledger:
        ledger = self.session.services.llm.ledger
        try:
            ledger.rebuild([from_entry(row) for row in self.log.state.entries], entries)
        except LedgerError as error:
            raise ConfigError(f"the ledger of a durable session: {error}", "give it a new one") from error
        return ledger


class _Entries:
    """The ledger's log: its entries are records of the session's journal."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper

    def append(self, entry: Entry) -> None:
        """Write before the entry takes effect; what comes after the session is not the session's."""
        if self._keeper._over or isinstance(
            entry, Renewed
        ):  # a reservation that outlives the process is debited anyway
            return
        try:
            self._keeper.log.write(Kind.LEDGER, {"entry": to_entry(entry)})
        except JournalError as error:
            raise BudgetStoreError(error.cause, error.remedy, reason="store_unwritable") from error

    def close(self) -> None:
        """The journal is the session's."""


def _snapshot(agent: Any) -> str:
    """An agent's state as JSON text. Raises what the agent raises, TypeError and ValueError for what has no JSON form."""
    state: object = agent.snapshot()  # that it has one was checked at the start
    if not isinstance(state, dict):
        raise TypeError(f"snapshot returned {type(state).__name__}, not a dict")
    return json.dumps(state, allow_nan=False, separators=(",", ":"))
