"""The evil client: every attack has its code, nothing reaches a router, no body breaks the server."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest
from world import CATALOG

from apex_a2a import evil, evil_fuzz, evil_grpc, grpc_door, limits
from apex_a2a.cards import read_card
from apex_a2a.evil_cards import CARD, CARDS, KID, key_pair, signed
from apex_a2a.refusal import Refusal
from apex_a2a.server import serving
from apex_a2a.settings import CardKey


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    for name in ("a2a", "apex_a2a"):
        caplog.set_level(logging.CRITICAL + 1, logger=name)


def test_r22_every_attack_is_refused_with_its_code_and_nothing_reaches_a_router() -> None:
    async def main() -> tuple[dict[str, str], int]:
        async with evil.besieged(CATALOG) as siege:
            return {name: await attack(siege) for name, (_, attack) in evil.ATTACKS.items()}, siege.held.reached

    got, reached = asyncio.run(main())
    assert got == {name: code for name, (code, _) in evil.ATTACKS.items()}
    assert len(got) >= 30 and reached == 0


def test_r22_every_attack_over_grpc_is_refused_with_its_code_and_nothing_reaches_a_router() -> None:
    async def main() -> tuple[dict[str, str], int]:
        async with evil_grpc.grpc_besieged(CATALOG) as siege:
            return {
                name: await attack(siege) for name, (_, attack) in evil_grpc.GRPC_ATTACKS.items()
            }, siege.held.reached

    got, reached = asyncio.run(main())
    assert got == {name: code for name, (code, _) in evil_grpc.GRPC_ATTACKS.items()}
    assert len(got) >= 30 and reached == 0


@pytest.mark.parametrize("name", CARDS)
def test_a48_forged_cards_are_refused(name: str) -> None:
    with pytest.raises(Refusal, match="E_CARD"):
        CARDS[name]()


@pytest.mark.parametrize("alg", ["ES256", "EdDSA"])
def test_a_card_signed_by_a_key_of_the_store_is_believed(alg: str) -> None:
    private, pem = key_pair(alg)
    card = read_card(json.dumps(signed(private, CARD, alg=alg)).encode(), {KID: CardKey(alg, pem)})
    assert card.name == "agent"


def test_r22_fuzzed_bodies_break_nothing() -> None:
    report = asyncio.run(evil_fuzz.fuzz(CATALOG, 1_000, 1))
    assert report["broken"] == 0, report["first"]


@pytest.mark.slow
def test_r22_five_thousand_fuzzed_bodies_break_nothing_and_leave_no_memory_behind() -> None:
    report = asyncio.run(evil_fuzz.fuzz(CATALOG, 5_000, 0))
    assert report["broken"] == 0, report["first"]
    assert report["grown_mib"] < 64


def test_r22_fuzzed_messages_over_grpc_break_nothing() -> None:
    report = asyncio.run(evil_grpc.grpc_fuzz(CATALOG, 500, 1))
    assert report["broken"] == 0, report["first"]


@pytest.mark.slow
def test_r22_five_thousand_fuzzed_messages_over_grpc_break_nothing_and_leave_no_memory_behind() -> None:
    report = asyncio.run(evil_grpc.grpc_fuzz(CATALOG, 5_000, 0))
    assert report["broken"] == 0, report["first"]
    assert report["grown_mib"] < 64


def test_a_door_that_lets_messages_be_parsed_behind_it_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted bug: what is no message is not refused, but breaks."""
    monkeypatch.setattr(grpc_door, "DecodeError", ZeroDivisionError)
    report = asyncio.run(evil_grpc.grpc_fuzz(CATALOG, 200, 1))
    assert report["broken"] > 0


@pytest.mark.parametrize(
    ("body", "number", "call"),
    [
        (b"{", -32700, None),
        (b'{"jsonrpc":"1.0","id":"a","method":"ListTasks"}', -32600, "a"),
        (b'{"jsonrpc":"2.0","id":7}', -32600, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"Nothing"}', -32601, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"ListTasks","params":[1]}', -32602, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"GetTask","params":{"id":[]}}', -32602, 7),
    ],
)
def test_a_call_that_is_wrong_has_json_rpcs_own_number_and_its_id(body: bytes, number: int, call: object) -> None:
    async def main() -> tuple[int, bytes]:
        work = evil.HeldWork(CATALOG, hold=False)
        async with serving(evil.evil_settings(), CATALOG, work=work) as running:
            return await evil_fuzz.inject(running, body)

    status, answer = asyncio.run(main())
    told = json.loads(answer)
    assert (status, told["error"]["code"], told["id"]) == (200, number, call)


def test_fuzz_is_the_same_for_a_seed() -> None:
    assert evil_grpc.fuzzed_messages(50, 3) == evil_grpc.fuzzed_messages(50, 3) != evil_grpc.fuzzed_messages(50, 4)
    assert evil_fuzz.fuzzed_bodies(50, 3) == evil_fuzz.fuzzed_bodies(50, 3) != evil_fuzz.fuzzed_bodies(50, 4)


def test_a_threshold_that_does_not_look_first_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted bug: bodies are handed on unread."""
    monkeypatch.setattr(limits, "_check_call", lambda call: None)
    monkeypatch.setattr(limits, "read_json", lambda body, **_: None)
    report = asyncio.run(evil_fuzz.fuzz(CATALOG, 1_500, 1))
    assert report["broken"] > 0
