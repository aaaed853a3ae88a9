"""A language model in half a megabyte: random weights, a tokenizer that was really trained, a chat template.

It says nothing sensible, quickly, and is loaded by whatever loads GGUF. Standard library only. Source of the form: the GGUF
specification, version 3 (ggml, docs/gguf.md); of the tokenizer: byte-pair encoding over GPT-2's alphabet of bytes.
"""

from __future__ import annotations

import math
import random
import re
import struct
import sys
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

TEMPLATE: Final = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SPECIALS: Final = ("<|end|>", "<|system|>", "<|user|>", "<|assistant|>")
_WORDS: Final = re.compile(r" ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+")
_U32, _F32, _STRING, _ARRAY, _I32 = 4, 6, 8, 9, 5


def byte_letters() -> list[str]:
    """The letter that stands for each byte in a vocabulary: itself where it can be seen."""
    seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in seen]
    return [chr(byte) if byte in seen else chr(256 + hidden.index(byte)) for byte in range(256)]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Tokens (bytes first, then what merges make of them, then the special ones), and the merges in their order."""

    tokens: tuple[str, ...]
    merges: tuple[tuple[str, str], ...]


def train(text: str, merges: int) -> Vocabulary:
    """Byte-pair encoding: so many times, the commonest neighbours become one token."""
    letters = byte_letters()
    counts = Counter(_WORDS.findall(text))
    words = {tuple(letters[byte] for byte in word.encode()): n for word, n in counts.most_common(1500)}
    made: list[tuple[str, str]] = []
    for _ in range(merges):
        pairs: Counter[tuple[str, str]] = Counter()
        for word, n in words.items():
            for pair in pairwise(word):
                pairs[pair] += n
        if not pairs:
            break
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        made.append(best)
        words = {_merged(word, best): n for word, n in words.items()}
    return Vocabulary((*letters, *(a + b for a, b in made), *SPECIALS), tuple(made))


def _merged(word: Sequence[str], pair: tuple[str, str]) -> tuple[str, ...]:
    parts: list[str] = []
    at = 0
    while at < len(word):
        both = at + 1 < len(word) and (word[at], word[at + 1]) == pair
        parts.append(word[at] + word[at + 1] if both else word[at])
        at += 2 if both else 1
    return tuple(parts)


def own_text() -> str:
    """Text to train on: three modules of this package."""
    root = Path(__file__).parents[1]
    return "".join((root / name).read_text(encoding="utf-8") for name in ("errors.py", "ports.py", "catalog.py"))


def write_tiny_gguf(
    path: Path,
    *,
    seed: int = 0,
    context: int = 8192,
    width: int = 64,
    layers: int = 2,
    merges: int = 256,
    template: str = TEMPLATE,
    architecture: str = "llama",
) -> Path:
    """Write the model to ``path``. Another seed gives other weights; ``width`` is a multiple of 16."""
    words = train(own_text(), merges)
    weights = _Weights(random.Random(seed))
    heads, inner = 4, 2 * width
    key = width // 2
    tensors: list[tuple[str, tuple[int, ...], bytes]] = [
        ("token_embd.weight", (width, len(words.tokens)), weights.matrix(len(words.tokens), width)),
        ("output_norm.weight", (width,), weights.ones(width)),
        ("output.weight", (width, len(words.tokens)), weights.output(words.tokens, width)),
    ]
    for n in range(layers):
        shapes = {
            "attn_q": (width, width),
            "attn_k": (width, key),
            "attn_v": (width, key),
            "attn_output": (width, width),
        }
        shapes |= {"ffn_gate": (width, inner), "ffn_up": (width, inner), "ffn_down": (inner, width)}
        tensors += [(f"blk.{n}.{name}.weight", (width,), weights.ones(width)) for name in ("attn_norm", "ffn_norm")]
        tensors += [(f"blk.{n}.{name}.weight", shape, weights.matrix(*shape)) for name, shape in shapes.items()]
    end = len(words.tokens) - len(SPECIALS)
    values: dict[str, Any] = {
        "general.architecture": architecture,
        "general.name": "tiny",
        "general.file_type": 0,
        f"{architecture}.context_length": context,
        f"{architecture}.embedding_length": width,
        f"{architecture}.block_count": layers,
        f"{architecture}.feed_forward_length": inner,
        f"{architecture}.attention.head_count": heads,
        f"{architecture}.attention.head_count_kv": heads // 2,
        f"{architecture}.attention.layer_norm_rms_epsilon": 1e-5,
        f"{architecture}.rope.dimension_count": width // heads,
        f"{architecture}.vocab_size": len(words.tokens),
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": list(words.tokens),
        "tokenizer.ggml.token_type": [1] * end + [3] * len(SPECIALS),
        "tokenizer.ggml.merges": [f"{a} {b}" for a, b in words.merges],
        "tokenizer.ggml.bos_token_id": end,
        "tokenizer.ggml.eos_token_id": end,
    }
    if template:
        values["tokenizer.chat_template"] = template
    path.write_bytes(_file(values, tensors))
    return path


class _Weights:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def matrix(self, width: int, height: int) -> bytes:
        scale = 1 / math.sqrt(width)
        return _floats(self._rng.gauss(0.0, scale) for _ in range(width * height))

    def ones(self, size: int) -> bytes:
        return _floats(1.0 for _ in range(size))

    def output(self, tokens: Sequence[str], width: int) -> bytes:
        """Only words of letters score: unfinished UTF-8 would be no text, and a control token would end the answer."""
        rows = []
        for token in tokens:
            plain = token.isascii() and token.isalpha()
            rows.append(_floats(self._rng.gauss(0.0, 1.0) if plain else 0.0 for _ in range(width)))
        return b"".join(rows)


def _floats(numbers: Iterable[float]) -> bytes:
    data = array("f", numbers)
    if sys.byteorder == "big":
        data.byteswap()
    return data.tobytes()


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value: Any) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", _STRING) + _text(value)
    if isinstance(value, float):
        return struct.pack("<If", _F32, value)
    if isinstance(value, int):
        return struct.pack("<II", _U32, value)
    inner = _STRING if isinstance(value[0], str) else _I32
    items = b"".join(_text(v) if isinstance(v, str) else struct.pack("<i", v) for v in value)
    return struct.pack("<IIQ", _ARRAY, inner, len(value)) + items


def _file(values: Mapping[str, Any], tensors: Sequence[tuple[str, tuple[int, ...], bytes]]) -> bytes:
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values))
    head += b"".join(_text(key) + _value(value) for key, value in values.items())
    body = b""
    for name, shape, data in tensors:
        head += _text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(body))
        body += data + bytes(-len(data) % 32)
    return head + bytes(-len(head) % 32) + body
