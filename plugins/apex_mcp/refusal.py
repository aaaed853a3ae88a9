"""Why a tool refuses, as a stable code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")


class Refused(Exception):
    """A call that is answered with an error code.

    ``E_PATH`` outside or impossible · ``E_MISSING`` no such file · ``E_SYMLINK`` a link on the way · ``E_TYPE``
    not a text file · ``E_SIZE`` too large · ``E_PATCH`` does not apply · ``E_PROTECTED`` not for agents ·
    ``E_ARG`` malformed argument · ``E_TIMEOUT`` took too long · ``E_IO`` the disk refused · ``E_TOOL`` no such tool
    or ability · ``E_EXISTS`` there is a file already · ``E_QUOTA`` adds too much · ``E_BUSY`` another call holds it.
    """

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code, self.detail = code, detail


def argument(arguments: Mapping[str, Any], name: str, kind: type[T], default: T | None = None) -> T:
    """The argument, if it is of its type. Raises Refused; an argument without default is required."""
    value = arguments.get(name, default)
    if value is None:
        raise Refused("E_ARG", f"{name} is required")
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise Refused("E_ARG", f"{name} must be {kind.__name__}, not {type(value).__name__}")
    return value


def only(arguments: Mapping[str, Any], *known: str) -> None:
    """Refuse arguments that the tool does not know."""
    if extra := sorted(set(arguments) - set(known)):
        raise Refused("E_ARG", f"unknown argument {extra[0]!r}; known: {', '.join(known)}")
