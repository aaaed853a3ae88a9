"""Large outputs as resources: kept for a while in pages, read one at a time."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

RESULT_BYTES: Final = 64 * 1024
"""Largest result that is sent whole."""
PAGE: Final = 128 * 1024
"""Characters of one resource."""
KEPT: Final = 32 * 1024**2
"""Characters of all resources together; the oldest result goes first."""


@dataclass(frozen=True, slots=True)
class Page:
    """One piece of a result."""

    uri: str
    name: str
    text: str


class Pages:
    """Results that were too large to send. Their addresses cannot be guessed."""

    def __init__(self, *, page: int = PAGE, kept: int = KEPT) -> None:
        self._page, self._kept = page, kept
        self._results: OrderedDict[str, tuple[Page, ...]] = OrderedDict()
        self._size = 0

    def keep(self, tool: str, text: str) -> tuple[Page, ...]:
        """The pages of a result; empty when it is larger than all that is kept."""
        if len(text) > self._kept:
            return ()
        key = secrets.token_urlsafe(12)
        cuts = range(0, max(1, len(text)), self._page)
        pages = tuple(
            Page(f"apex://result/{key}/{i}", f"{tool} {i} of {len(cuts)}", text[start : start + self._page])
            for i, start in enumerate(cuts, 1)
        )
        self._results[key] = pages
        self._size += len(text)
        while self._size > self._kept:
            _, old = self._results.popitem(last=False)
            self._size -= sum(len(page.text) for page in old)
        return pages

    def all(self) -> list[Page]:
        """Every page that is there, the oldest result first."""
        return [page for pages in self._results.values() for page in pages]

    def find(self, uri: str) -> Page | None:
        """The page with this address; None when there is none, or no longer."""
        key = uri.removeprefix("apex://result/").partition("/")[0]
        return next((page for page in self._results.get(key, ()) if page.uri == uri), None)
