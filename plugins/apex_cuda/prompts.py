"""Texts to tokens, by a model's own tokenizer and chat template: what is counted is what the model gets."""

from __future__ import annotations

import contextlib
import sys
from typing import Any


class Prompts:
    """The tokenizer of one model."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def count(self, text: str) -> int:
        """Tokens of a bare text."""
        return len(self._ids(text, add_special_tokens=False)) if text else 0

    def tokens(self, system: str, prompt: str) -> list[int]:
        """Both in the model's own chat template, if it has one."""
        if not self.tokenizer.chat_template:
            return self._ids(f"{system}\n\n{prompt}" if system else prompt, add_special_tokens=True)
        return self._ids(self._rendered(system, prompt), add_special_tokens=False)

    def _rendered(self, system: str, prompt: str) -> str:
        user = {"role": "user", "content": prompt}
        if system:
            with contextlib.suppress(Exception):  # some templates refuse a system message: it then opens the user's
                return self._templated([{"role": "system", "content": system}, user])
            user = {"role": "user", "content": f"{system}\n\n{prompt}"}
        return self._templated([user])

    def _templated(self, messages: list[dict[str, str]]) -> str:
        return str(self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))

    def _ids(self, text: str, *, add_special_tokens: bool) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=add_special_tokens, verbose=False).input_ids)


def load_prompts(path: str, *, tokenizer_only: bool) -> Prompts:
    """The tokenizer in a model's folder. Raises what transformers raises: OSError, ValueError, KeyError, ImportError."""
    if tokenizer_only:
        sys.modules["torch"] = None  # type: ignore[assignment]  # a tokenizer does without it: half the time and memory
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return Prompts(transformers.AutoTokenizer.from_pretrained(path, local_files_only=True))
