"""The state of a durable session: nothing but its records applied in order, in the session that writes them too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ..interfaces import AgentID, Member, Roster
from .records import Kind

OUTSIDE = ""
"""The holder of a message that came from outside the team."""


@dataclass(slots=True)
class Place:
    """Where a message is on its way to one member: at ``holder``; ``order`` counts over all messages."""

    holder: str
    order: int
    attempt: int = 0
    """How often the member failed on it."""


@dataclass(slots=True)
class Underway:
    """A message that is not done: its own fields, and a place for each member that it is still owed to."""

    row: dict[str, Any]
    order: int
    places: dict[str, Place] | None = None
    """None while nobody has looked up whom it is for."""


@dataclass(slots=True)
class Call:
    """A tool or model call of a step that is not done; ``answer`` is None while there is none."""

    what: str
    arguments: Any
    attempt: int
    answer: dict[str, Any] | None = None


@dataclass
class State:
    """What a journal of a session says. ``apply`` is the only place where anything changes."""

    begun: dict[str, Any] | None = None
    roster: Roster | None = None
    messages: dict[str, Underway] = field(default_factory=dict)
    """By id, in order of admission."""
    snapshots: dict[str, str] = field(default_factory=dict)
    """Agent -> its state as JSON text, after its last step."""
    calls: dict[tuple[str, str], dict[str, Call]] = field(default_factory=dict)
    """(message, agent) -> key -> call."""
    entries: list[dict[str, Any]] = field(default_factory=list)
    """The ledger's, in order."""
    steps: int = 0
    judged: int = 0
    untold: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Steps that ``on_step`` has perhaps not heard of, by number."""
    finished: tuple[int, str] | None = None
    """The first step in which somebody finished, and why."""
    ended: dict[str, Any] | None = None
    faults: list[str] = field(default_factory=list)
    """What agents failed with, and what is in doubt, in order."""
    doubts: list[dict[str, Any]] = field(default_factory=list)
    """Calls that were not made again."""
    last_id: int = 0
    _order: int = 0

    def apply(self, kind: int, payload: dict[str, Any]) -> None:
        """One record. Kinds of others are ignored, but a switch's COMMIT, which may bring another roster."""
        if kind == 2:
            self._commit(payload)
        elif kind in _KINDS:
            getattr(self, f"_{Kind(kind).name.lower()}")(payload)

    def owed(self, msg_id: str, agent: str) -> bool:
        """Whether a message still has to be handled by an agent, or to pass it."""
        under = self.messages.get(msg_id)
        return under is not None and agent in self.places(under)

    def places(self, under: Underway) -> dict[str, Place]:
        """Members that a message is owed to; at first its whole audience."""
        if under.places is None:
            sender, audience = under.row["from"], under.row["for"] or under.row["to"]
            members = self.roster.resolve(audience) if self.roster is not None else ()
            under.places = {m: Place(sender, under.order) for m in members if m != sender}
        return under.places

    def attempt(self, msg_id: str, agent: str) -> int:
        """How often an agent has failed on a message."""
        under = self.messages.get(msg_id)
        place = self.places(under).get(agent) if under is not None else None
        return place.attempt if place is not None else 0

    def ways(self) -> Iterator[tuple[dict[str, Any], str, tuple[str, ...] | None, dict[str, int]]]:
        """(message, holder, members that it is owed to from there, their attempts) in the order of their places."""
        found: dict[tuple[str, str], list[tuple[str, Place]]] = {}
        ways: list[tuple[int, dict[str, Any], str, tuple[str, ...] | None, dict[str, int]]] = []
        for msg_id, under in self.messages.items():
            if under.places is None:
                ways.append((under.order, under.row, under.row["from"], None, {}))
                continue
            for target, place in under.places.items():
                found.setdefault((msg_id, place.holder), []).append((target, place))
        for (msg_id, holder), targets in found.items():
            order = min(place.order for _, place in targets)
            attempts = {target: place.attempt for target, place in targets}
            ways.append((order, self.messages[msg_id].row, holder, tuple(t for t, _ in targets), attempts))
        for _, row, holder, owed, tried in sorted(ways, key=lambda way: way[0]):
            yield row, holder, owed, tried

    def pieces(self) -> Iterator[dict[str, Any]]:
        """The state as payloads of KEPT records; applied in order to an empty state they make it again."""
        assert self.begun is not None and self.roster is not None
        yield {"begun": {**self.begun, "first": None, "states": {}}, "roster": asdict(self.roster)}
        for agent, text in self.snapshots.items():
            yield {"agent": agent, "state": text}
        for under in self.messages.values():
            places = under.places
            yield {
                "message": under.row,
                "order": under.order,
                "places": None if places is None else {t: [p.holder, p.order, p.attempt] for t, p in places.items()},
            }
        for (msg_id, agent), calls in self.calls.items():
            for key, call in calls.items():
                yield {"m": msg_id, "by": agent, "key": key, "call": asdict(call)}
        for entry in self.entries:
            yield {"entry": entry}
        for number, row in self.untold.items():
            yield {"number": number, "untold": row}
        yield {
            "counters": [self.steps, self.judged, self.last_id, self._order],
            "finished": self.finished,
            "ended": self.ended,
            "faults": self.faults,
            "doubts": self.doubts,
        }

    # --- records applied ------------------------------------------------------------------------

    def _begun(self, payload: dict[str, Any]) -> None:
        self.begun = payload
        self._enroll(payload["roster"])
        self.snapshots.update(payload["states"])
        self._admitted({"message": payload["first"]})

    def _admitted(self, payload: dict[str, Any]) -> None:
        under = self._enter(payload["message"])
        under.places = {under.row["to"]: Place(OUTSIDE, under.order)}

    def _step(self, payload: dict[str, Any]) -> None:
        for message in payload["sent"]:  # before the message itself goes on: the order in which they get out
            self._enter(message)
        row = self._moved(payload)
        self._told(payload["n"], {"by": payload["by"], "message": row, "error": ""})
        if "fin" in payload and self.finished is None:
            self.finished = (payload["n"], payload["fin"])

    def _relayed(self, payload: dict[str, Any]) -> None:
        self._moved(payload)

    def _failed(self, payload: dict[str, Any]) -> None:
        under = self.messages.get(payload["m"])
        if under is not None and (place := self.places(under).get(payload["by"])) is not None:
            place.attempt += 1
        row = under.row if under is not None else None
        self.faults.append(payload["error"])
        self._told(payload["n"], {"by": payload["by"], "message": row, "error": payload["error"]})

    def _dead(self, payload: dict[str, Any]) -> None:
        under = self.messages.get(payload["m"])
        if under is None:
            return
        places = self.places(under)
        for target in payload["targets"] if payload["targets"] is not None else list(places):
            if target in places and places[target].holder == payload["holder"]:
                self._gone(under, target)

    def _routed(self, payload: dict[str, Any]) -> None:
        under = self.messages.get(payload["m"])
        if under is not None:
            under.places = {t: Place(under.row["from"], under.order) for t in payload["targets"]}

    def _call(self, payload: dict[str, Any]) -> None:
        attempt = self.attempt(payload["m"], payload["by"])
        self._calls(payload)[payload["key"]] = Call(payload["what"], payload["arguments"], attempt)

    def _answer(self, payload: dict[str, Any]) -> None:
        calls = self._calls(payload)
        call = calls.setdefault(payload["key"], Call(payload["what"], None, 0))
        call.attempt, call.answer = self.attempt(payload["m"], payload["by"]), payload["answer"]
        if "doubt" in payload:
            self.doubts.append(payload["doubt"])
            self.faults.append(payload["fault"])

    def _ledger(self, payload: dict[str, Any]) -> None:
        self.entries.append(payload["entry"])

    def _judged(self, payload: dict[str, Any]) -> None:
        self.judged = payload["n"]
        for number in [n for n in self.untold if n <= self.judged]:
            del self.untold[number]

    def _ended(self, payload: dict[str, Any]) -> None:
        self.ended = payload

    def _kept(self, payload: dict[str, Any]) -> None:
        match payload:
            case {"begun": begun, "roster": roster}:
                self.begun = begun
                self._enroll(roster)
            case {"agent": agent, "state": text}:
                self.snapshots[agent] = text
            case {"message": row, "order": order, "places": places}:
                known = None if places is None else {t: Place(*place) for t, place in places.items()}
                self.messages[row["id"]] = Underway(row, order, known)
            case {"call": call}:
                self._calls(payload)[payload["key"]] = Call(**call)
            case {"entry": entry}:
                self.entries.append(entry)
            case {"untold": row}:
                self.untold[payload["number"]] = row
            case {"counters": counters, "finished": finished}:
                self.steps, self.judged, self.last_id, self._order = counters
                self.finished = None if finished is None else (finished[0], finished[1])
                self.ended = payload["ended"]
                self.faults, self.doubts = list(payload["faults"]), list(payload["doubts"])

    def _commit(self, payload: dict[str, Any]) -> None:
        self._enroll(payload["roster"])
        assert self.roster is not None
        members = set(map(str, self.roster.ids))
        for under in list(self.messages.values()):
            for target in [t for t in under.places or () if t not in members]:
                self._gone(under, target)

    # --- parts ----------------------------------------------------------------------------------

    def _enroll(self, roster: Mapping[str, Any]) -> None:
        members = tuple(Member(AgentID(m["id"]), m["role"]) for m in roster["members"])
        self.roster = Roster(members, AgentID(roster["lead"]))

    def _enter(self, row: dict[str, Any]) -> Underway:
        self._order += 1
        under = self.messages[row["id"]] = Underway(row, self._order)
        number = row["id"].removeprefix("m")
        self.last_id = max(self.last_id, int(number) if number.isdigit() else 0)
        return under

    def _moved(self, payload: dict[str, Any]) -> dict[str, Any] | None:
        """A message is done with one agent, and goes on from there to the rest."""
        by = payload["by"]
        if "state" in payload:
            self.snapshots[by] = payload["state"]
        under = self.messages.get(payload["m"])
        if under is None:
            return None
        places = self.places(under)
        self._order += 1
        for target in payload["rest"]:
            places[target] = Place(by, self._order)
        self._gone(under, by)
        return under.row

    def _gone(self, under: Underway, target: str) -> None:
        places = self.places(under)
        places.pop(target, None)
        self.calls.pop((under.row["id"], target), None)
        if not places:
            self.messages.pop(under.row["id"], None)

    def _told(self, number: int, row: dict[str, Any]) -> None:
        self.steps = number
        if self.begun is not None and self.begun["tells"]:
            self.untold[number] = row
        else:
            self.judged = number

    def _calls(self, payload: dict[str, Any]) -> dict[str, Call]:
        return self.calls.setdefault((payload["m"], payload["by"]), {})


_KINDS = frozenset(map(int, Kind))
