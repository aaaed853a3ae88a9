"""A worker, seen from inside: load the model, answer one call after the other, end when the other side is gone.

Frames in: ``load`` (first), ``ask``, ``count``, ``cancel``. Frames out: ``ready`` or ``failed``, then per call ``begun``,
``text``, and ``done``, ``error`` or ``counts``. A thread of its own reads, so that a cancellation is seen while the
model computes, and so that the end of the line ends the process wherever it is.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import queue
import signal
import socket
import sys
import threading
from collections.abc import Mapping
from typing import Any

from ..errors import Failure
from .engine import Answered, Ask, Engine, EngineError, counted
from .frames import FrameError, Line


def main(descriptor: int) -> None:
    """Serve the socket with this number; returns never, but ends the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group; who started us decides what ends
    _end_with_parent()
    _be_the_first_to_go()
    _Worker(Line(socket.socket(fileno=descriptor))).run()


class _Worker:
    def __init__(self, line: Line) -> None:
        self._line = line
        self._writing = threading.Lock()
        self._waiting: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._cancelled: set[str] = set()
        self._known: set[str] = set()

    def run(self) -> None:
        threading.Thread(target=self._read, name="line", daemon=True).start()
        engine = self._load(self._waiting.get())
        while True:
            frame = self._waiting.get()
            call = str(frame["call"])
            try:
                if call not in self._cancelled:
                    self._do(engine, call, frame)
                else:
                    self._tell({"event": "error", "call": call, "cause": "cancelled", "kind": Failure.CANCELLED})
            finally:
                self._known.discard(call)
                self._cancelled.discard(call)

    def _read(self) -> None:
        try:
            while (frame := self._line.read()) is not None:
                call = str(frame.get("call", ""))
                if frame.get("do") == "cancel":
                    if call in self._known:  # one that is over is not remembered
                        self._cancelled.add(call)
                    continue
                self._known.add(call)
                self._waiting.put(frame)
        except (OSError, FrameError) as error:
            print(f"worker: {error}", file=sys.stderr)
        os._exit(0)  # nobody hears it any more: not even native code may go on

    def _tell(self, frame: dict[str, Any]) -> None:
        with self._writing:
            try:
                self._line.write(frame)
            except OSError:
                os._exit(0)

    def _load(self, frame: Mapping[str, Any]) -> Engine:
        try:
            module, _, name = str(frame["engine"]).partition(":")
            engine: Engine = getattr(importlib.import_module(module), name)()
            info = engine.load(frame["options"], tokenizer_only=bool(frame["tokenizer_only"]))
        except EngineError as error:
            self._tell({"event": "failed", "cause": error.cause, "remedy": error.remedy, "kind": error.kind})
        except MemoryError:
            self._tell({"event": "failed", "cause": "no memory left while the model was loaded", "kind": Failure.UNKNOWN})
        except Exception as error:  # noqa: BLE001 - a worker's edge: whatever a library raises is told in a line
            self._tell({"event": "failed", "cause": _line(error), "kind": Failure.UNKNOWN})
        else:
            self._tell({"event": "ready", "info": dict(info)})
            return engine
        os._exit(0)

    def _do(self, engine: Engine, call: str, frame: Mapping[str, Any]) -> None:
        try:
            if frame["do"] == "count":
                texts = [text if isinstance(text, str) else (text[0], text[1]) for text in frame["texts"]]
                self._tell({"event": "counts", "call": call, "counts": counted(engine, texts)})
            else:
                self._answer(engine, call, frame)
        except EngineError as error:
            told = {"cause": error.cause, "remedy": error.remedy, "kind": error.kind}
            self._tell({"event": "error", "call": call, **told})
        except FrameError as error:
            self._tell({"event": "error", "call": call, "cause": str(error), "kind": Failure.MALFORMED})
        except Exception as error:  # noqa: BLE001 - a worker's edge: the call failed, the process lives
            self._tell({"event": "error", "call": call, "cause": _line(error), "kind": Failure.SERVER})

    def _answer(self, engine: Engine, call: str, frame: Mapping[str, Any]) -> None:
        self._tell({"event": "begun", "call": call})
        fields = {**frame["ask"], "stop": tuple(frame["ask"]["stop"])}
        parts: list[str] = []
        pieces = engine.generate(Ask(**fields), lambda: call in self._cancelled)
        try:
            for piece in pieces:
                if isinstance(piece, Answered):
                    text = "".join(parts)
                    usage = {"tokens_in": piece.tokens_in, "tokens_out": piece.tokens_out, "cut": piece.cut}
                    self._tell({"event": "done", "call": call, **usage, "text_tokens": engine.count(text)})
                    return
                if call in self._cancelled:
                    break
                if piece:
                    parts.append(piece)
                    self._tell({"event": "text", "call": call, "text": piece})
        finally:
            if hasattr(pieces, "close"):
                pieces.close()
        kind = Failure.CANCELLED if call in self._cancelled else Failure.INCOMPLETE
        self._tell({"event": "error", "call": call, "cause": f"{kind}", "kind": kind})


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:400]


def _end_with_parent() -> None:
    """Where the system can (Linux), a killed parent ends its workers at once, even in native code that never returns."""
    if sys.platform == "linux":
        import ctypes

        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def _be_the_first_to_go() -> None:
    """When memory ends, the system is to take the model, not the run."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("600")
