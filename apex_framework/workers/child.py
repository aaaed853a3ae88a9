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
import time
from collections.abc import Mapping
from typing import Any, Final

from ..errors import Failure
from .engine import Answered, Ask, Engine, EngineError, counted
from .frames import FrameError, Line

EVERY_S: Final = 0.02
"""Text is passed on so often at most: a frame per token would cost more than a small model's token."""


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
            self._tell(
                {"event": "failed", "cause": "no memory left while the model was loaded", "kind": Failure.UNKNOWN}
            )
        except Exception as error:  # noqa: BLE001 - a worker's edge: whatever a library raises is told in a line
            self._tell({"event": "failed", "cause": _line(error), "kind": Failure.UNKNOWN})
        else:
            self._tell({"event": "ready", "info": dict(info)})
            return engine
        os._exit(0)

    def _do(self, engine: Engine, call: str, frame: Mapping[str, Any]) -> None:
        try:
            if frame["do"] == "count":
                texts = [_clean(t) if isinstance(t, str) else (_clean(t[0]), _clean(t[1])) for t in frame["texts"]]
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
        asked = frame["ask"]
        fields = {
            **asked,
            "system": _clean(asked["system"]),
            "prompt": _clean(asked["prompt"]),
            "stop": tuple(asked["stop"]),
        }
        text, told, last = "", 0, 0.0
        pieces = engine.generate(Ask(**fields), lambda: call in self._cancelled)
        try:
            for piece in pieces:
                over = isinstance(piece, Answered)
                text += "" if isinstance(piece, Answered) else piece
                if call in self._cancelled and not over:
                    break
                if len(text) > told and (over or time.monotonic() - last >= EVERY_S):
                    self._tell({"event": "text", "call": call, "text": text[told:]})
                    told, last = len(text), time.monotonic()
                if isinstance(piece, Answered):
                    usage = {"tokens_in": piece.tokens_in, "tokens_out": piece.tokens_out, "cut": piece.cut}
                    self._tell({"event": "done", "call": call, **usage, "text_tokens": engine.count(text)})
                    return
        finally:
            if hasattr(pieces, "close"):
                pieces.close()
        kind = Failure.CANCELLED if call in self._cancelled else Failure.INCOMPLETE
        self._tell({"event": "error", "call": call, "cause": f"{kind}", "kind": kind})


def _clean(text: str) -> str:
    """Without lone surrogates, which no tokenizer takes."""
    return text.encode(errors="replace").decode()


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
