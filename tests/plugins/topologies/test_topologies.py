"""Star, chain and flat: the kit, and worked tables for teams of 3, 5, 7 and 10, roles twice included."""

from __future__ import annotations

import pytest

from apex_framework.interfaces import AgentID, Member, Roster, Topology
from apex_framework.runtime import RouteTable
from apex_framework.testing.topology import check_topology
from apex_topologies.chain import Chain
from apex_topologies.flat import Flat
from apex_topologies.star import Star


def team(text: str, lead: str = "p") -> Roster:
    """``p c1 c2`` is a team whose roles are the letters."""
    members = tuple(Member(AgentID(i), i[0]) for i in text.split())
    return Roster(members, AgentID(lead))


# planner, coder, runner, critic (k), summarizer
THREE = team("p c r")
FOUR = team("p c r k")
FIVE = team("p c r k s")
SEVEN = team("p c1 c2 r1 r2 k s")
TEN = team("p c1 c2 c3 r1 r2 r3 k1 k2 s")


@pytest.mark.parametrize("make", [Star, Chain, Flat])
def test_topologies_conform(make: type[Topology]) -> None:
    check_topology(make)


def walk(topology: Topology, roster: Roster, origin: str, audience: str) -> dict[str, str]:
    """Holder -> receivers, for every holder of the delivery tree."""
    table = RouteTable.compile(topology, roster)
    tree, frontier = {}, [AgentID(origin)]
    while frontier:
        holder = frontier.pop(0)
        hops = table.next_hops(AgentID(origin), holder, audience)
        if hops:
            tree[str(holder)] = " ".join(hops)
            frontier += hops
    return tree


@pytest.mark.parametrize(
    ("roster", "origin", "audience", "tree"),
    [
        (THREE, "p", "c", {"p": "c"}),
        (THREE, "c", "r", {"c": "p", "p": "r"}),
        (THREE, "c", "p", {"c": "p"}),
        (THREE, "p", "BROADCAST", {"p": "c r"}),
        (THREE, "r", "BROADCAST", {"r": "p", "p": "c"}),
        (FIVE, "c", "k+r", {"c": "p", "p": "r k"}),
        (FIVE, "s", "BROADCAST", {"s": "p", "p": "c r k"}),
        (SEVEN, "c1", "c", {"c1": "p", "p": "c2"}),
        (SEVEN, "p", "c+r2", {"p": "c1 c2 r2"}),
        (SEVEN, "k", "BROADCAST", {"k": "p", "p": "c1 c2 r1 r2 s"}),
        (TEN, "r2", "c", {"r2": "p", "p": "c1 c2 c3"}),
        (TEN, "p", "BROADCAST", {"p": "c1 c2 c3 r1 r2 r3 k1 k2 s"}),
        (TEN, "s", "r+p", {"s": "p", "p": "r1 r2 r3"}),
    ],
)
def test_star_leads_everything_through_the_lead(
    roster: Roster, origin: str, audience: str, tree: dict[str, str]
) -> None:
    assert walk(Star(), roster, origin, audience) == tree


@pytest.mark.parametrize(
    ("roster", "origin", "audience", "tree"),
    [
        (THREE, "p", "c", {"p": "c"}),
        (THREE, "c", "p", {"c": "r", "r": "p"}),
        (THREE, "p", "r", {"p": "c", "c": "r"}),
        (THREE, "r", "BROADCAST", {"r": "p", "p": "c"}),
        (FOUR, "k", "c", {"k": "p", "p": "c"}),
        (FIVE, "k", "c", {"k": "s", "s": "p", "p": "c"}),
        (FIVE, "c", "r+p", {"c": "r", "r": "k", "k": "s", "s": "p"}),
        (FIVE, "p", "BROADCAST", {"p": "c", "c": "r", "r": "k", "k": "s"}),
        (SEVEN, "c1", "c", {"c1": "c2"}),
        (SEVEN, "c2", "c", {"c2": "r1", "r1": "r2", "r2": "k", "k": "s", "s": "p", "p": "c1"}),
        (SEVEN, "p", "r", {"p": "c1", "c1": "c2", "c2": "r1", "r1": "r2"}),
        (TEN, "c1", "k", {"c1": "c2", "c2": "c3", "c3": "r1", "r1": "r2", "r2": "r3", "r3": "k1", "k1": "k2"}),
        (TEN, "k2", "p+c2", {"k2": "s", "s": "p", "p": "c1", "c1": "c2"}),
    ],
)
def test_chain_goes_round_next_hop_only(roster: Roster, origin: str, audience: str, tree: dict[str, str]) -> None:
    assert walk(Chain(), roster, origin, audience) == tree


@pytest.mark.parametrize(
    ("roster", "origin", "audience", "tree"),
    [
        (THREE, "c", "r", {"c": "r"}),
        (THREE, "c", "BROADCAST", {"c": "r p"}),
        (FIVE, "k", "c+s", {"k": "s c"}),
        (FIVE, "r", "BROADCAST", {"r": "k s p c"}),
        (SEVEN, "c1", "c", {"c1": "c2"}),
        (SEVEN, "k", "c+r", {"k": "c1 c2 r1 r2"}),
        (TEN, "s", "r", {"s": "r1 r2 r3"}),
        (TEN, "r3", "BROADCAST", {"r3": "k1 k2 s p c1 c2 c3 r1 r2"}),
    ],
)
def test_flat_is_direct_in_roster_order_after_the_sender(
    roster: Roster, origin: str, audience: str, tree: dict[str, str]
) -> None:
    assert walk(Flat(), roster, origin, audience) == tree
    assert RouteTable.compile(Flat(), roster).fanout == 2


@pytest.mark.parametrize("make", [Star, Chain, Flat])
def test_nobody_gets_a_message_twice_and_everybody_meant_gets_it(make: type[Topology]) -> None:
    for roster in (THREE, FOUR, FIVE, SEVEN, TEN):
        for origin in roster.ids:
            for audience in ("BROADCAST", "c+k", "p", "s", "r"):
                tree = walk(make(), roster, origin, audience)
                receivers = [r for hops in tree.values() for r in hops.split()]
                assert len(receivers) == len(set(receivers)) and origin not in receivers
                assert {r for r in roster.resolve(audience) if r != origin} <= set(receivers)


@pytest.mark.parametrize("make", [Star, Chain, Flat])
def test_one_alone_cannot_be_served(make: type[Topology]) -> None:
    with pytest.raises(ValueError, match=r"two members|one more"):
        make().routes(team("p"))


def test_flat_needs_a_receiver_per_message() -> None:
    with pytest.raises(ValueError, match="fan-out"):
        Flat(fanout=0)
