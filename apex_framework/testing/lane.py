"""Conformance kit of lane disciplines."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from ..interfaces import AgentID, Epoch, Lane, LaneDiscipline, Message, MessagePriority, RouteResult
from .conformance import run_checks

KIND: Final = "lane"
CAPACITY: Final = 50

Make = Callable[[], LaneDiscipline]


def check_lane(make: Make) -> None:
    """Run every check on fresh disciplines. Raises ConformanceError."""
    run_checks(
        KIND,
        {
            "has_a_name": lambda: check_has_a_name(make),
            "empty_gives_none": lambda: check_empty_gives_none(make),
            "answers_with_a_result": lambda: check_answers_with_a_result(make),
            "gives_what_it_took": lambda: check_gives_what_it_took(make),
            "keeps_the_order_of_a_pair": lambda: check_keeps_the_order_of_a_pair(make),
            "counts_what_waits": lambda: check_counts_what_waits(make),
            "bounded": lambda: check_bounded(make),
            "refusing_leaves_no_trace": lambda: check_refusing_leaves_no_trace(make),
            "refusing_changes_nothing": lambda: check_refusing_changes_nothing(make),
            "room_comes_back": lambda: check_room_comes_back(make),
            "restores_past_capacity": lambda: check_restores_past_capacity(make),
            "restored_wait_behind": lambda: check_restored_wait_behind(make),
            "restored_take_room": lambda: check_restored_take_room(make),
            "no_class_starves": lambda: check_no_class_starves(make),
            "serves_strangers": lambda: check_serves_strangers(make),
            "looking_changes_nothing": lambda: check_looking_changes_nothing(make),
            "shows_arrival_order": lambda: check_shows_arrival_order(make),
            "lanes_share_nothing": lambda: check_lanes_share_nothing(make),
            "same_seed_same_service": lambda: check_same_seed_same_service(make),
        },
    )


def _messages(count: int, offset: int = 0) -> list[Message]:
    """Messages of two senders and all priorities; ids tell the order."""
    priorities = list(MessagePriority)
    return [
        Message("e", f"m{i}", AgentID(f"s{i % 2}"), AgentID("r"), Epoch(0), {"n": i}, priorities[i % 3], created_ts=0.0)
        for i in range(offset, offset + count)
    ]


def _lane(make: Make, capacity: int = CAPACITY) -> Lane:
    return make().lane("r", capacity, random.Random(7))


def _fill(lane: Lane, messages: list[Message]) -> list[Message]:
    return [m for m in messages if lane.offer(m) == RouteResult.ENQUEUED]


def _drain(lane: Lane) -> list[Message]:
    taken: list[Message] = []
    while (message := lane.take()) is not None and len(taken) < 10 * CAPACITY:
        taken.append(message)
    return taken


def _ids(messages: list[Message]) -> list[str]:
    return [m.msg_id for m in messages]


def check_has_a_name(make: Make) -> None:
    """It says what it is."""
    name = make().name
    assert isinstance(name, str) and name, f"name is {name!r}"


def check_empty_gives_none(make: Make) -> None:
    """Taking from an empty lane gives None, before and after use."""
    lane = _lane(make)
    assert lane.take() is None, "a new lane is not empty"
    _fill(lane, _messages(1))
    lane.take()
    try:
        assert lane.take() is None, "a drained lane gives something"
    except (IndexError, LookupError) as error:
        raise AssertionError(f"a drained lane raises {type(error).__name__}") from error


def check_answers_with_a_result(make: Make) -> None:
    """An offer is answered by ENQUEUED, FULL or WRED."""
    lane = _lane(make, 2)
    for message in _messages(4):
        answer = lane.offer(message)
        expected = (RouteResult.ENQUEUED, RouteResult.FULL, RouteResult.WRED)
        assert isinstance(answer, RouteResult) and answer in expected, f"offer answers {answer!r}"


def check_gives_what_it_took(make: Make) -> None:
    """What was admitted comes out, once each, as the same object."""
    lane = _lane(make)
    admitted = _fill(lane, _messages(20))
    taken = _drain(lane)
    assert sorted(map(id, taken)) == sorted(map(id, admitted)), f"in {_ids(admitted)}, out {_ids(taken)}"


def check_keeps_the_order_of_a_pair(make: Make) -> None:
    """First in, first out for messages of one sender and one priority."""
    lane = _lane(make)
    admitted = _fill(lane, _messages(20))
    taken = _drain(lane)
    for key in {(m.sender, m.priority) for m in admitted}:
        sent = [m.msg_id for m in admitted if (m.sender, m.priority) == key]
        got = [m.msg_id for m in taken if (m.sender, m.priority) == key]
        kept = [m for m in sent if m in got]
        assert list(dict.fromkeys(got)) == kept, f"{key}: sent {sent}, got {got}"


def check_counts_what_waits(make: Make) -> None:
    """``len`` is the number of messages that wait."""
    lane = _lane(make)
    expected = 0
    for message in _messages(5):
        expected += lane.offer(message) == RouteResult.ENQUEUED
        assert len(lane) == expected, f"len is {len(lane)}, not {expected}"
    while lane.take() is not None:
        expected -= 1
        assert len(lane) == max(expected, 0), f"len is {len(lane)}, not {expected}"


def check_bounded(make: Make) -> None:
    """No more than its capacity is admitted."""
    admitted = len(_fill(_lane(make, 5), _messages(20)))
    assert 1 <= admitted <= 5, f"{admitted} of 20 admitted with room for 5"


def check_refusing_leaves_no_trace(make: Make) -> None:
    """A refused message does not come out later."""
    lane = _lane(make, 5)
    messages = _messages(20)
    admitted = {m.msg_id for m in _fill(lane, messages)}
    refused = {m.msg_id for m in messages} - admitted
    leaked = refused & set(_ids(_drain(lane)))
    assert not leaked, f"refused, but delivered: {sorted(leaked)}"


def check_refusing_changes_nothing(make: Make) -> None:
    """A refusal changes neither the number nor the order of what waits."""
    lane = _lane(make, 5)
    for message in _messages(20):
        before = len(lane), [id(m) for m in lane]
        if lane.offer(message) != RouteResult.ENQUEUED:
            after = len(lane), [id(m) for m in lane]
            assert before == after, f"{before[0]} waited before a refusal, {after[0]} after it"


def check_room_comes_back(make: Make) -> None:
    """Once a message is taken there is room for another, after any number of refusals."""
    lane, capacity = _lane(make, 5), 5
    for message in _messages(20):
        lane.offer(message)
    while lane.take() is not None:
        pass
    admitted = len(_fill(lane, _messages(capacity, 20)))
    assert admitted >= 1, f"nothing is admitted to an empty lane after {20 - capacity} refusals"


def check_restores_past_capacity(make: Make) -> None:
    """What was admitted before is taken back whatever the capacity."""
    lane = _lane(make, 2)
    for message in _messages(6):
        lane.restore(message)
    assert len({m.msg_id for m in lane}) == 6, f"{len(lane)} of 6 restored"


def check_restored_wait_behind(make: Make) -> None:
    """What is restored comes after those of its sender and priority that are already here, and keeps its own order."""
    lane = _lane(make)
    first = _fill(lane, _messages(12))
    second = _messages(12, 12)
    for message in second:
        lane.restore(message)
    taken = _ids(_drain(lane))
    for key in {(m.sender, m.priority) for m in second}:
        wanted = [m.msg_id for m in (*first, *second) if (m.sender, m.priority) == key]
        got = [i for i in taken if i in wanted]
        assert got == [i for i in wanted if i in got], f"{key}: waited {wanted}, got {got}"


def check_restored_take_room(make: Make) -> None:
    """A lane that restored messages have filled admits no new one."""
    lane = _lane(make, 2)
    for message in _messages(6):
        lane.restore(message)
    assert not _fill(lane, _messages(6, 6)), "new messages are admitted past a capacity that restored ones fill"


def check_no_class_starves(make: Make) -> None:
    """One message of each priority is served although messages of the others never end."""
    for starving in MessagePriority:
        lane = _lane(make)
        others = [m for m in _messages(30 * CAPACITY) if m.priority != starving]
        lane.restore(others.pop())
        one = next(m for m in _messages(3) if m.priority == starving)
        lane.restore(one)
        for other in others:
            served = lane.take()
            if served is not None and served.msg_id == one.msg_id:
                break
            lane.restore(other)
        else:
            raise AssertionError(f"a message of class {starving} waits while {len(others)} others are served")


def check_serves_strangers(make: Make) -> None:
    """A message whose priority is none of the three is admitted and comes out."""
    for stranger in ("urgent", "", None, 7):
        lane, message = _lane(make), _messages(1)[0]
        message.priority = stranger  # type: ignore[assignment]  # what a careless sender, or another version, would do
        assert lane.offer(message) == RouteResult.ENQUEUED, f"priority {stranger!r} is refused by an empty lane"
        lane.restore(message)
        assert None not in (lane.take(), lane.take()), f"priority {stranger!r} does not come out"


def check_looking_changes_nothing(make: Make) -> None:
    """Iterating shows the same twice, and takes nothing away."""
    lane = _lane(make)
    _fill(lane, _messages(6))
    first, second = _ids(list(lane)), _ids(list(lane))
    assert first == second, f"shows {first}, then {second}"


def check_shows_arrival_order(make: Make) -> None:
    """Iteration is in order of arrival, whatever the order of service."""
    lane = _lane(make)
    for message in _messages(6):
        lane.restore(message)
    shown = _ids(list(lane))
    assert shown == sorted(shown, key=lambda i: int(i[1:])), f"shows {shown}"


def check_lanes_share_nothing(make: Make) -> None:
    """Two lanes of one discipline are two lanes."""
    discipline = make()
    one = discipline.lane("a", CAPACITY, random.Random(1))
    two = discipline.lane("b", CAPACITY, random.Random(1))
    one.restore(_messages(1)[0])
    assert not list(two), "what is put into one lane shows in another"


def check_same_seed_same_service(make: Make) -> None:
    """Randomness comes from the generator that is passed in, and from nowhere else."""

    def service() -> list[str]:
        lane = _lane(make)
        _fill(lane, _messages(CAPACITY))
        return _ids(_drain(lane))

    runs = [service() for _ in range(3)]
    assert runs[0] == runs[1] == runs[2], "the same offers are served in different ways"
