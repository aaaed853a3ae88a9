"""Conformance kit of transports: the codec's words, its silence about bad bytes, and the carrier's frames."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import fields
from typing import Any, Final, TypeVar

from ..errors import CarrierClosedError, PayloadError
from ..interfaces import AgentID, Carrier, Epoch, Inheritable, Message, MessagePriority, Transport
from .conformance import run_checks

KIND: Final = "transport"
PATIENCE_S: Final = 10.0

Make = Callable[[], Transport]
T = TypeVar("T")


def check_transport(make: Make) -> None:
    """Run every check on fresh transports. Raises ConformanceError.

    A carrier that is Inheritable is also tried across two processes.
    """
    run_checks(
        KIND,
        {
            "has_a_name": lambda: check_has_a_name(make),
            "has_a_schema_hash": lambda: check_has_a_schema_hash(make),
            "size_is_of_the_payload": lambda: check_size_is_of_the_payload(make),
            "refuses_what_has_no_encoding": lambda: check_refuses_what_has_no_encoding(make),
            "encodes_and_decodes": lambda: check_encodes_and_decodes(make),
            "encoding_is_pure": lambda: check_encoding_is_pure(make),
            "decoding_never_raises": lambda: check_decoding_never_raises(make),
            "refusals_have_a_code": lambda: check_refusals_have_a_code(make),
            "carries_frames_in_order": lambda: check_carries_frames_in_order(make),
            "carries_both_ways": lambda: check_carries_both_ways(make),
            "cancelled_receive_loses_nothing": lambda: check_cancelled_receive_loses_nothing(make),
            "closing_ends_receive": lambda: check_closing_ends_receive(make),
            "closed_refuses_to_send": lambda: check_closed_refuses_to_send(make),
            "crosses_processes": lambda: check_crosses_processes(make),
        },
    )


def payloads() -> Iterator[dict[str, Any]]:
    """Ordinary and awkward payloads, all of them plain JSON."""
    yield {}
    yield {"text": "x"}
    yield {"text": 'a "quoted" back\\slash,\n\ttab, \x00\x1f\x7f control', "": ""}
    yield {"übung": "Grüße, 世界, 🙂, \u2028"}
    yield {"n": [0, -1, 2**70, 0.1, -1e300, 5e-324], "flags": [True, False, None], "nested": {"a": [{"b": []}, {}]}}
    yield {"long": "line\n" * 2000}


def message(payload: dict[str, Any]) -> Message:
    """A message with every field set."""
    return Message(
        "ep1",
        "m1",
        AgentID("coder"),
        AgentID("critic"),
        Epoch(3),
        payload,
        MessagePriority.FINAL,
        attempt=2,
        created_ts=1.5,
        expires_ts=61.5,
        redelivered=True,
        drop_reason=None,
        audience="critic+runner",
        via=AgentID("planner"),
        cause_id="m0",
        trace_id=None,
        meta={"k": 1},
    )


def check_has_a_name(make: Make) -> None:
    """It says what it is, and what to try instead."""
    transport = make()
    assert isinstance(transport.name, str) and transport.name, f"name is {transport.name!r}"
    assert transport.name not in transport.fallback, "falls back to itself"


def check_has_a_schema_hash(make: Make) -> None:
    """Two ends can tell whether they speak the same format."""
    first, second = make().codec.schema_hash, make().codec.schema_hash
    assert isinstance(first, str) and first, f"schema hash is {first!r}"
    assert first == second, "two instances have different schema hashes"


def check_size_is_of_the_payload(make: Make) -> None:
    """The size is exact: it grows with the text byte by byte, fits into the frame, and asking again changes nothing."""
    codec = make().codec
    for payload in payloads():
        size = codec.size(message(payload))
        assert size == codec.size(message(json.loads(json.dumps(payload)))), f"{payload!r:.60} has two sizes"
        frame = len(codec.encode(message(payload)))
        assert 0 <= size <= frame, f"{payload!r:.60}: payload of {size} bytes in a frame of {frame}"
    for n in (1, 63, 64, 1023, 1024, 5000):
        empty, full = codec.size(message({"text": ""})), codec.size(message({"text": "x" * n}))
        assert full - empty >= n, f"{n} more characters take {full - empty} bytes"


def check_refuses_what_has_no_encoding(make: Make) -> None:
    """A payload without an encoding is a PayloadError, from ``size`` and from ``encode``."""
    codec = make().codec
    loop: dict[str, Any] = {}
    loop["again"] = loop
    for payload in ({"object": object()}, {"text": "\ud800"}, loop):
        for what in (codec.size, codec.encode):
            try:
                what(message(payload))
            except PayloadError:
                continue
            except Exception as error:
                raise AssertionError(f"{what.__name__}: {type(error).__name__}, not PayloadError") from error
            raise AssertionError(f"{what.__name__} accepts {list(payload)!a}")


def check_encodes_and_decodes(make: Make) -> None:
    """What arrives is what was sent, in every field."""
    codec = make().codec
    for payload in payloads():
        sent = message(payload)
        ok, got, code = codec.decode(codec.encode(sent))
        assert ok and got is not None, f"{payload!r:.60}: refused with {code!r}"
        for field in fields(Message):
            there, here = getattr(got, field.name), getattr(sent, field.name)
            assert there == here and type(there) is type(here), f"{field.name}: sent {here!r:.80}, got {there!r:.80}"


def check_encoding_is_pure(make: Make) -> None:
    """The same message gives the same frame, and is left alone."""
    codec = make().codec
    for payload in payloads():
        sent = message(payload)
        assert codec.encode(sent) == codec.encode(sent), "two frames for one message"
        assert sent == message(payload), "encoding changed the message"


def _bad_frames(make: Make) -> Iterator[bytes]:
    frame = make().codec.encode(message({"text": "x" * 40, "n": [1, 2.5, None]}))
    yield b""
    yield b"\x00" * 100
    yield b"\xff\xfe" * 50
    yield b"[" * 100_000
    yield b'{"a":' * 100_000
    yield b"1" * 100_000
    yield b"null"
    yield b"{}"
    yield b'{"payload": NaN}'
    yield frame + b"x"
    yield frame + frame
    yield b"x" * 5_000_000
    for end in range(0, len(frame), 7):
        yield frame[:end]
    rng = random.Random(1)
    for _ in range(300):
        mutated = bytearray(frame)
        for _ in range(rng.randint(1, 4)):
            mutated[rng.randrange(len(mutated))] = rng.randrange(256)
        yield bytes(mutated)


def _decoded(make: Make) -> Iterator[tuple[bytes, Any]]:
    codec = make().codec
    for frame in _bad_frames(make):
        try:
            yield frame, codec.decode(frame)
        except Exception as error:  # noqa: BLE001 - what a decoder raises is what this kit looks for
            yield frame, error


def check_decoding_never_raises(make: Make) -> None:
    """Truncated, mutated, nested, huge or foreign bytes: an answer, never an exception."""
    for frame, answer in _decoded(make):
        assert not isinstance(answer, Exception), f"{frame[:40]!r}: {type(answer).__name__}: {answer}"


def check_refusals_have_a_code(make: Make) -> None:
    """(True, message, "") or (False, None, code)."""
    for frame, answer in _decoded(make):
        if isinstance(answer, Exception):
            continue
        ok, got, code = answer
        fits = isinstance(got, Message) if ok else got is None and isinstance(code, str) and code != ""
        assert fits, f"{frame[:40]!r}: ({ok!r}, {type(got).__name__}, {code!r})"


def _run(scenario: Callable[[Carrier, Carrier], Awaitable[T]], make: Make) -> T:
    async def main() -> T:
        async with asyncio.timeout(PATIENCE_S):
            here, there = await make().open()
            try:
                return await scenario(here, there)
            finally:
                await here.close()
                await there.close()

    return asyncio.run(main())


def check_carries_frames_in_order(make: Make) -> None:
    """Whole frames, in order, of any size, whatever bytes they hold."""
    frames = [b"", b"a", bytes(range(256)), b"x" * 300_000, *(str(i).encode() for i in range(200))]

    async def scenario(here: Carrier, there: Carrier) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(_send_all(here, frames))
            for i, frame in enumerate(frames):
                got = await there.receive()
                assert got == frame, f"frame {i}: sent {frame[:20]!r}, got {got[:20]!r}"

    _run(scenario, make)


async def _send_all(carrier: Carrier, frames: list[bytes]) -> None:
    for frame in frames:
        await carrier.send(frame)


def check_carries_both_ways(make: Make) -> None:
    """Either end may speak."""

    async def scenario(here: Carrier, there: Carrier) -> None:
        await here.send(b"ping")
        await there.send(b"pong")
        got = (await there.receive(), await _soon(here.receive()))
        assert got == (b"ping", b"pong"), f"got {got}"

    _run(scenario, make)


def check_cancelled_receive_loses_nothing(make: Make) -> None:
    """A receive that was given up takes no frame with it."""

    async def scenario(here: Carrier, there: Carrier) -> None:
        waiting = asyncio.ensure_future(there.receive())
        await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.wait([waiting])
        await here.send(b"late")
        got = await _soon(there.receive())
        assert got == b"late", f"got {got!r}"

    _run(scenario, make)


def check_closing_ends_receive(make: Make) -> None:
    """A receive that waits at either end fails with CarrierClosedError when one end closes; closing twice is fine."""

    async def scenario(here: Carrier, there: Carrier) -> None:
        waiting = [asyncio.ensure_future(end.receive()) for end in (here, there)]
        await asyncio.sleep(0.01)
        await here.close()
        await here.close()
        done, late = await asyncio.wait(waiting, timeout=1.0)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)
        assert not late, "a receive goes on after the close"
        for task in done:
            error = task.exception()
            assert isinstance(error, CarrierClosedError), f"{type(error).__name__}, not CarrierClosedError"

    _run(scenario, make)


def check_closed_refuses_to_send(make: Make) -> None:
    """Sending on a closed end fails with CarrierClosedError."""

    async def scenario(here: Carrier, there: Carrier) -> None:
        await here.close()
        try:
            await here.send(b"x")
        except CarrierClosedError:
            return
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}, not CarrierClosedError") from error
        raise AssertionError("a closed end sends")

    _run(scenario, make)


ECHO: Final = """
import asyncio, importlib, sys
module, name, fileno = sys.argv[1:]
async def main():
    carrier = getattr(importlib.import_module(module), name).adopt(int(fileno))
    for _ in range(3):
        await carrier.send(await carrier.receive())
    await carrier.close()
