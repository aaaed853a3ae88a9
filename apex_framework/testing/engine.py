"""An engine without a model, for tests of what is around one: it counts, answers, and misbehaves when told to."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from ..errors import Failure
from ..ports import rng
from ..workers import Answered, Ask, EngineError, StopCutter

ENGINE: Final = "apex_framework.testing.engine:WordEngine"
WORDS: Final = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")


class WordEngine:
    """A token is a word or another character that is no blank. An answer is words, chosen by prompt and seed.

    Options, all off by default. ``load``: ``hang``, ``crash``, ``refuse``, ``flood`` (endless talk on stderr).
    ``token_s``: seconds per token, waited for without holding the interpreter. ``crash_after``, ``hang_after``: after so
    many tokens it dies of SIGSEGV, or goes on no more and heeds nothing.
    ``once``: a file, made when it has misbehaved, after which it does not again. ``context``.
    """

    def load(self, options: Mapping[str, Any], *, tokenizer_only: bool) -> Mapping[str, Any]:
        """See the class. Raises EngineError for ``refuse``."""
        self._options = options
        self._context = int(options.get("context", 4096))
        how = "" if tokenizer_only or self._was() else options.get("load", "")
        if how:
            self._mark()
        if how == "hang":
            time.sleep(3600)
        if how == "crash":
            print("tensor of an unknown type: abort", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGSEGV)
        if how == "refuse":
            raise EngineError("the file has no weights", "download it again", Failure.NOT_FOUND)
        if how == "flood":
            for n in range(200_000):
                print(f"loading tensor {n}", file=sys.stderr)
        return {"version": "words 1", "pid": os.getpid()}

    def count(self, text: str) -> int:
        """Words and other characters that are no blank."""
        return len(re.findall(r"\w+|[^\w\s]", text))

    def count_prompt(self, system: str, prompt: str) -> int:
        """Both, and three for a template."""
        return self.count(system) + self.count(prompt) + 3

    def generate(self, ask: Ask, stopped: Callable[[], bool]) -> Iterator[str | Answered]:
        """Words."""
        tokens_in = self.count_prompt(ask.system, ask.prompt)
        if tokens_in >= self._context:
            raise EngineError(f"the prompt has {tokens_in} tokens", kind=Failure.CONTEXT_EXCEEDED)
        words = rng("words", ask.system, ask.prompt, ask.seed)
        cutter = StopCutter(ask.stop)
        most = min(ask.max_tokens, self._context - tokens_in)
        for n in range(most):
            self._misbehave(n)
            time.sleep(float(self._options.get("token_s", 0)))
            yield cutter.feed((" " if n else "") + words.choice(WORDS))
            if cutter.stopped:
                yield Answered(tokens_in, n + 1)
                return
            if stopped():
                return
        yield cutter.rest()
        yield Answered(tokens_in, most, cut=True)

    def _misbehave(self, made: int) -> None:
        if self._was():
            return
        if made == self._options.get("crash_after"):
            self._mark()
            os.kill(os.getpid(), signal.SIGSEGV)
        if made == self._options.get("hang_after"):
            self._mark()
            time.sleep(3600)

    def _was(self) -> bool:
        return os.path.exists(self._options.get("once", ""))

    def _mark(self) -> None:
        if once := self._options.get("once"):
            with open(once, "w"):
                pass
