"""The bridge: what outsiders send passes the router like everything else, or not at all."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from world import GUEST, ROSTER, Town, envelope

from apex_a2a.bridge import A2ABridge, Outsider
from apex_a2a.envelope import EXTENSION, Envelope
from apex_a2a.refusal import CODES, Refusal
from apex_framework.interfaces import AgentID, Epoch, Message, RouteResult, Ruling


def refusal_of(town: Town, message: Any, principal: str = "alice") -> str:
    with pytest.raises(Refusal) as refused:
        asyncio.run(town.bridge.ingest_external(message, principal))
    assert town.router.open == 0
    assert town.bridge.refused == {refused.value.refusal: 1}
    return refused.value.refusal


def test_an_envelope_becomes_a_message_of_its_seat() -> None:
    town = Town()
    receipt = asyncio.run(town.bridge.ingest_external(envelope(ttl_s=5, priority="final"), "alice"))
    assert (receipt.result, receipt.sequence, receipt.duplicate) == ("enqueued", 1, False)
    lease = town.router.try_lease(AgentID("planner"))
    assert lease is not None
    got = lease.message
    assert (got.sender, got.msg_id, got.payload) == (GUEST, "a2a:alice:e1", {"kind": "note", "n": 1})
    assert got.meta == {"a2a": {"principal": "alice", "id": "e1", "sequence": 1}}


@pytest.mark.parametrize(
    ("table", "code"),
    [
        ({"sender": "planner"}, "E_AUTHZ"),
        ({"sender": "coder"}, "E_AUTHZ"),
        ({"audience": "BROADCAST"}, "E_AUTHZ"),
        ({"audience": "coder"}, "E_AUTHZ"),
        ({"audience": "planner+coder"}, "E_AUTHZ"),
        ({"audience": "ghost"}, "E_NOTFOUND"),
        ({"epoch": 1}, "E_EPOCH"),
        ({"epoch": -1}, "E_ARG"),
        ({"epoch": 2**63}, "E_ARG"),
        ({"epoch": True}, "E_ARG"),
        ({"epoch": "0"}, "E_ARG"),
        ({"episode": "other"}, "E_EPOCH"),
        ({"ttl_s": 10**9}, "E_ARG"),
        ({"ttl_s": -1}, "E_ARG"),
        ({"attempt": -1}, "E_ARG"),
        ({"attempt": 3}, "E_ARG"),
        ({"priority": "root"}, "E_ARG"),
        ({"operation": "tool"}, "E_POLICY"),
        ({"operation": "model"}, "E_POLICY"),
        ({"approved": True}, "E_ARG"),
    ],
)
def test_a49_what_is_not_allowed_has_its_code_and_does_not_reach_the_router(table: dict[str, Any], code: str) -> None:
    assert refusal_of(Town(), envelope(**table)) == code


def test_a53_a_tool_call_as_payload_is_refused_by_policy() -> None:
    assert refusal_of(Town(), envelope(data={"kind": "tool_call", "tool": "fs.write"})) == "E_POLICY"


@pytest.mark.parametrize("principal", ["bob", "planner", "mallory", ""])
def test_nobody_without_a_seat_speaks(principal: str) -> None:
    assert refusal_of(Town(), envelope(), principal) == "E_AUTHZ"


def test_resolve_agent_knows_only_configured_seats() -> None:
    bridge = Town().bridge
    assert bridge.resolve_agent("alice") == GUEST == bridge.resolve_agent("alice/alice_guest")
    for stranger in ("bob", "planner", "alice/planner", "/alice_guest"):
        with pytest.raises(Refusal, match="E_AUTHZ"):
            bridge.resolve_agent(stranger)


def test_a_seat_that_is_no_member_is_refused_at_once() -> None:
    town = Town()
    with pytest.raises(Refusal, match="no member"):
        A2ABridge(town.router, ROSTER, "ep", {"x": Outsider("x", (AgentID("nobody"),))}, clock=town.clock)


def test_the_same_envelope_twice_is_routed_once() -> None:
    town = Town()

    async def twice() -> None:
        first = await town.bridge.ingest_external(envelope(), "alice")
        again = await town.bridge.ingest_external(envelope(), "alice")
        assert (again.msg_id, again.sequence, again.duplicate) == (first.msg_id, 1, True)

    asyncio.run(twice())
    assert town.router.open == 1


def test_an_id_on_another_envelope_is_refused() -> None:
    town = Town()
    asyncio.run(town.bridge.ingest_external(envelope(1), "alice"))
    with pytest.raises(Refusal, match="E_ARG"):
        asyncio.run(town.bridge.ingest_external(envelope(1, {"kind": "other"}), "alice"))
    assert town.router.open == 1


def test_sequence_numbers_only_rise() -> None:
    town = Town()
    asyncio.run(town.bridge.ingest_external(envelope(1, sequence=5), "alice"))
    for number in (5, 4):
        with pytest.raises(Refusal, match="E_ARG"):
            asyncio.run(town.bridge.ingest_external(envelope(number + 10, sequence=number), "alice"))
    asyncio.run(town.bridge.ingest_external(envelope(2, sequence=6), "alice"))
    assert town.router.open == 2


def test_a_policy_of_the_router_holds_for_outsiders() -> None:
    town = Town(allow=lambda message: Ruling(message.sender != GUEST, "no guests"))
    receipt = asyncio.run(town.bridge.ingest_external(envelope(), "alice"))
    assert receipt.result == RouteResult.POLICY.value
    assert town.router.open == 0


def test_a_full_lane_answers_instead_of_growing() -> None:
    town = Town(capacity=4)
    results = [asyncio.run(town.bridge.ingest_external(envelope(i), "alice")).result for i in range(12)]
    assert town.router.open <= 4 and results[-1] != "enqueued"


def test_a_payload_beyond_the_guard_is_refused_and_may_be_sent_again_smaller() -> None:
    town = Town()
    with pytest.raises(Refusal, match="E_SIZE"):
        asyncio.run(town.bridge.ingest_external(envelope(1, {"text": "x" * 600_000}), "alice"))
    asyncio.run(town.bridge.ingest_external(envelope(1), "alice"))
    assert town.router.open == 1


def test_what_goes_out_says_epoch_topology_and_whom_an_answer_may_have() -> None:
    town = Town("star")
    message = Message("ep", "m7", AgentID("coder"), GUEST, Epoch(0), {"kind": "ask"}, audience="guest")
    out = town.bridge.emit_external(message)
    table = out["metadata"][EXTENSION]
    assert out["parts"] == [{"data": {"kind": "ask"}, "mediaType": "application/json"}]
    assert (table["epoch"], table["topology"], table["sender"], table["recipients"], table["sequence"]) == (
        0, "star", "coder", ["planner"], 1,
    )  # fmt: skip
    with pytest.raises(Refusal, match="E_AUTHZ"):
        town.bridge.emit_external(Message("ep", "m8", GUEST, AgentID("coder"), Epoch(0), {}))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=8,
)
FIELDS = (
    "episode", "epoch", "sender", "audience", "priority", "ttl_s", "attempt", "sequence", "operation", "tokens", "x",
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4), JSON, st.sampled_from(["alice", "bob", "x"]))
def test_whatever_comes_is_refused_with_a_code_or_sent_from_its_own_seat(
    table: dict[str, Any], part: Any, who: str
) -> None:
    town = Town()
    message = envelope(**table)
    message["parts"] = [part, *message["parts"]] if part else message["parts"]
    try:
        asyncio.run(town.bridge.ingest_external(json.dumps(message).encode(), who))
    except Refusal as refusal:
        assert refusal.refusal in CODES and town.router.open == 0
        return
    assert who == "alice"
    lease = town.router.try_lease(AgentID("planner"))
    assert lease is not None and lease.message.sender == GUEST


def test_a_bridge_that_believes_the_sender_is_caught() -> None:
    """A planted bug: the seat is taken from the envelope."""

    class Trusting(A2ABridge):
        def check(self, envelope: Envelope, principal: str, epoch: int | None = None) -> AgentID:
            return AgentID(envelope.sender or "planner")

    town = Town()
    town.bridge.__class__ = Trusting
    asyncio.run(town.bridge.ingest_external(envelope(sender="coder"), "alice"))
    lease = town.router.try_lease(AgentID("planner"))
    assert lease is not None and lease.message.sender != GUEST  # what the property above forbids
