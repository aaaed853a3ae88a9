"""The first signal is told of, whatever the main thread is in the middle of."""

from __future__ import annotations

import io
import signal
import threading
from typing import Any

from apex_framework.experiment.interruption import Interruption


class Interrupted(io.RawIOBase):
    """A stream below a buffered one; the signal comes while it writes for the first time."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if not self.parts:
            signal.raise_signal(signal.SIGINT)
        self.parts.append(bytes(data))
        return len(data)


def test_the_first_signal_is_told_in_the_middle_of_another_line() -> None:
    below, told = Interrupted(), threading.Event()
    stream = io.BufferedWriter(below)

    def tell() -> None:
        stream.write(b"told\n")
        stream.flush()
        told.set()

    with Interruption(tell) as interruption:
        stream.write(b"a line\n")
        stream.flush()
        assert told.wait(30)
    assert interruption.signal == signal.SIGINT
    assert b"".join(below.parts) == b"a line\ntold\n"
