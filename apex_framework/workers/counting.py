"""Token counts that another process makes, remembered here."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from typing import Final

Countable = str | tuple[str, str]
"""A bare text, or (system, prompt) to be counted within the model's template."""

MOST: Final = 20_000


class CountCache:
    """The last counts, least recently used first to go; from any thread. Texts themselves are not kept."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._guard = threading.Lock()
        self._counts: OrderedDict[bytes, int] = OrderedDict()

    def get(self, text: Countable) -> int | None:
        """A known count."""
        key = _key(text)
        with self._guard:
            tokens = self._counts.get(key)
            if tokens is not None:
                self._counts.move_to_end(key)
            return tokens

    def put(self, text: Countable, tokens: int) -> None:
        """Remember a count."""
        key = _key(text)
        with self._guard:
            self._counts[key] = tokens
            self._counts.move_to_end(key)
            while len(self._counts) > self._most:
                self._counts.popitem(last=False)


def _key(text: Countable) -> bytes:
    parts = (text,) if isinstance(text, str) else text
    digest = hashlib.blake2b(bytes([len(parts)]), digest_size=16)
    for part in parts:
        data = part.encode(errors="surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.digest()
