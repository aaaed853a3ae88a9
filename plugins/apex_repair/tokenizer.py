"""Byte-level BPE: text to tokens and back, with the vocabulary shipped beside this file.

Pieces are cut by a regular expression over UTF-8 bytes, so counts do not depend on the Unicode
tables of the running Python; inside a piece the pair whose union has the lowest rank is joined first
(Sennrich et al. 2016, in the rank form of GPT-2).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib import resources

VOCABULARY = "vocabulary.txt"
"""Data file: one token per line in order of training, escaped; lines beginning with '# ' are its header."""

_CACHED_PIECES = 1 << 16

_PIECE = re.compile(
    rb" ?[A-Za-z\x80-\xff]{1,32}"  # a word; the bound keeps joining linear in the length of the text
    rb"|[0-9]{1,3}"
    rb"| ?[^\sA-Za-z0-9\x80-\xff]{1,32}"
    rb"|\s{1,64}(?!\S)"  # all of a gap but its last space, which belongs to the word behind it
    rb"|\s{1,64}"
)


def split_pieces(data: bytes) -> list[bytes]:
    """The pieces that tokens never cross; their concatenation is ``data``."""
    return _PIECE.findall(data)


def escape_token(token: bytes) -> str:
    """A token as one line of ASCII."""
    return token.decode("latin-1").encode("unicode_escape").decode("ascii").replace(" ", "\\x20")


def unescape_token(line: str) -> bytes:
    """The inverse of ``escape_token``."""
    return line.encode("ascii").decode("unicode_escape").encode("latin-1")


def join_piece(piece: bytes, ranks: Mapping[bytes, int]) -> list[bytes]:
    """One piece as tokens."""
    parts = [piece[i : i + 1] for i in range(len(piece))]
    while len(parts) > 1:
        best, at = len(ranks), -1
        for i in range(len(parts) - 1):
            rank = ranks.get(parts[i] + parts[i + 1], best)
            if rank < best:
                best, at = rank, i
        if at < 0:
            break
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts


class Tokenizer:
    """Encodes, decodes and counts. Tokens 0-255 are the bytes, the others the vocabulary in order."""

    def __init__(self, vocabulary: tuple[bytes, ...]) -> None:
        self._tokens = tuple(bytes([b]) for b in range(256)) + vocabulary
        self._ids = {token: number for number, token in enumerate(self._tokens)}

        @lru_cache(maxsize=_CACHED_PIECES)
        def encode_piece(piece: bytes) -> tuple[int, ...]:
            if piece in self._ids:
                return (self._ids[piece],)
            return tuple(self._ids[part] for part in join_piece(piece, self._ids))

        @lru_cache(maxsize=_CACHED_PIECES)
        def count_piece(piece: bytes) -> int:
            return len(encode_piece(piece))

        self._encode_piece, self._count_piece = encode_piece, count_piece

    @property
    def size(self) -> int:
        """Number of tokens."""
        return len(self._tokens)

    def encode_bytes(self, data: bytes) -> list[int]:
        """Tokens of any bytes."""
        return [number for piece in split_pieces(data) for number in self._encode_piece(piece)]

    def encode(self, text: str) -> list[int]:
        """Tokens of a text; lone surrogates are kept."""
        return self.encode_bytes(text.encode("utf-8", "surrogatepass"))

    def decode_bytes(self, tokens: list[int]) -> bytes:
        """The inverse of ``encode_bytes``. Raises IndexError for an unknown token."""
        return b"".join(self._tokens[number] for number in tokens)

    def decode(self, tokens: list[int]) -> str:
        """The inverse of ``encode``; tokens that end inside a character lose it."""
        data = self.decode_bytes(tokens)
        try:
            return data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return data.decode("utf-8", "ignore")

    def count(self, text: str) -> int:
        """Number of tokens of a text."""
        return sum(map(self._count_piece, split_pieces(text.encode("utf-8", "surrogatepass"))))


@cache
def load_tokenizer() -> Tokenizer:
    """The shipped tokenizer, read once per process."""
    text = resources.files(__package__).joinpath(VOCABULARY).read_text("ascii")
    return Tokenizer(tuple(unescape_token(line) for line in text.splitlines() if line and not line.startswith("# ")))
