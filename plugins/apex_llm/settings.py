"""What a backend needs to know of its server, from options and the environment. Keys come from the environment only."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from apex_framework.errors import ConfigError

from .cassette import has_secret

BYTES_PER_TOKEN: Final = 3.5
"""Of UTF-8, in English text and code; a convention, right to some 30 %, for when nobody can count."""
_QUOTED: Final = 200
"""Characters of a server's own words that an error repeats."""


class Key:
    """A secret that is sent and never shown."""

    __slots__ = ("_value",)

    def __init__(self, value: str = "", variable: str = "the key") -> None:
        if value and (not value.isascii() or not value.isprintable()):
            raise ConfigError(f"{variable} holds characters that no HTTP header may have")
        self._value = value.strip()

    def __repr__(self) -> str:
        return "Key(set)" if self._value else "Key()"

    def __bool__(self) -> bool:
        return bool(self._value)

    def __reduce__(self) -> str:
        raise TypeError("a key is not written down")

    @classmethod
    def read(cls, *variables: str, environment: Mapping[str, str] | None = None) -> Key:
        """The first of these variables that is set."""
        found = os.environ if environment is None else environment
        return next((cls(found[name], name) for name in variables if found.get(name)), cls())

    def headers(self) -> dict[str, str]:
        """The header that carries it; none without a key."""
        return {"Authorization": f"Bearer {self._value}"} if self._value else {}

    def quote(self, text: str) -> str:
        """A stranger's words in one short line, without this key and without what looks like one."""
        line = re.sub(r"\s+", " ", "".join(c if c.isprintable() else " " for c in text)).strip()
        if (self._value and self._value in line) or has_secret(line):
            return "(its words hold a credential)"
        return line if len(line) <= _QUOTED else line[: _QUOTED - 1] + "…"


@dataclass(frozen=True, slots=True)
class Address:
    """A server's base address, without a slash at its end."""

    url: str

    @classmethod
    def parse(cls, text: str, *, what: str) -> Address:
        """Raises ConfigError, naming ``what``, for anything but http(s)://HOST[:PORT][/PATH]."""
        remedy = f"give {what} the form http://HOST:PORT"
        try:
            parts = urlsplit(text.strip())
            known = parts.hostname and (parts.port is None or parts.port > 0)
        except ValueError:
            raise ConfigError(f"{what} is no address", remedy) from None
        if parts.username is not None or parts.password is not None:
            raise ConfigError(f"{what} holds a user or a password", "a key belongs into the variable for the key")
        if parts.scheme not in ("http", "https") or not known or re.search(r"\s", parts.geturl()):
            raise ConfigError(f"{what} is no address: {text.strip()[:80]!r}", remedy)
        if parts.query or parts.fragment:
            raise ConfigError(f"{what} has a query or a fragment", remedy)
        return cls(f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/"))

    @property
    def host(self) -> str:
        """Without its port."""
        return urlsplit(self.url).hostname or ""

    @property
    def secure(self) -> bool:
        """Whether it is spoken to over TLS."""
        return self.url.startswith("https:")

    def root(self) -> str:
        """The address without a final ``/v1``."""
        return self.url.removesuffix("/v1")

    def v1(self) -> str:
        """The address with exactly one ``/v1`` at its end."""
        return self.root() + "/v1"


def first_set(*variables: str) -> tuple[str, str]:
    """Name and value of the first of these variables that is set; empty texts when none is."""
    return next(((name, os.environ[name]) for name in variables if os.environ.get(name)), ("", ""))


def whole(name: str, value: object, least: int = 1) -> int:
    """An option that is a whole number. Raises ConfigError."""
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    if type(value) is not int or value < least:
        raise ConfigError(f"{name} must be an integer >= {least}, not {value!r}")
    return value


def estimated_tokens(text: str, bytes_per_token: float = BYTES_PER_TOKEN) -> int:
    """Tokens of a text by its bytes."""
    return math.ceil(len(text.encode(errors="surrogatepass")) / bytes_per_token)


def one_of(name: str, value: str, allowed: Sequence[str]) -> str:
    """An option with few values. Raises ConfigError."""
    if value not in allowed:
        raise ConfigError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
    return value
