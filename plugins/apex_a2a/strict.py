"""Strict reading of JSON from outside: size, then depth, then syntax; one meaning, or none."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final

from .refusal import E_ARG, E_DEPTH, E_SIZE, Refusal

MAX_BYTES: Final = 512 * 1024
"""Bytes of one request, envelope or card."""
MAX_DEPTH: Final = 32
"""Nesting of one request, envelope or card."""
MOST_EXACT: Final = 2**53
"""Integers beyond this lose digits in A2A's numbers, which are doubles."""

_TEXTS = re.compile(rb'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_BRACKETS = re.compile(rb"[\[\]{}]")


def read_json(data: bytes, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH) -> Any:
    """The value of a JSON text. Raises Refusal: E_SIZE, E_DEPTH, or E_ARG.

    Refused besides what is no JSON: names given twice, NaN and infinities, numbers too long to read, and texts that
    are no Unicode, since two readers would make two things of them.
    """
    if len(data) > max_bytes:
        raise Refusal(E_SIZE, f"{len(data):,} bytes, {max_bytes:,} allowed")
    if depth_of(data) > max_depth:
        raise Refusal(E_DEPTH, f"nested deeper than {max_depth}")
    try:
        value = _DECODER.decode(data.decode())
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise Refusal(E_ARG, f"not the JSON that is read here: {str(error)[:120]}") from None
    return value


def depth_of(data: bytes) -> int:
    """The deepest nesting of brackets outside texts, in time linear in the size."""
    deepest = depth = 0
    for bracket in _BRACKETS.findall(_TEXTS.sub(b"", data)):
        if bracket in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        else:
            depth -= 1
    return deepest


def integer(value: object, what: str, least: int, most: int) -> int:
    """A whole number in a range; 3.0 is 3, because A2A has doubles only. Raises Refusal E_ARG."""
    if isinstance(value, float) and value.is_integer() and abs(value) <= MOST_EXACT:
        value = int(value)
    if type(value) is not int or not least <= value <= most:
        raise Refusal(E_ARG, f"{what} must be a whole number from {least} to {most}")
    return value


def text(value: object, what: str, most: int = 128) -> str:
    """A short text without control characters, not empty. Raises Refusal E_ARG."""
    if type(value) is not str or not 0 < len(value) <= most or not value.isprintable():
        raise Refusal(E_ARG, f"{what} must be a printable text of 1 to {most} characters")
    return value


def plain(value: Any) -> Any:
    """The same value with whole doubles as integers: what A2A's data parts turn integers into, undone."""
    if isinstance(value, float):
        return int(value) if math.isfinite(value) and value.is_integer() and abs(value) <= MOST_EXACT else value
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is given twice")
    return found


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError("a number is too large")
    return value


def _constant(word: str) -> float:
    raise ValueError(f"{word} is no number")


_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_float=_finite, parse_constant=_constant)
