"""Names of branches, tags and objects that may reach git's command line."""

from __future__ import annotations

import re
from typing import Final

from ..errors import GitError

_NAME: Final = re.compile(r"(?!.*(?:\.\.|//|@\{|\.lock(?:/|$)|/\.|/-))[\w][\w./+=,%!#@-]{0,199}(?<![./])")
_STEPS: Final = re.compile(r"(.+?)((?:~\d{0,6}|\^\d?)+)", re.ASCII)
OID: Final = re.compile(r"[0-9a-f]{4,64}")


def checked_name(name: str) -> str:
    """The name of a branch or tag, if git's rules and ours allow it. Raises GitError (``E_REF``)."""
    if not _NAME.fullmatch(name) or not name.isprintable():
        raise GitError("E_REF", f"{name[:60]!r} is not a name of a branch")
    return name


def stepped(revision: str) -> tuple[str, str]:
    """A revision without the steps back at its end, and those: ``main~2^`` is ``main`` and ``~2^``."""
    found = _STEPS.fullmatch(revision) if len(revision) <= 300 else None
    return (found[1], found[2]) if found else (revision, "")
