"""The head of a GGUF file: what model it is, whether it is whole, what it needs. Nothing but the standard library.

Source: the GGUF specification, versions 2 and 3 (ggml, docs/gguf.md), and the block sizes of ggml's types.
"""

from __future__ import annotations

import hashlib
import math
import mmap
import os
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from apex_framework.errors import ModelError

MAGIC: Final = b"GGUF"
_SCALARS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_MOST: Final = 1 << 24
"""Entries, elements of an array, bytes of a string: more is no head of a model."""

_BLOCKS: Final = {
    int(kind): (int(weights), int(size))
    for kind, weights, size in re.findall(
        r"(\d+):(\d+)/(\d+)",
        "0:1/4 1:1/2 24:1/1 25:1/2 26:1/4 27:1/8 28:1/8 30:1/2 2:32/18 3:32/20 6:32/22 7:32/24 8:32/34 9:32/36 20:32/18"
        " 39:32/17 10:256/84 11:256/110 12:256/144 13:256/176 14:256/210 15:256/292 16:256/66 17:256/74 18:256/98"
        " 19:256/50 21:256/110 22:256/82 23:256/136 29:256/56 34:256/54 35:256/66",
    )
}
"""Type of a tensor -> (weights in a block, bytes of a block)."""
_QUANTISATIONS: Final = dict(
    re.findall(
        r"(\d+):(\w+)",
        "0:F32 1:F16 2:Q4_0 3:Q4_1 7:Q8_0 8:Q5_0 9:Q5_1 10:Q2_K 11:Q3_K_S 12:Q3_K_M 13:Q3_K_L 14:Q4_K_S 15:Q4_K_M"
        " 16:Q5_K_S 17:Q5_K_M 18:Q6_K 19:IQ2_XXS 20:IQ2_XS 21:Q2_K_S 22:IQ3_XS 23:IQ3_XXS 24:IQ1_S 25:IQ4_NL 26:IQ3_S"
        " 27:IQ3_M 28:IQ2_S 29:IQ2_M 30:IQ4_XS 31:IQ1_M 32:BF16 36:TQ1_0 37:TQ2_0 38:MXFP4_MOE",
    )
)
"""``general.file_type`` -> what people call it."""
_NO_GENERATORS: Final = frozenset(
    ["bert", "nomic-bert", "jina-bert-v2", "modern-bert", "t5encoder", "clip", "wavtokenizer-dec"]
)


@dataclass(frozen=True, slots=True)
class Head:
    """What a GGUF file says of itself. Values of arrays are left out."""

    path: Path
    size: int
    values: Mapping[str, Any]
    tokens: int
    """Size of the vocabulary."""
    tokenizer_digest: str

    @property
    def architecture(self) -> str:
        """Family of the model, e.g. ``qwen2``."""
        return str(self.values.get("general.architecture", ""))

    @property
    def quantisation(self) -> str:
        """Name of the kind of weights; empty when the file does not tell."""
        return str(_QUANTISATIONS.get(str(self.values.get("general.file_type")), ""))

    @property
    def trained_context(self) -> int:
        """Longest context that the model was trained for; 0 when the file does not tell."""
        return self._number("context_length")

    def kv_bytes(self, context: int) -> int:
        """Memory of one instance's keys and values, in half precision, for so long a context."""
        layers, width, heads = (self._number(n) for n in ("block_count", "embedding_length", "attention.head_count"))
        per_head = width // heads if heads else 0
        shared = self._number("attention.head_count_kv") or heads
        key = self._number("attention.key_length") or per_head
        value = self._number("attention.value_length") or per_head
        return 2 * context * layers * shared * (key + value)

    def _number(self, name: str) -> int:
        value = self.values.get(f"{self.architecture}.{name}", 0)
        return int(value) if isinstance(value, int | float) else 0


