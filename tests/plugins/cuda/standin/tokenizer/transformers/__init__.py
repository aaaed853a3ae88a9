"""Stands in for transformers where it is not installed: a tokenizer of bytes, for the tests of the vllm_engine backend."""

from __future__ import annotations

from types import SimpleNamespace

SPECIALS = ("<|end|>", "<|system|>", "<|user|>", "<|assistant|>")

logging = SimpleNamespace(set_verbosity_error=lambda: None, disable_progress_bar=lambda: None)


class AutoTokenizer:
    """A token for each byte, and one for each special word where special words are looked for."""

    chat_template = "stand-in"

    @classmethod
    def from_pretrained(cls, path: str, local_files_only: bool = True) -> AutoTokenizer:
        return cls()

    def get_vocab(self) -> dict[str, int]:
        return {**{chr(n): n for n in range(256)}, **{word: 256 + n for n, word in enumerate(SPECIALS)}}

    def __call__(self, text: str, add_special_tokens: bool = True, verbose: bool = True) -> SimpleNamespace:
        ids: list[int] = []
        while text:
            special = next((n for n, word in enumerate(SPECIALS) if text.startswith(word)), None)
            if special is None:
                ids.extend(text[0].encode())
                text = text[1:]
            else:
                ids.append(256 + special)
                text = text[len(SPECIALS[special]) :]
        return SimpleNamespace(input_ids=ids)

    def apply_chat_template(
        self, messages: list[dict[str, str]], tokenize: bool = True, add_generation_prompt: bool = False
    ) -> str:
        assert not tokenize and add_generation_prompt
        return "".join(f"<|{m['role']}|>{m['content']}<|end|>" for m in messages) + "<|assistant|>"

    def decode(self, ids: list[int]) -> str:
        return bytes(n for n in ids if n < 256).decode(errors="replace")
