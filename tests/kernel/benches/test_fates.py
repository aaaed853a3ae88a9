"""What counts as loss: hand-made histories, and the event stream that makes them."""

from __future__ import annotations

from typing import Any

import pytest

from apex_framework.benches.fates import DEAD, HANDLED, OPEN, REFUSED, Fate, Fates, losses
from apex_framework.events import MessageMoved


def test_only_messages_lost_for_good_are_loss() -> None:
    history = [
        Fate("final", 0.0, 0, HANDLED, 1.0),
        Fate("draft", 0.0, 3, HANDLED, 1.0),  # refused three times, then admitted: not lost
        Fate("critic", 0.0, 5, REFUSED, 1.0),
        Fate("draft", 0.0, 0, DEAD, 1.0),
    ]
    loss = losses(history)
    assert (loss.offered, loss.handled, loss.refused, loss.dead, loss.open) == (4, 2, 1, 1, 0)
    assert loss.share == 2 / 4
    assert loss.strict == 3 / 4
    assert (loss.refusals, loss.refusals_per_offer) == (8, 2.0)


def test_one_message_refused_often_and_dead_is_lost_once() -> None:
    loss = losses([Fate("draft", 0.0, 7, DEAD, 1.0), Fate("draft", 0.0)])
    assert (loss.share, loss.strict, loss.open) == (0.5, 0.5, 1)


def test_nothing_offered_is_nothing_lost() -> None:
    loss = losses([])
    assert (loss.share, loss.strict, loss.refusals_per_offer) == (0.0, 0.0, 0.0)


def _moved(message: str, what: str, receiver: str, ts: float, reason: str = "") -> MessageMoved:
    return MessageMoved("e", message, what, "a0", "a0", receiver, "a2", 0, ts, reason=reason)


def test_events_end_a_message_at_its_addressee_only() -> None:
    fates = Fates()
    fates.offered("m1", "final", 1.0)
    fates(_moved("m1", "acked", "a1", 2.0))  # by a relay
    assert fates.by_id["m1"].end == OPEN
    fates(_moved("m1", "acked", "a2", 3.0))
    assert (fates.by_id["m1"].end, fates.by_id["m1"].ended) == (HANDLED, 3.0)


def test_dead_letters_and_refusals_are_counted_by_reason() -> None:
    fates = Fates()
    for name in ("m1", "m2"):
        fates.offered(name, "draft", 0.0)
    fates.refused("m1", "dropped_wred")
    fates.refused("m1", "dropped_full")
    fates.given_up("m1", 9.0)
    fates(_moved("m2", "dead", "a2", 4.0, "max_retries"))
    assert fates.drops == {"dropped_wred": 1, "dropped_full": 1, "dead: max_retries": 1}
    assert [fate.end for fate in fates.of("draft")] == [REFUSED, DEAD]
    assert losses(fates.by_id.values()).share == 1.0


@pytest.mark.parametrize("late", [("acked", "a2"), ("dead", "a2")])
def test_the_first_end_counts(late: tuple[str, Any]) -> None:
    fates = Fates()
    fates.offered("m1", "draft", 0.0)
    fates.given_up("m1", 1.0)
    fates(_moved("m1", *late, 2.0))
    assert (fates.by_id["m1"].end, fates.by_id["m1"].ended) == (REFUSED, 1.0)


def test_a_message_of_somebody_else_is_not_counted() -> None:
    fates = Fates()
    fates(_moved("unknown", "acked", "a2", 1.0))
    assert losses(fates.by_id.values()).offered == 0