def read_head(path: Path) -> Head:
    """Read and check a file's head. Raises ModelError, whose cause says in a line what is wrong with the file."""
    try:
        if path.is_dir():
            files = sorted(p.name for p in path.glob("*.gguf"))
            raise ModelError(
                f"{path} is a folder, not a GGUF file", f"name a file in it, e.g. {files[0]}" if files else ""
            )
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < 24 or file.read(4) != MAGIC:
                raise ModelError(f"{path} is no GGUF file", "download it again, or convert the model to GGUF")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                head = _Reader(path, data).head()
    except OSError as error:
        cause = "there is no model file" if isinstance(error, FileNotFoundError) else f"{error.strerror}:"
        raise ModelError(f"{cause} {path}", "set APEX_GGUF_MODEL_PATH to a GGUF file") from error
    if head.architecture in _NO_GENERATORS or head.values.get("general.type", "model") != "model":
        what = head.values.get("general.type", head.architecture)
        what = head.architecture if what == "model" else what
        raise ModelError(f"{path} holds no text generator but a {what}", "name the file of a language model")
    return head


class _Reader:
    """Walks the head; every length is checked against the file before it is believed."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self._path, self._data, self._at = path, data, 4
        self._lengths: dict[str, int] = {}

    def head(self) -> Head:
        version = self._scalar("I")
        if version not in (2, 3):
            raise ModelError(f"{self._path} is GGUF of version {version}, and 2 and 3 are known", "convert it anew")
        tensors, entries = self._count(), self._count()
        values: dict[str, Any] = {}
        vocabulary = hashlib.sha256()
        for _ in range(entries):
            begin = self._at
            key = self._string().decode(errors="replace")
            value = self._value(self._scalar("I"), key)
            if value is not None:
                values[key] = value
            if key.startswith("tokenizer."):
                vocabulary.update(self._data[begin : self._at])
        if not isinstance(values.get("general.architecture"), str):
            raise self._damaged("it names no architecture")
        self._check_tensors(tensors, values)
        tokens = self._lengths.get("tokenizer.ggml.tokens", 0)
        return Head(self._path, len(self._data), values, tokens, f"sha256:{vocabulary.hexdigest()}")

    def _check_tensors(self, tensors: int, values: Mapping[str, Any]) -> None:
        end = 0
        for _ in range(tensors):
            self._string()
            shape = [self._scalar("Q") for _ in range(self._limited(self._scalar("I"), 8))]
            kind, offset = self._scalar("I"), self._scalar("Q")
            weights, size = _BLOCKS.get(kind, (1, 0))
            end = max(end, offset + math.prod(shape) // weights * size)
        align = values.get("general.alignment", 32)
        align = align if isinstance(align, int) and align > 0 else 32
        whole = -(-self._at // align) * align + end
        if whole > len(self._data):
            have, should = len(self._data), whole
            raise ModelError(f"{self._path} is cut off: {have:,} of {should:,} bytes", "download it again")

    def _value(self, kind: int, key: str) -> Any:
        if kind in _SCALARS:
            return self._scalar(_SCALARS[kind])
        if kind == _STRING:
            return self._string().decode(errors="replace")
        if kind != _ARRAY:
            raise self._damaged(f"a value of unknown kind {kind}")
        inner, length = self._scalar("I"), self._count()
        self._lengths[key] = length
        if inner in _SCALARS:
            self._skip(struct.calcsize("<" + _SCALARS[inner]) * length)
        elif inner == _STRING:
            for _ in range(length):
                self._skip(self._scalar("Q"))
        else:
            raise self._damaged(f"an array of kind {inner}")
        return None

    def _string(self) -> bytes:
        size = self._count()
        begin = self._at
        self._skip(size)
        return self._data[begin : self._at]

    def _count(self) -> int:
        return self._limited(self._scalar("Q"), _MOST)

    def _limited(self, number: int, most: int) -> int:
        if number > most:
            raise self._damaged(f"a length of {number:,}")
        return number

    def _scalar(self, form: str) -> Any:
        size = struct.calcsize("<" + form)
        begin = self._at
        self._skip(size)
        return struct.unpack_from("<" + form, self._data, begin)[0]

    def _skip(self, size: int) -> None:
        if self._at + size > len(self._data):
            raise ModelError(f"{self._path} is cut off: it ends within its head", "download it again")
        self._at += size

    def _damaged(self, why: str) -> ModelError:
        return ModelError(f"{self._path} is damaged: {why}", "download it again")
