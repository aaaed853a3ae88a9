"""What pools of connections have in common: their limits, their numbers, and whom they trust."""

from __future__ import annotations

import ssl
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from apex_framework.errors import ConfigError

MAX_BYTES: Final = 16_000_000
"""Bytes that a response may have."""
KEEP_ALIVE_S: Final = 4.0
"""An idle connection is given up before a server does so: uvicorn, which serves most models, waits 5 s."""

DRAIN_S: Final = 0.05
"""How long a body may take to end once the answer in it has: after that its connection is closed."""


@dataclass(slots=True)
class PoolNumbers:
    """What a pool did. ``acquire_ms`` holds the last 1,000 waits for a connection, connecting and TLS included."""

    opened: int = 0
    reused: int = 0
    in_use: int = 0
    acquire_ms_sum: float = 0.0
    acquire_ms: deque[float] = field(default_factory=lambda: deque(maxlen=1000))

    def acquired(self, *, opened: bool, ms: float) -> None:
        """A request got its connection, a new one or one that was open, after so long."""
        if opened:
            self.opened += 1
        else:
            self.reused += 1
        self.in_use += 1
        self.acquire_ms.append(ms)
        self.acquire_ms_sum += ms

    def read(self) -> dict[str, float]:
        """Plain numbers under the names of the metrics; ``pool_acquire_ms`` is the last request's."""
        return {
            "pool_acquire_ms": self.acquire_ms[-1] if self.acquire_ms else 0.0,
            "pool_acquire_ms_sum": self.acquire_ms_sum,
            "pool_acquires": float(self.opened + self.reused),
            "pool_conn_opened": float(self.opened),
            "pool_conn_in_use": float(self.in_use),
        }


def authorities(ca_file: str, *, secure: bool = True) -> ssl.SSLContext:
    """Who may sign a server's certificate: those in the file; without one, whom the system trusts. Raises ConfigError.

    Nobody, for a server without TLS (``secure``): reading the system's list takes some 40 ms.
    """
    if not secure:
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        return ssl.create_default_context(cafile=ca_file or None)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"ca_file {ca_file}: {error.strerror or 'no certificates in it'}") from error
