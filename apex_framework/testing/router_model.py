"""A router judged at every step, from its events and its public counters alone.

A model of its own, hop by hop; nothing here is shared with the router. ``HistoryChecker`` judges whole messages
(did everybody meant get it, in the order of sending), this judges each state a hop goes through.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..events import MessageMoved
from ..interfaces import Roster, Topology
from .invariants import Findings

if TYPE_CHECKING:
    from ..runtime import RouterStats

HELD, WAITING, LEASED, BACKOFF = range(4)
FIRST_BACKOFF_S, JITTER = 0.1, 0.1
DEDUP_TTL_S = 600.0
ULP = 1e-9


@dataclass(slots=True)
class _Hop:
    state: int
    epoch: int
    msg_id: str
    receiver: str
    lane: tuple[str, str, str, int]
    """(holder, receiver, priority, epoch): the scope of first in, first out."""
    born: int
    since: float
    """When it was admitted, or given to an agent, or given back."""
    admitted: float
    held_before: float
    """For how long its receiver had held leases when it was admitted."""
    nacks: int = 0
    size: int = 0
    moved: bool = False
    """Migrated or forwarded: its expiry is not the plain one."""


class RouterModel:
    """Pass it as ``on_event`` to a router; call ``step`` between its callbacks and ``received`` with what is leased."""

    def __init__(
        self,
        findings: Findings,
        roster: Roster,
        topology: Topology,
        *,
        priority: Callable[[str], str] = lambda _: "",
        epoch: int = 0,
        capacity: int | None = None,
        ttl_s: float = 60.0,
        lease_s: float = 600.0,
        max_attempts: int = 5,
        remembers: bool = False,
        lane_bytes: int | None = None,
    ) -> None:
        self._findings = findings
        self._blame = findings.blame
        self._priority = priority
        self._capacity, self._ttl_s, self._lease_s, self._max_attempts = capacity, ttl_s, lease_s, max_attempts
        self._remembers, self._lane_bytes = remembers, lane_bytes
        self.epoch = epoch
        """In force, by what was committed."""
        self._hops: dict[int, _Hop] = {}
        self._gate: dict[int, _Hop] = {}
        """What waits at the gate, in order of arrival."""
        self._lanes: dict[tuple[str, str, str, int], dict[int, _Hop]] = {}
        """What waits in lanes and was never delivered, in order."""
        self._open = [0, 0, 0, 0]
        self._per_epoch: Counter[int] = Counter()
        self._queued: Counter[str] = Counter()
        self._in_hands: Counter[str] = Counter()
        self._held_since: dict[str, float] = {}
        self._held_time: defaultdict[str, float] = defaultdict(float)
        self._first: dict[str, float] = {}
        self._seen: dict[tuple[str, str], float] = {}
        self._bytes: Counter[str] = Counter()
        self.admitted = self.acked = 0
        self.dead: Counter[str] = Counter()
        self.events = 0
        self._born = 0
        self._restoring = False
        """In this callback something came out of the gate or the old epoch: capacity does not apply to it."""
        self._fanning: tuple[str, int] = ("", 0)
        self._forwarding = ("", "")
        self._last_nack = 0
        self._uprooted: dict[tuple[str, str], int] = {}
        """In this callback, what is to be routed anew, and its place in the order."""
        self._moving: tuple[tuple[str, str], int] = (("", ""), 0)
        self._hastened = float("-inf")
        self._on: dict[str, Callable[[MessageMoved], None]] = {
            name.removeprefix("_on_"): getattr(self, name) for name in dir(self) if name.startswith("_on_")
        }
        self._enter(roster, topology)

    def _enter(self, roster: Roster, topology: Topology) -> None:
        routes = topology.routes(roster)
        self._members = frozenset(roster.ids)
        self._edges: dict[str, frozenset[str]] = {h: frozenset(receivers) for h, receivers in routes.edges.items()}
        self._fanout = routes.fanout

    def committed(self, roster: Roster, topology: Topology, epoch: int) -> None:
        """A COMMIT record is durable: from now on this topology and epoch are in force."""
        if epoch != self.epoch + 1:
            self._blame("wrong_epoch", f"COMMIT of epoch {epoch} while {self.epoch} is in force")
        self.epoch = epoch
        self._enter(roster, topology)

    def hasten(self, now: float) -> None:
        """The gate is shut: backoffs are due."""
        self._hastened = now

    def __call__(self, event: MessageMoved) -> None:
        """Take in one event."""
        self.events += 1
        handler = self._on.get(event.what)
        if handler is None:
            self._blame("phantom", f"an event of unknown kind: {event.what}")
            return
        if event.what != "routed":
            self._fanning, self._forwarding = ("", 0), ("", "")
        if event.what != "migrated":
            self._moving = (("", ""), 0)
        handler(event)

    def step(self, epoch: int, stats: RouterStats) -> None:
        """Between two callbacks: the router's epoch and counters against the model's."""
        self._restoring, self._fanning, self._forwarding, self._last_nack = False, ("", 0), ("", ""), 0
        self._uprooted.clear()
        if epoch != self.epoch:
            self._blame("wrong_epoch", f"the router serves epoch {epoch}, the last COMMIT is of {self.epoch}")
            self.epoch = epoch
        held, waiting, leased, backoff = self._open
        ours = (self.admitted, self.acked, self.dead.total(), held + waiting, leased, backoff)
        died = sum(stats.dead.values())
        theirs = (stats.admitted, stats.acked, died, stats.waiting, stats.leased, stats.backoff)
        if ours != theirs:
            self._blame(
                "conservation", f"(admitted, acked, dead, waiting, leased, backoff): {theirs}, events say {ours}"
            )
        if theirs[0] != sum(theirs[1:]):
            self._blame("conservation", f"counters do not add up: {theirs}")

    def received(self, msg_id: str, hop: int, receiver: str, redelivered: bool, now: float) -> None:
        """A consumer looks at what it was given."""
        known = self._hops.get(hop)
        if known is None or known.state != LEASED or known.receiver != receiver:
            self._blame("phantom", f"{receiver} was given {msg_id}, which no event told")
            return
        before = self._seen.get((receiver, msg_id))
        known_again = self._remembers and before is not None and now - before < DEDUP_TTL_S
        if (known.nacks or known_again) and not redelivered:
            self._blame("flag", f"{msg_id} comes to {receiver} again, unflagged")
        if redelivered and before is None:
            self._blame("flag", f"{msg_id} comes to {receiver} for the first time, flagged as redelivered")
        self._seen[receiver, msg_id] = now

    def in_hands(self, hop: int, nacks: int) -> bool:
        """Whether a hop is leased, given back so many times before: an ack of that lease must count, of no other."""
        known = self._hops.get(hop)
        return known is not None and known.state == LEASED and known.nacks == nacks

    def nacks(self, hop: int) -> int:
        """How often a hop was given back."""
        return self._hops[hop].nacks if hop in self._hops else 0

    def queued(self, receiver: str) -> int:
        """Messages in a receiver's lane, those in backoff not counted."""
        return self._queued[receiver]

    @property
    def open(self) -> int:
        """Hops without an end."""
        return sum(self._open)

    # --- states ---------------------------------------------------------------------------------

    def _add(self, event: MessageMoved, state: int, moved: bool) -> _Hop:
        if event.hop in self._hops:
            self._blame("phantom", f"hop {event.hop} of {event.msg_id} begins twice")
        self._born += 1
        lane = (event.holder, event.receiver, self._priority(event.msg_id), event.epoch)
        held = self._held_time[event.receiver]
        if (since := self._held_since.get(event.receiver)) is not None:
            held += event.ts - since
        hop = _Hop(state, event.epoch, event.msg_id, event.receiver, lane, self._born, event.ts, event.ts, held)
        hop.moved = moved
        hop.born = self._uprooted.get((event.msg_id, event.holder), hop.born)
        self._hops[event.hop] = hop
        self._open[state] += 1
        hop.size = event.size
        self._bytes[event.receiver] += event.size
        self._first.setdefault(event.msg_id, event.ts)
        return hop

    def _wait(self, number: int, hop: _Hop) -> None:
        self._per_epoch[hop.epoch] += 1
        self._queued[hop.receiver] += 1
        if not hop.nacks:
            self._lanes.setdefault(hop.lane, {})[number] = hop

    def _unwait(self, number: int, hop: _Hop) -> None:
        if hop.state in (WAITING, BACKOFF):
            self._per_epoch[hop.epoch] -= 1
            if not self._per_epoch[hop.epoch]:
                del self._per_epoch[hop.epoch]
        if hop.state == WAITING:
            self._queued[hop.receiver] -= 1
            if not hop.nacks:
                self._lanes[hop.lane].pop(number, None)
        elif hop.state == LEASED:
            self._in_hands[hop.receiver] -= 1
        elif hop.state == HELD:
            if next(iter(self._gate)) != number:
                self._blame("reordered", f"{hop.msg_id} leaves the gate before what came there first")
            self._gate.pop(number, None)

    def _end(self, number: int, now: float) -> _Hop:
        hop = self._hops.pop(number)
        self._bytes[hop.receiver] -= hop.size
        self._open[hop.state] -= 1
        self._unwait(number, hop)
        if hop.state == LEASED and not self._in_hands[hop.receiver]:
            self._held_time[hop.receiver] += now - self._held_since.pop(hop.receiver)
        return hop

    def _turn(self, number: int, hop: _Hop, state: int) -> None:
        self._unwait(number, hop)
        self._open[hop.state] -= 1
        self._open[state] += 1
        hop.state = state

    def _phantom(self, event: MessageMoved) -> None:
        self._blame("phantom", f"{event.what}: {event.msg_id} {event.holder} -> {event.receiver}")

    # --- events ---------------------------------------------------------------------------------

    def _on_held(self, event: MessageMoved) -> None:
        self.admitted += 1
        self._gate[event.hop] = self._add(event, HELD, True)

    def _on_released(self, event: MessageMoved) -> None:
        self._restoring = True
        hop = self._hops.get(event.hop)
        if hop is None or hop.state != HELD:
            self._phantom(event)
            return
        self.admitted -= 1
        self._end(event.hop, event.ts)

    def _on_routed(self, event: MessageMoved) -> None:
        self.admitted += 1
        if event.epoch != self.epoch:
            self._blame("wrong_epoch", f"{event.msg_id} is routed in epoch {event.epoch}, {self.epoch} is in force")
        moved = self._restoring or event.holder != event.origin or self._forwarding == (event.msg_id, event.holder)
        hop = self._add(event, WAITING, moved)
        self._wait(event.hop, hop)
        if event.receiver not in self._members:
            self._blame("off_route", f"{event.msg_id} goes to {event.receiver}, who is not in the roster")
        if event.holder in self._members:
            if event.receiver not in self._edges.get(event.holder, ()):
                self._blame("off_route", f"{event.msg_id}: no edge {event.holder} -> {event.receiver}")
            if not moved:
                msg_id, n = self._fanning
                self._fanning = (event.msg_id, n + 1 if msg_id == event.msg_id else 1)
                if self._fanout is not None and self._fanning[1] > self._fanout:
                    self._blame("off_route", f"{event.msg_id} goes to more than {self._fanout} receivers at once")
        if self._lane_bytes is not None and not moved and self._bytes[event.receiver] > self._lane_bytes:
            self._blame("capacity", f"{event.receiver} has {self._bytes[event.receiver]} B of {self._lane_bytes}")
        if self._capacity is not None and not moved and self._queued[event.receiver] > self._capacity:
            self._blame("capacity", f"{event.receiver} has {self._queued[event.receiver]} waiting of {self._capacity}")

    def _on_delivered(self, event: MessageMoved) -> None:
        hop = self._hops.get(event.hop)
        if hop is None or hop.state not in (WAITING, BACKOFF) or hop.receiver != event.receiver:
            self._phantom(event)
            return
        if any(epoch < event.epoch for epoch in self._per_epoch):
            self._blame("early", f"{event.msg_id} of epoch {event.epoch} while {dict(self._per_epoch)} wait")
        if event.epoch != self.epoch:
            self._blame("wrong_epoch", f"{event.msg_id} of epoch {event.epoch} is delivered in epoch {self.epoch}")
        if not hop.nacks:
            first = next(iter(self._lanes[hop.lane]))
            if first != event.hop:
                self._blame("reordered", f"{event.msg_id} is delivered before {self._hops[first].msg_id} {hop.lane}")
        elif hop.state == BACKOFF and self._hastened < hop.since:
            least = hop.since + FIRST_BACKOFF_S * (1 - JITTER) * 2 ** (hop.nacks - 1)
            if event.ts < least - ULP:
                self._blame("backoff", f"{event.msg_id} comes again after {event.ts - hop.since} s, nack {hop.nacks}")
        if hop.nacks >= self._max_attempts:
            self._blame("attempts", f"{event.msg_id} is delivered for the {hop.nacks + 1}th time")
        if not hop.moved:
            held = self._held_time[event.receiver] - hop.held_before
            if (since := self._held_since.get(event.receiver)) is not None:
                held += event.ts - since
            if event.ts - hop.admitted - held > self._ttl_s + ULP:
                self._blame("expiry", f"{event.msg_id} is delivered {event.ts - hop.admitted} s after its admission")
        self._turn(event.hop, hop, LEASED)
        hop.since = event.ts
        if not self._in_hands[event.receiver]:
            self._held_since[event.receiver] = event.ts
        self._in_hands[event.receiver] += 1

    def _on_acked(self, event: MessageMoved) -> None:
        hop = self._hops.get(event.hop)
        if hop is None or hop.state != LEASED:
            self._phantom(event)
            return
        self.acked += 1
        self._end(event.hop, event.ts)
        self._forwarding = (event.msg_id, event.receiver)

    def _on_nacked(self, event: MessageMoved) -> None:
        hop = self._hops.get(event.hop)
        if hop is None or hop.state != LEASED:
            self._phantom(event)
            return
        if event.reason == "lease_expired" and event.ts < hop.since + self._lease_s - ULP:
            self._blame("lease", f"the lease of {event.msg_id} ends after {event.ts - hop.since} s")
        self._turn(event.hop, hop, BACKOFF)
        if not self._in_hands[hop.receiver]:
            self._held_time[hop.receiver] += event.ts - self._held_since.pop(hop.receiver)
        hop.nacks += 1
        hop.since = event.ts
        self._per_epoch[hop.epoch] += 1
        self._last_nack = event.hop

    def _on_migrated(self, event: MessageMoved) -> None:
        self._restoring = True
        hop = self._hops.get(event.hop)
        if hop is None or hop.state not in (WAITING, BACKOFF):
            self._phantom(event)
            return
        hop.moved = True
        if not event.receiver:
            self.admitted -= 1
            self._end(event.hop, event.ts)
            hop_of = (event.msg_id, event.holder)
            self._uprooted[hop_of] = min(hop.born, self._uprooted.get(hop_of, hop.born))
            return
        again = self._last_nack == event.hop  # given back from an earlier epoch: it stays in backoff
        self._unwait(event.hop, hop)
        self._open[hop.state] -= 1
        hop.state = BACKOFF if again else WAITING
        self._open[hop.state] += 1
        hop.epoch = event.epoch
        hop.lane = (*hop.lane[:3], event.epoch)
        if again:
            self._per_epoch[hop.epoch] += 1
            return
        if event.receiver not in self._members or (
            event.holder in self._members and event.receiver not in self._edges.get(event.holder, ())
        ):
            self._blame(
                "off_route", f"{event.msg_id} stays on its way {event.holder} -> {event.receiver}, which is gone"
            )
        same, born = self._moving
        if same == (event.msg_id, event.holder):
            hop.born = born  # what waits of a message from one holder moves together, at the place of its first
        self._moving = ((event.msg_id, event.holder), hop.born)
        lane = self._lanes.get(hop.lane)
        if lane and not hop.nacks and next(reversed(lane.values())).born > hop.born:
            self._blame("reordered", f"{hop.msg_id} is migrated behind what came later {hop.lane}")
        self._wait(event.hop, hop)

    def _on_dead(self, event: MessageMoved) -> None:
        self.dead[event.reason] += 1
        hop = self._hops.get(event.hop)
        if hop is None:
            # Where no path is left a forwarded message ends without having been in a lane.
            if event.receiver or event.reason != "no_route":
                self._phantom(event)
            self.admitted += 1
            return
        if (event.reason == "max_retries") != (hop.nacks >= self._max_attempts):
            self._blame("attempts", f"{event.msg_id} ends as {event.reason} after {hop.nacks} nacks")
        if event.reason == "expired" and event.ts - self._first[event.msg_id] < self._ttl_s - ULP:
            self._blame(
                "expiry", f"{event.msg_id} expires {event.ts - self._first[event.msg_id]} s after its admission"
            )
        self._end(event.hop, event.ts)

    def _on_refused(self, event: MessageMoved) -> None:
        held, queued = self._bytes[event.receiver], self._queued[event.receiver]
        if event.reason == "lane_bytes" and self._lane_bytes is not None and held + event.size <= self._lane_bytes:
            self._blame("capacity", f"{event.receiver} has {held} B, refuses {event.size}")
        if event.reason == "dropped_full" and event.receiver and self._capacity is not None and queued < self._capacity:
            self._blame("capacity", f"{event.receiver} refuses with {queued} waiting")
