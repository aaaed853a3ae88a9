"""Routes compile into shortest paths, ties by the order of edges, and nonsense is refused."""

from __future__ import annotations

import pytest
from rig import team

from apex_framework.interfaces import AgentID, Routes
from apex_framework.runtime import RouteTable

TEAM = team("a b c d e")


def table(fanout: int | None = None, **edges: str) -> RouteTable:
    return RouteTable(TEAM, Routes({AgentID(h): tuple(map(AgentID, r.split())) for h, r in edges.items()}, fanout), "t")


def hops(routes: RouteTable, origin: str, holder: str, audience: str) -> str:
    return " ".join(routes.next_hops(AgentID(origin), AgentID(holder), audience))


def test_ties_are_broken_by_the_order_of_edges() -> None:
    assert hops(table(a="b c", b="d", c="d", d="e"), "a", "a", "d") == "b"
    assert hops(table(a="c b", b="d", c="d", d="e"), "a", "a", "d") == "c"


def test_shorter_beats_preferred() -> None:
    assert hops(table(a="b c", b="d", d="e", c="e"), "a", "a", "e") == "c"


def test_a_tree_is_shared_as_far_as_paths_agree() -> None:
    routes = table(a="b", b="c d", c="e")
    assert hops(routes, "a", "a", "BROADCAST") == "b"
    assert hops(routes, "a", "b", "BROADCAST") == "c d"
    assert hops(routes, "a", "b", "e") == "c"
    assert hops(routes, "a", "c", "BROADCAST") == "e"
    assert hops(routes, "a", "d", "BROADCAST") == ""
    assert hops(routes, "a", "e", "b") == ""


def test_unreachable_members_are_counted() -> None:
    plan = table(a="b").plan(AgentID("a"), "BROADCAST")
    assert ([h.receiver for h in plan.hops], plan.unreachable, plan.meant) == (["b"], 3, 4)


def test_answers_are_kept() -> None:
    routes = table(a="b", b="c")
    assert routes.plan(AgentID("a"), "c") is routes.plan(AgentID("a"), "c")


@pytest.mark.parametrize("edges", [{"a": "x"}, {"x": "a"}, {"a": "a"}, {"a": "b b"}])
def test_impossible_edges_are_refused(edges: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="topology 't'"):
        table(**edges)


def test_a_fanout_of_nobody_is_refused() -> None:
    with pytest.raises(ValueError, match="fan-out"):
        table(0, a="b")
