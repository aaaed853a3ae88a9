"""Conformance kit of topologies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from ..interfaces import AgentID, Member, Roster, Routes, Topology
from .conformance import run_checks

KIND: Final = "topology"
ROLES: Final = ("planner", "coder", "runner", "critic", "summarizer")

Make = Callable[[], Topology]


def check_topology(make: Make, *, reaches_everyone: bool = True) -> None:
    """Run every check on fresh topologies over teams of 1 to 10. Raises ConformanceError.

    A topology that documents that some members cannot reach others passes ``reaches_everyone=False``.
    """
    checks = {
        "has_a_name": lambda: check_has_a_name(make),
        "serves_some_team": lambda: check_serves_some_team(make),
        "refuses_with_value_error": lambda: check_refuses_with_value_error(make),
        "knows_members_only": lambda: check_knows_members_only(make),
        "no_self_loops": lambda: check_no_self_loops(make),
        "no_double_edges": lambda: check_no_double_edges(make),
        "fanout_allows_a_receiver": lambda: check_fanout_allows_a_receiver(make),
        "same_roster_same_routes": lambda: check_same_roster_same_routes(make),
    }
    if reaches_everyone:
        checks["reaches_everyone"] = lambda: check_reaches_everyone(make)
    run_checks(KIND, checks)


def rosters() -> Iterator[Roster]:
    """Teams of 1 to 10 members, with roles twice where there are more members than roles, led by the first or third."""
    for size in range(1, 11):
        members = tuple(Member(AgentID(f"{ROLES[i % 5]}{i}"), ROLES[i % 5]) for i in range(size))
        yield Roster(members, members[0].id)
        if size > 2:
            yield Roster(members, members[2].id)


def check_has_a_name(make: Make) -> None:
    """It says what it is."""
    name = make().name
    assert isinstance(name, str) and name, f"name is {name!r}"


def check_serves_some_team(make: Make) -> None:
    """At least one of the teams can work under it."""
    assert any(True for _ in _served(make)), "refuses every team of 1 to 10 members"


def check_refuses_with_value_error(make: Make) -> None:
    """A team gets Routes or a ValueError, nothing else."""
    for roster in rosters():
        try:
            routes = make().routes(roster)
        except ValueError:
            continue
        except Exception as error:
            raise AssertionError(f"{len(roster.members)} members: {type(error).__name__}, not ValueError") from error
        assert isinstance(routes, Routes), f"{len(roster.members)} members: {type(routes).__name__}, not Routes"


def check_knows_members_only(make: Make) -> None:
    """Edges lead from members to members."""
    for roster, routes in _served(make):
        strangers = {*routes.edges, *(r for rs in routes.edges.values() for r in rs)} - set(roster.ids)
        assert not strangers, f"{len(roster.members)} members: edges at {sorted(strangers)}"


def check_no_self_loops(make: Make) -> None:
    """Nobody speaks to itself."""
    for _, routes in _served(make):
        for holder, receivers in routes.edges.items():
            assert holder not in receivers, f"{holder} speaks to itself"


def check_no_double_edges(make: Make) -> None:
    """Every receiver is named once."""
    for _, routes in _served(make):
        for holder, receivers in routes.edges.items():
            assert len(set(receivers)) == len(receivers), f"{holder} -> {', '.join(receivers)}"


def check_fanout_allows_a_receiver(make: Make) -> None:
    """A fan-out bound leaves at least one receiver."""
    for _, routes in _served(make):
        assert routes.fanout is None or routes.fanout >= 1, f"fan-out of {routes.fanout}"


def check_same_roster_same_routes(make: Make) -> None:
    """Pure: neither time, nor another instance, nor other rosters before change the answer."""
    topology = make()
    before = [_answer(topology, roster) for roster in rosters()]
    after = [_answer(topology, roster) for roster in reversed(list(rosters()))]
    assert before == after[::-1], "asked again, the same topology answers otherwise"
    assert before == [_answer(make(), roster) for roster in rosters()], "another instance answers otherwise"


def check_reaches_everyone(make: Make) -> None:
    """From every member a path leads to every other."""
    for roster, routes in _served(make):
        for start in roster.ids:
            seen, frontier = {start}, [start]
            while frontier:
                frontier = [r for a in frontier for r in routes.edges.get(a, ()) if r not in seen]
                seen.update(frontier)
            missing = set(roster.ids) - seen
            assert not missing, f"{len(roster.members)} members: no path from {start} to {sorted(missing)}"


def _answer(topology: Topology, roster: Roster) -> object:
    try:
        routes = topology.routes(roster)
        return [*routes.edges.items()], routes.fanout
    except Exception as error:  # noqa: BLE001 - what it raises is another check's business; here it has to be the same
        return type(error)


def _served(make: Make) -> Iterator[tuple[Roster, Routes]]:
    topology = make()
    for roster in rosters():
        try:
            routes = topology.routes(roster)
        except Exception:  # noqa: BLE001 - refusing is judged by a check of its own
            continue
        if isinstance(routes, Routes):
            yield roster, routes
