"""What can be set about the ``git`` tools, also as text: ``git:networks=10.0.0.0/8;repository_bytes=50000000``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from apex_framework.errors import ConfigError
from apex_framework.git import Network, networks_of

from .quota import BYTES, FILES

_NUMBERS: Final = ("quota_bytes", "quota_files", "repository_bytes")
_EXAMPLE: Final = "as in git:networks=10.0.0.0/8 fd00::/8;repository_bytes=50000000"


@dataclass(frozen=True, slots=True)
class GitSettings:
    """Where ``git.clone`` may take from, and how much the tools may add to a workspace and to its repository."""

    sources: tuple[Path, ...] = ()
    networks: tuple[Network, ...] = ()
    quota_bytes: int = BYTES
    quota_files: int = FILES
    repository_bytes: int = BYTES

    @classmethod
    def of(cls, spec: str, sources: Sequence[Path | str], networks: Sequence[str], **numbers: int) -> Self:
        """As given, but for what ``spec`` says; several sources or networks have spaces between. Raises ConfigError."""
        places, nets = [str(source) for source in sources], list(networks)
        for part in filter(None, (piece.strip() for piece in spec.split(";"))):
            name, _, value = (x.strip() for x in part.partition("="))
            if name in _NUMBERS and value.isascii() and value.isdecimal() and len(value) <= 15:
                numbers[name] = int(value)
            elif name == "networks" and value:
                nets = value.split()
            elif name == "sources" and value:
                places = value.split()
            else:
                raise ConfigError(f"tool git: cannot read {part[:80]!r}", _EXAMPLE)
        return cls(tuple(Path(place).resolve() for place in places), networks_of(nets), **numbers)
