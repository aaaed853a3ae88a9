"""The ledger's log rebuilds it; an unfinished line is cut, damage is refused, and a failed write grants nothing."""

from __future__ import annotations

import errno
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apex_framework.budget import Reservation, ScopeInstance, open_ledger
from apex_framework.budget.entries import Expired, Leased, Opened, Renewed, Reserved, Settled
from apex_framework.budget.log import _line, encode, parse
from apex_framework.errors import BudgetStoreError
from apex_framework.interfaces import Denied, Limits
from apex_framework.ports import SystemFiles

EPISODE = ScopeInstance("episode", 'ep/1 \u2028 "é"', Limits(1_000, 5_000))
ROLE = ScopeInstance("role", "ep/coder", Limits(600), EPISODE.id)


def busy(ledger):
    """A bit of everything."""
    one = ledger.reserve([EPISODE, ROLE], 100, 10, now_ms=0)
    two = ledger.reserve([EPISODE], 200, now_ms=5)
    ledger.renew(one.id, 900)
    ledger.settle(one.id, 90, 7)
    ledger.expire(20_000)
    ledger.settle(two.id, 250)
    ledger.lease(ROLE.id, 700)
    ledger.reserve([EPISODE], 10, now_ms=20_000)
    return ledger


def test_the_log_rebuilds_the_ledger(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger = busy(open_ledger(path))
    ledger.close()
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert lines[0]["apex_ledger"] == 1 and [line["n"] for line in lines[1:]] == list(range(1, len(lines)))
    again = open_ledger(path)
    assert again.entries[:-1] == ledger.entries, "and the reservation that was open is debited"
    ledger.expire(1 << 60)
    assert again.state() == ledger.state()
    assert isinstance(again.reserve([EPISODE], 1), Reservation)
    again.close()
    assert again.reserve([EPISODE], 1).reasons == {"ledger": "policy:closed"}


texts, numbers = st.text(max_size=20), st.integers(0, 10**12)
limits = st.builds(Limits, st.none() | numbers, st.none() | numbers)
anything = st.one_of(
    st.builds(Opened, st.builds(ScopeInstance, texts, texts, limits, st.none() | texts)),
    st.builds(Leased, texts, numbers),
    st.builds(
        Reserved, st.builds(Reservation, texts, st.lists(texts, max_size=4).map(tuple), numbers, numbers, numbers)
    ),
    st.builds(Renewed, texts, numbers),
    st.builds(Expired, texts),
    st.builds(Settled, texts, numbers, numbers),
)


@given(st.lists(anything, max_size=20))
@settings(max_examples=50, deadline=None)
def test_lines_are_entries(some):
    data = _line({"apex_ledger": 1}) + b"".join(encode(n, e) for n, e in enumerate(some, 1))
    assert parse(data, "log") == (tuple(some), len(data))


def whole(tmp_path):
    path = tmp_path / "whole.jsonl"
    busy(open_ledger(path)).close()
    return path.read_bytes()


def test_f37_a_tail_torn_at_any_byte_is_cut(tmp_path):
    data = whole(tmp_path)
    found, _ = parse(data, "log")
    header = data.index(b"\n") + 1
    for end in range(header, len(data)):
        entries, kept = parse(data[:end], "log")
        assert entries == found[: len(entries)] and kept == data[:end].rfind(b"\n") + 1
    for zeros in (1, 5, 4096):
        assert parse(data + bytes(zeros), "log") == (found, len(data))


def test_f37_damage_at_any_byte_is_refused_in_one_line(tmp_path):
    data = whole(tmp_path)
    for place in range(len(data) - 1):
        spoilt = bytearray(data)
        spoilt[place] ^= 0x15
        try:
            entries, _ = parse(bytes(spoilt), "log")
        except BudgetStoreError as error:
            assert error.reason in ("store_damaged", "store_version") and "\n" not in str(error) + error.remedy
        else:
            raise AssertionError(f"byte {place} is spoilt, and {len(entries)} entries are believed")


@pytest.mark.parametrize(
    ("data", "reason", "what"),
    [
        (b"", "store_damaged", "is empty"),
        (b"hello\n", "store_damaged", "line 1"),
        (b"\0" * 4096, "store_damaged", "line 1"),
        (_line({"apex_ledger": 2}), "store_version", "has version 2"),
        (_line({"apex_ledger": 1}) + _line({"n": 2, "kind": "expired", "id": "r1"}), "store_damaged", "line 2"),
        (_line({"apex_ledger": 1}) + _line({"n": 1, "kind": "gift", "id": "r1"}), "store_damaged", "line 2"),
        (_line({"apex_ledger": 1}) + _line({"n": 1, "kind": "expired", "id": "r1"}), "store_damaged", "unknown"),
    ],
)
def test_what_is_no_log_is_refused_and_left_alone(tmp_path, data, reason, what):
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(data)
    for _ in range(2):  # it is not kept open either
        with pytest.raises(BudgetStoreError, match=what) as caught:
            open_ledger(path)
        assert caught.value.reason == reason and str(path) in str(caught.value)
    assert path.read_bytes() == data


def test_a_log_has_one_owner(tmp_path):
    first = open_ledger(tmp_path / "ledger.jsonl")
    with pytest.raises(BudgetStoreError, match="in use") as caught:
        open_ledger(tmp_path / "ledger.jsonl")
    assert caught.value.reason == "store_locked"
    first.close()
    open_ledger(tmp_path / "ledger.jsonl").close()


def test_no_folder_no_ledger(tmp_path):
    with pytest.raises(BudgetStoreError, match="cannot be opened") as caught:
        open_ledger(tmp_path / "none" / "ledger.jsonl")
    assert caught.value.reason == "store_unwritable"


class FullDisk(SystemFiles):
    """A disk with room for so many writes."""

    def __init__(self, room, torn=False):
        super().__init__()
        self.room, self.torn = room, torn

    def log(self, path, *, new):
        file, disk = super().log(path, new=new), self
        write = file.write

        def limited(data, offset):
            disk.room -= 1
            if disk.room < 0:
                if disk.torn:
                    write(data[: len(data) // 2], offset)
                raise OSError(errno.ENOSPC, "No space left on device")
            write(data, offset)

        file.write = limited
        return file


@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("room", range(6))
def test_f37_a_write_that_fails_grants_nothing_more_and_charges_what_was_granted(tmp_path, room, torn):
    path = tmp_path / "ledger.jsonl"
    ledger = open_ledger(path, files=FullDisk(room, torn))
    held = []
    for _ in range(6):
        answer = ledger.reserve([EPISODE], 100)
        if isinstance(answer, Denied):
            assert answer.reasons == {"ledger": "policy:store_unwritable"}
            break
        held.append(answer)
    else:
        raise AssertionError("the disk was never full")
    for reservation in held:
        ledger.settle(reservation.id, 40)
    assert ledger.reserve([EPISODE], 0).reasons == {"ledger": "policy:store_unwritable"}
    assert len(held) == 0 or ledger.used(EPISODE.id) == 40 * len(held)
    ledger.close()
    again = open_ledger(path)
    spent = again.used(EPISODE.id) if again.knows(EPISODE.id) else 0
    assert spent == 100 * len(held), "what could not be settled in the log is debited"
    again.close()
