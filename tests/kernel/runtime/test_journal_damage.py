"""A journal that was cut, changed or mixed up: the right records, or a JournalError that says where; never other records."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apex_framework.errors import JournalError
from apex_framework.runtime import recovery
from apex_framework.runtime.journal import Journal, Record
from apex_framework.runtime.recovery import HEADER_BYTES, chained, encode, new_file, recover, to_payload

BATCHES = (2, 1, 3, 2)
"""How many records each sync of the sample journal covers."""
LAST = sum(BATCHES[:-1])
"""Records that a later record declares to be on disk."""


def sample(created: bytes = b"c" * 16) -> tuple[bytes, tuple[Record, ...], list[int]]:
    """A journal as a file, its records, and where each begins and the last one ends."""
    data = new_file(created)
    tip, synced, seq, begins = chained(data[:32]), 0, 0, []
    records = []
    for batch in BATCHES:
        for _ in range(batch):
            seq += 1
            payload = {"n": seq, "text": "abcd" * seq}
            begins.append(len(data))
            record = encode(64 + seq, seq // 3, seq, synced, tip, to_payload(payload))
            data, tip = data + record, chained(record)
            records.append(Record(64 + seq, seq // 3, seq, payload))
        synced = seq
    return data, tuple(records), [*begins, len(data)]


DATA, RECORDS, AT = sample()


def judge(data: bytes) -> int | None:
    """How many records are read, None for an error; fails when they are not the ones that were written."""
    try:
        found = recover(data, "journal").records
    except JournalError as error:
        assert error.remedy and "\n" not in error.cause and error.cause.startswith("journal ")
        return None
    assert found == RECORDS[: len(found)], "records that nobody wrote"
    return len(found)


def check_cuts() -> None:
    for end in range(len(DATA)):
        whole = sum(AT[i + 1] <= end for i in range(len(RECORDS)))
        assert judge(DATA[:end]) == (whole if end >= HEADER_BYTES else None), end
        for filled in (0, 1, 511, 2000):
            if end >= HEADER_BYTES:
                assert judge(DATA[:end] + bytes(filled)) in (whole, whole + 1), end  # a record may end with a zero


def check_flips() -> None:
    for bit in range(len(DATA) * 8):
        byte = bytearray(DATA)
        byte[bit // 8] ^= 1 << bit % 8
        found = judge(bytes(byte))
        if bit // 8 < 32:
            assert found is None
        elif bit // 8 < HEADER_BYTES:
            assert found == len(RECORDS)
        else:
            broken = sum(AT[i + 1] * 8 <= bit for i in range(len(RECORDS)))
            assert found in ((None,) if broken < LAST else (None, broken)), bit
            assert found is None or broken + 1 == len(RECORDS) or data_ends_in_zero(byte, broken)


def data_ends_in_zero(data: bytearray, broken: int) -> bool:
    """Whether a damaged record looks like one whose end never arrived."""
    return data[AT[broken + 1] - 1] == 0


def spliced() -> Iterator[tuple[str, bytes, int | None]]:
    """What was done, the file, and how many records may be read from it."""
    pieces = [DATA[:HEADER_BYTES], *(DATA[AT[i] : AT[i + 1]] for i in range(len(RECORDS)))]
    other, _, _ = sample(b"d" * 16)
    n = len(RECORDS)
    for i in range(1, n):
        yield f"record {i} removed", b"".join(pieces[:i] + pieces[i + 1 :]), None
        yield f"record {i} twice", b"".join(pieces[: i + 1] + pieces[i:]), None
        yield (
            f"records {i} and {i + 1} swapped",
            b"".join([*pieces[:i], pieces[i + 1], pieces[i], *pieces[i + 2 :]]),
            None,
        )
    for i in range(1, n + 1):
        foreign = other[AT[i - 1] : AT[i]]
        yield f"record {i} of another journal", b"".join([*pieces[:i], foreign, *pieces[i + 1 :]]), None
        yield f"the tail from record {i} again", DATA + b"".join(pieces[i:]), n
        if i <= LAST:
            yield f"record {i} zeroed", b"".join([*pieces[:i], bytes(len(pieces[i])), *pieces[i + 1 :]]), None
    yield "the last record zeroed", b"".join([*pieces[:n], bytes(len(pieces[n]))]), n - 1
    yield "a gap of zeros inside what was not synced", b"".join([*pieces[: n - 1], bytes(99), pieces[n]]), n - 2
    yield "text behind the end", DATA + b"hello\n", n


def check_splices() -> None:
    for what, data, expected in spliced():
        assert judge(data) == expected, what


def test_f08_a_torn_or_zero_filled_tail_at_any_byte_is_cut() -> None:
    check_cuts()


def test_f08_any_flipped_bit_is_an_error_or_cuts_the_tail() -> None:
    check_flips()


def test_f08_records_removed_repeated_swapped_or_foreign_in_the_middle_stop_with_an_error() -> None:
    check_splices()


PLANTED: dict[str, tuple[str, Callable[..., object]]] = {
    "the chain is not compared": ("_follows", lambda frame, seq, tip: frame.seq == seq + 1),
    "numbers are not compared": ("_follows", lambda frame, seq, tip: frame.prev_hash != b""),
    "whatever is unreadable is cut": ("_require_crash", lambda data, at, seq, path: None),
    "later records are not looked for": ("_frames_behind", lambda data, at, seq: iter(())),
    "any gap passes for a lost write": ("_never_arrived", lambda data, start, stop: True),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, broken = PLANTED[bug]
    monkeypatch.setattr(recovery, name, broken)
    with pytest.raises(AssertionError):
        check_cuts()
        check_flips()
        check_splices()


def test_the_error_names_file_place_cause_and_remedy_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    broken = bytearray(DATA)
    broken[AT[2] + 50] ^= 1
    path.write_bytes(broken)
    with pytest.raises(JournalError, match=rf"{path} is damaged at byte {AT[2]}: record 3 is unreadable") as caught:
        Journal.open(path)
    assert caught.value.remedy == "restore a copy of it; nothing was changed"
    assert path.read_bytes() == broken


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400), st.integers(0, len(DATA)))
def test_whatever_follows_the_journal_only_its_own_records_are_read(tail: bytes, end: int) -> None:
    judge(DATA[:end] + tail)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_a_journal_error(data: bytes) -> None:
    with pytest.raises(JournalError):
        recover(data, "journal")


def test_a_large_zero_filled_tail_is_cut_quickly() -> None:
    noise = random.Random(1).randbytes(1_000_000)
    assert judge(DATA + bytes(16_000_000)) == len(RECORDS)
    assert judge(DATA + noise) == len(RECORDS)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 255), st.integers(0, 2**64 - 1), st.dictionaries(st.text(), json_values)), max_size=8
    )
)
def test_what_is_written_is_read(entries: list[tuple[int, int, dict[str, object]]]) -> None:
    data = new_file(b"e" * 16)
    tip = chained(data[:32])
    for seq, (kind, epoch, payload) in enumerate(entries, 1):
        record = encode(kind, epoch, seq, 0, tip, to_payload(payload))
        data, tip = data + record, chained(record)
    found = recover(data, "journal")
    assert [(r.kind, r.epoch, r.payload) for r in found.records] == entries
    assert (found.end, found.tip) == (len(data), tip)