asyncio.run(main())
"""


def check_crosses_processes(make: Make) -> None:
    """An end that can be handed to another process works there: three messages go there and back."""

    async def scenario(here: Carrier, there: Carrier) -> None:
        if not isinstance(there, Inheritable):
            return
        codec = make().codec
        kind = type(there)
        fileno = there.detach()
        arguments = [kind.__module__, kind.__qualname__, str(fileno)]
        command = [sys.executable, "-c", ECHO, *arguments]
        child = subprocess.Popen(command, pass_fds=[fileno], stderr=subprocess.DEVNULL)  # noqa: ASYNC220 - a kit may block
        os.close(fileno)
        try:
            for payload in list(payloads())[-3:]:
                await here.send(codec.encode(message(payload)))
                ok, got, code = codec.decode(await _answer(here, child))
                assert ok and got == message(payload), f"came back as {code or got!r:.80}"
        finally:
            child.kill()
            child.wait()

    _run(scenario, make)


async def _answer(carrier: Carrier, child: subprocess.Popen[bytes]) -> bytes:
    """A frame from a child process. Raises AssertionError when the process ends without one."""
    receiving = asyncio.ensure_future(carrier.receive())
    while not receiving.done():
        if child.poll() is not None:
            await asyncio.wait([receiving], timeout=0.2)
            if not receiving.done():
                receiving.cancel()
                await asyncio.wait([receiving])
                raise AssertionError("the other process ended without an answer")
        await asyncio.wait([receiving], timeout=0.05)
    return receiving.result()


async def _soon(receiving: Awaitable[bytes]) -> bytes:
    """A frame that must be there within seconds. Raises AssertionError."""
    try:
        async with asyncio.timeout(1.0):
            return await receiving
    except TimeoutError:
        raise AssertionError("a frame is lost") from None
