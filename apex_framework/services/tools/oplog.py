"""The row that every tool call leaves: short, the same for the same seed, and without secrets."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

SHORT: Final = 300
"""Characters of the arguments that a row shows."""
DETAIL: Final = 200
"""Characters of a refusal's reason that a row shows."""
HIDDEN: Final = "[redacted]"
DEEPEST: Final = 12
"""Levels of arguments that are looked through; what lies deeper is not shown."""

_NAMES = re.compile(
    r"pass(?:word|wd|phrase)|secret|(?:^|[_.-])token$|api[_-]?key|private[_-]?key|access[_-]?key|credential|authorization|cookie",
    re.IGNORECASE,
)
"""Names whose values are never shown."""
_ENCODER: Final = json.JSONEncoder(sort_keys=True, ensure_ascii=False, default=repr)
_REMEMBERED: Final = 64
"""Characters of a name at most for which is kept whether it tells."""
_PLAIN = frozenset({str, int, float, bool, type(None)})
_MARKS = ("sk-", "gh", "AKIA", "xox", "eyJ", "PRIVATE KEY", "earer ", "://")
"""One of these stands in every text that the patterns find; looking for them is quick."""
_SECRETS = re.compile(
    r"sk-[\w-]{16,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|AKIA[0-9A-Z]{16}|xox[abprs]-[\w-]{10,}"
    r"|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*|-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END|\Z)"
    r"|\b[Bb]earer [\w.~+/=-]{8,}|(?<=://)[^\s/@:\"]{1,100}:[^\s/@\"]{1,200}(?=@)",
    re.DOTALL,
)
"""Forms of well-known keys and tokens, of private keys, and of passwords in addresses."""


def known_secrets(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Values of variables whose names say that they are secret, the longest first."""
    found = {value for name, value in environ.items() if len(value) >= 8 and _NAMES.search(name)}
    return tuple(sorted(found, key=lambda value: (-len(value), value)))


def json_text(value: Any) -> str | None:
    """A value's JSON text, keys in order; None when it has none, such as a circle's."""
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError):
        return None


def digest(text: str) -> str:
    """A short name for a text."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def redacted(value: Any, text: str | None, secrets: Iterable[str] = ()) -> str:
    """JSON text of arguments without secrets: values under telling names, of well-known forms, and ``secrets`` themselves.

    ``text`` is their JSON text as it is, so that it need not be made again where nothing is secret.
    """
    if text is None:
        return '"no JSON form"'
    clean = _clean(value, 0)
    if clean is not value:
        text = json_text(clean) or ""
    for secret in secrets:
        if secret in text:
            text = text.replace(secret, HIDDEN)
    for mark in _MARKS:  # a loop: a generator would take three times as long, and every call pays for it
        if mark in text:
            return _SECRETS.sub(HIDDEN, text)
    return text


def shown(text: str, most: int = SHORT) -> str:
    """The beginning of a text as it may be printed: no control characters, and an ellipsis where it was cut."""
    cut = text if len(text) <= most else f"{text[: most - 1]}…"
    return cut if cut.isprintable() else "".join(c if c.isprintable() else "�" for c in cut)


def _tells(name: str) -> bool:
    return _short_tells(name) if len(name) <= _REMEMBERED else _NAMES.search(name) is not None


@lru_cache(maxsize=1024)
def _short_tells(name: str) -> bool:
    return _NAMES.search(name) is not None


def _clean(value: Any, depth: int) -> Any:
    """The value itself where nothing in it is secret by its name, else a copy without."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Mapping):
        if depth >= DEEPEST:
            return HIDDEN
        changed = {}
        for key, item in value.items():
            if isinstance(key, str) and _tells(key):
                changed[key] = HIDDEN
            elif type(item) not in _PLAIN and (clean := _clean(item, depth + 1)) is not item:
                changed[key] = clean
        return {**value, **changed} if changed else value
    if isinstance(value, list | tuple):
        if depth >= DEEPEST:
            return HIDDEN
        items = [_clean(item, depth + 1) for item in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    return value
