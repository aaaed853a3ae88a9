"""Transport a2a_json keeps its contract."""

from __future__ import annotations

import pytest

from apex_a2a.transport import A2AJson
from apex_framework import load_plugins
from apex_framework.interfaces import Message
from apex_framework.testing.conformance import ConformanceError
from apex_framework.testing.transport import check_transport, message


def test_a2a_json_keeps_the_contract_of_transports() -> None:
    check_transport(A2AJson)


def test_it_is_registered() -> None:
    assert load_plugins().catalog.make("transport", "a2a_json").name == "a2a_json"


def test_the_frame_is_an_a2a_message() -> None:
    from a2a.types import Message as A2AMessage
    from google.protobuf.json_format import Parse

    found = Parse(A2AJson().codec.encode(message({"n": 1})), A2AMessage())
    assert found.message_id == "m1" and found.parts[0].data.struct_value.fields["n"].number_value == 1


def test_a_codec_that_forgets_a_field_is_caught() -> None:
    class Forgetful(A2AJson):
        def __init__(self) -> None:
            super().__init__()
            encode = self.codec.encode

            def lossy(sent: Message) -> bytes:
                return encode(sent).replace(b'"attempt":2', b'"attempt":0')

            self.codec.encode = lossy  # type: ignore[method-assign]  # the planted bug

    with pytest.raises(ConformanceError, match="attempt"):
        check_transport(Forgetful)
