"""Whether an interrupt comes from outside, or from the code that was at work."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from types import FrameType

import pytest

from apex_framework.experiment.interruption import Interruption
from apex_framework.services.advice import is_interrupt


def caught(work: Callable[[], object]) -> BaseException:
    try:
        work()
    except (KeyboardInterrupt, SystemExit) as error:
        return error
    raise AssertionError("nothing was raised")


def says(error: BaseException) -> Callable[[], object]:
    def work() -> None:
        try:
            raise error
        finally:
            len("cleanup")

    return work


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_what_code_raises_is_its_own() -> None:
    for work in (says(KeyboardInterrupt()), says(SystemExit(3)), lambda: sys.exit(2)):
        assert not is_interrupt(caught(work))
    assert not is_interrupt(ValueError()) and not is_interrupt(asyncio.CancelledError())


def test_ctrl_c_by_pythons_own_handler_is_from_outside() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def spins() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        while True:
            len("x")

    assert is_interrupt(caught(spins))
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    assert is_interrupt(caught(lambda: time.sleep(10)))


def test_a_second_signal_of_a_run_is_from_outside() -> None:
    def twice() -> None:
        with Interruption():
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)

    assert is_interrupt(caught(twice))


def test_a_worker_that_is_told_to_leave_is_told_from_outside() -> None:
    def leave(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.exit(143)

    signal.signal(signal.SIGTERM, leave)
    assert is_interrupt(caught(lambda: signal.raise_signal(signal.SIGTERM)))


def test_an_interrupt_that_code_passes_on_stays_one() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def passes_on() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
            while True:
                len("x")
        except KeyboardInterrupt:
            raise

    assert is_interrupt(caught(passes_on))
