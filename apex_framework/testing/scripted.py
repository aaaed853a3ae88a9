"""A scripted model and a clock set by hand: the world as a test wants it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from ..errors import BackendError
from ..interfaces.llm import LLMCapabilities, LLMRequest, LLMResult, LLMStatus

Answer = str | LLMResult | Exception
"""What a script holds: a text, a complete result as it stands, or an exception to raise."""

Script = str | Iterable[Answer] | Callable[[LLMRequest], Answer]
"""One text for every call, answers in order of calls, or a function of the request."""


class ManualClock:
    """A clock that moves only when told; wall time starts at ``wall`` and moves with it."""

    def __init__(self, start: float = 0.0, *, wall: float = 1_700_000_000.0) -> None:
        self._now = start
        self._offset = wall - start

    def monotonic(self) -> float:
        """Seconds since some beginning."""
        return self._now

    def wall(self) -> float:
        """Seconds since the epoch."""
        return self._now + self._offset

    def advance(self, seconds: float) -> None:
        """Let time pass. Raises ValueError for a negative amount."""
        if seconds < 0:
            raise ValueError(f"time does not go back by {-seconds} s")
        self._now += seconds


def rule_of_four(text: str) -> int:
    """Tokens by a rule: one for every four bytes of UTF-8, and one more."""
    return len(text.encode()) // 4 + 1


def cut(text: str, max_tokens: int) -> str:
    """The longest beginning of a text that has at most ``max_tokens`` by ``rule_of_four``."""
    return text.encode()[: max(0, 4 * max_tokens - 1)].decode(errors="ignore")


class ScriptedBackend:
    """Answers from a script and keeps what it was asked in ``requests``. Tokens are counted by ``rule_of_four``.

    One text or a function makes it deterministic: the same request has the same answer, and ``latency_ms`` is
    declared. Answers in order are not: the call itself takes ``latency_ms``, and BackendError is raised when the
    script is over. Texts are cut at ``max_tokens``; a complete LLMResult is passed on untouched, so that a test can lie.
    """

    def __init__(
        self,
        answers: Script = "ok",
        *,
        model_id: str = "scripted",
        latency_ms: float = 0.0,
        context_tokens: int = 1_000_000,
        remember: bool = True,
    ) -> None:
        """Without ``remember`` nothing is kept of what it is asked: a resident model serves more episodes than memory holds."""
        self.requests: list[LLMRequest] = []
        self._remember = remember
        self._latency_ms = latency_ms
        deterministic = isinstance(answers, str) or callable(answers)
        self._capabilities = LLMCapabilities(model_id, context_tokens, deterministic, is_llm=False)
        self._next = _player(answers)

    @property
    def capabilities(self) -> LLMCapabilities:
        """What it is."""
        return self._capabilities

    def count_tokens(self, text: str) -> int:
        """Tokens by ``rule_of_four``."""
        return rule_of_four(text)

    async def generate(self, request: LLMRequest) -> LLMResult:
        """The script's next answer."""
        if self._remember:
            self.requests.append(request)
        if not self._capabilities.deterministic:
            await asyncio.sleep(self._latency_ms / 1000)
        answer = self._next(request)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, LLMResult):
            return answer
        text = cut(answer, request.max_tokens)
        return LLMResult(
            text,
            rule_of_four(request.system + request.prompt),
            rule_of_four(text) if text else 0,
            LLMStatus.OK if text == answer else LLMStatus.LENGTH,
            latency_ms=self._latency_ms,
        )

    async def close(self) -> None:
        """Nothing to release."""


def _player(answers: Script) -> Callable[[LLMRequest], Answer]:
    if isinstance(answers, str):
        return lambda request: answers
    if callable(answers):
        return answers
    script = iter(answers)

    def play(request: LLMRequest) -> Answer:
        for answer in script:
            return answer
        raise BackendError("the script is over", "give it more answers")

    return play
