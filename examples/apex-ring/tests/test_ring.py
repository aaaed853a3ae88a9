from __future__ import annotations

from apex_ring.ring import Ring

from apex_framework import AgentID, Member, Roster, load_plugins
from apex_framework.testing import check_topology


def test_it_is_a_topology() -> None:
    check_topology(Ring)


def test_each_agent_speaks_with_its_neighbours() -> None:
    members = tuple(Member(AgentID(name), "coder") for name in "abcd")
    edges = Ring().routes(Roster(members, AgentID("a"))).edges
    assert edges == {"a": ("b", "d"), "b": ("c", "a"), "c": ("d", "b"), "d": ("a", "c")}


def test_apex_finds_it_by_name() -> None:
    plugins = load_plugins(strict=True)
    assert plugins.catalog.make("topology", "ring").name == "ring"
    assert plugins.catalog.entry("topology", "ring").owner.distribution == "apex-ring"
