"""inproc and pipe: the kit, exact sizes, and a decoder that no bytes can upset."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apex_framework.errors import PayloadError
from apex_framework.interfaces import MAX_PAYLOAD_BYTES, AgentID, Epoch, Message, Transport
from apex_framework.testing.transport import check_transport
from apex_transports.inproc import InProcess
from apex_transports.json_codec import MAX_FRAME_BYTES, JsonCodec
from apex_transports.pipe import Pipe

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=100)
)
KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
PAYLOADS = st.dictionaries(
    KEYS, st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=20)
)


def message(payload: Any) -> Message:
    return Message("e", "m1", AgentID("a"), AgentID("b"), Epoch(1), payload, created_ts=0.0)


@pytest.mark.parametrize("make", [InProcess, Pipe])
def test_transports_conform(make: type[Transport]) -> None:
    check_transport(make)


@given(PAYLOADS)
@settings(max_examples=80, deadline=None)
def test_size_is_exactly_that_of_compact_utf8_json(payload: dict[str, Any]) -> None:
    exact = len(json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode())
    codec = JsonCodec()
    assert codec.size(message(payload)) == exact
    assert codec.size(message(payload)) == exact


@pytest.mark.parametrize("text", ['"' * 5000, "\x01\n" * 3000, "é" * 4000, "🙂\\" * 2000, "x" * 100_000, "\x7f" * 70])
def test_size_of_long_texts_is_exact(text: str) -> None:
    exact = len(json.dumps({"t": text}, ensure_ascii=False, separators=(",", ":")).encode())
    assert JsonCodec().size(message({"t": text})) == exact


@given(PAYLOADS)
@settings(max_examples=60, deadline=None)
def test_what_is_encoded_is_decoded(payload: dict[str, Any]) -> None:
    codec = JsonCodec()
    assert codec.decode(codec.encode(message(payload))) == (True, message(payload), "")


@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda t: t.encode(errors="surrogatepass")))
@settings(max_examples=300, deadline=None)
def test_decoding_never_raises(frame: bytes) -> None:
    ok, got, code = JsonCodec().decode(frame)
    assert ok is False and got is None and code


FRAME = JsonCodec().encode(message({"n": 7})).decode()


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (b"x" * (MAX_FRAME_BYTES + 1), "too_big"),
        (FRAME.replace('{"n":7}', '{"n":"' + "x" * MAX_PAYLOAD_BYTES + '"}').encode(), "too_big"),
        (FRAME.encode() + b" {}", "not_json"),
        (FRAME.replace("7", "NaN").encode(), "not_json"),
        (FRAME.replace("7", "1e999").encode(), "not_json"),
        (FRAME.replace("7", "9" * 5000).encode(), "not_json"),
        (FRAME.replace("7", "[" * 100_000).encode(), "not_json"),
        (FRAME.replace("7", '"\\ud800"').encode(), "bad_field:payload"),
        (FRAME.replace("7", "[" * 200 + "]" * 200).encode(), "bad_field:payload"),
        (FRAME.replace('"m1"', '"\\ud800"').encode(), "not_json"),
        (FRAME.replace('"m1"', "3").encode(), "bad_field:msg_id"),
        (FRAME.replace('"attempt":0', '"attempt":true').encode(), "bad_field:attempt"),
        (FRAME.replace('"draft"', '"urgent"').encode(), "bad_field:priority"),
        (FRAME.replace('"attempt":0', '"attempts":0').encode(), "not_a_message"),
        (b"[]", "not_a_message"),
        (b"\xff", "not_json"),
    ],
)
def test_refusals_say_why(frame: bytes, code: str) -> None:
    assert JsonCodec().decode(frame) == (False, None, code)


@pytest.mark.parametrize(
    "payload",
    [{"x": float("nan")}, {"x": float("inf")}, {1: "x"}, {"x": {2: 3}}, {"x": b"y"}, {"x": {1, 2}}, {"x": "\ud800"}],
)
def test_what_is_not_json_has_no_size(payload: Any) -> None:
    with pytest.raises(PayloadError):
        JsonCodec().size(message(payload))
