"""What a plugin implements for ``WorkerBackend``: one model in one process, used by one thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..errors import Failure


@dataclass(frozen=True, slots=True)
class Ask:
    """One call, as an engine sees it."""

    system: str
    prompt: str
    max_tokens: int
    temperature: float
    top_p: float
    seed: int
    stop: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answered:
    """The end of an answer: the model's own counts, and whether ``max_tokens`` or the context cut it."""

    tokens_in: int
    tokens_out: int
    cut: bool = False


class EngineError(Exception):
    """A call, or loading, failed, and the process is sound: a cause and a remedy in a line each."""

    def __init__(self, cause: str, remedy: str = "", kind: Failure = Failure.UNKNOWN) -> None:
        super().__init__(cause)
        self.cause, self.remedy, self.kind = cause, remedy, kind


class Engine(Protocol):
    """One model. Made without arguments in the process that it lives in; heavy imports belong in ``load``.

    Texts that it gets can be encoded. What it raises beside EngineError fails the call, or loading, and is told.
    """

    def load(self, options: Mapping[str, Any], *, tokenizer_only: bool) -> Mapping[str, Any]:
        """Load the model, or only what counts its tokens; answers what is worth recording. Raises EngineError."""
        ...

    def count(self, text: str) -> int:
        """Tokens of a bare text."""
        ...

    def count_prompt(self, system: str, prompt: str) -> int:
        """Tokens of both within the model's template, as ``Answered.tokens_in`` will say."""
        ...

    def generate(self, ask: Ask, stopped: Callable[[], bool]) -> Iterator[str | Answered]:
        """Pieces of text, then the end; at most ``max_tokens``. Looks often whether it is to stop, and then returns.

        An answer depends on ``ask`` alone, never on earlier calls. Raises EngineError.
        """
        ...


def counted(engine: Engine, texts: Sequence[str | tuple[str, str]]) -> list[int]:
    """Counts of bare texts and of (system, prompt)."""
    return [engine.count(text) if isinstance(text, str) else engine.count_prompt(*text) for text in texts]
