"""What the test servers answer, and how they count: no model, but text, tokens and limits as a server has them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

WORDS: Final = "Monday\nTuesday\nWednesday\nThursday\nFriday\nSaturday\nSunday\n"
_TOKEN = re.compile(r"(?s).{1,3}")


def tokens(text: str) -> list[str]:
    """A text in pieces of three characters: the test servers' tokenizer."""
    return _TOKEN.findall(text)


@dataclass(frozen=True, slots=True)
class Model:
    """A model that says ``answer``, or what it makes of a prompt."""

    name: str = "tiny"
    answer: str | Callable[[str], str] = WORDS
    context_tokens: int = 4096
    pause_s: float = 0.0
    """Between two tokens."""

    def say(self, prompt: str, max_tokens: int, stop: Sequence[str] = ()) -> tuple[list[str], str]:
        """The tokens of its answer and why it ended: ``stop`` or ``length``."""
        text = self.answer if isinstance(self.answer, str) else self.answer(prompt)
        for mark in stop:
            text = text.partition(mark)[0]
        said = tokens(text)
        return said[:max_tokens], "stop" if len(said) <= max_tokens else "length"
