"""An arm: one complete, named setting of everything that an episode depends on besides task and seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ..errors import ConfigError


@dataclass(frozen=True)
class Arm:
    """Immutable and JSON-ready, so that it can be hashed, written to run.json and sent to a worker."""

    name: str
    team: str = "swe"
    team_size: int | None = None
    controller: str = "static"
    controller_options: Mapping[str, Any] = field(default_factory=dict)
    topologies: tuple[str, ...] = ("star", "chain", "flat")
    backends: Mapping[str, str] = field(default_factory=lambda: {"*": "repair"})
    """Role, or ``*`` for all others, -> backend name."""
    backend_options: Mapping[str, Any] = field(default_factory=dict)
    lane: str = "fifo"
    transport: str = "inproc"
    scopes: tuple[str, ...] = ("episode",)
    tools: tuple[str, ...] = ("fs", "test")
    """Tool servers that the team's tools come from."""
    policies: tuple[str, ...] = ()
    interceptors: tuple[str, ...] = ()
    budget: int = 10_000
    """Tokens per episode."""
    candidates: int = 8
    """Edits per repair answer (k), the same for all arms of a comparison."""
    dwell: int = 2
    cooldown: int = 2
    quiesce_deadline_ms: float = 50.0
    on_busy: str = "migrate"
    """What happens to messages that wait for a busy agent at a switch: ``drain`` or ``migrate``."""
    max_steps: int = 200
    message_ttl_s: float = 60.0
    handler_deadline_s: float = 3600.0
    """Seconds that handling one message may take."""
    lane_capacity: int = 10_000
    """Messages in front of one agent."""
    lane_bytes: int | None = None
    """Payload bytes in front of one agent; None: no cap."""
    total_bytes: int | None = None
    """Payload bytes in front of all agents together; None: no cap."""
    dedup_cap: int = 50_000
    """Messages that each receiver remembers, to flag what it has had before; 0: none."""
    strict_pair_fifo: bool = False
    """Nothing overtakes between two agents, whatever its class or backoff."""
    throttle: bool = False
    """Senders wait when a lane fills, and sustained refusing asks for ``relief``."""
    relief: str = ""
    """Topology to ask for under sustained pressure; empty: none."""
    parallel_prepare: bool = True
    """Warm-ups of a switch at once, or one after the other."""
    prevalidate: bool = False
    """Probe a target before switching to it."""
    health_pin: bool = False
    """Pin the topology to chain on evidence of broken promises or a slow controller."""
    free_messages: bool = False
    """Guard 2: every agent hears everything and pays for none of it."""
    online: bool = False
    """The controller goes on learning while results are reported."""

    def to_json(self) -> dict[str, Any]:
        """Plain dict with lists for tuples."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Arm:
        """The inverse of ``to_json``. Raises ConfigError for unknown or missing keys."""
        known = {f.name for f in fields(cls)}
        if unknown := set(data) - known:
            raise ConfigError(f"unknown arm setting {sorted(unknown)[0]!r}", f"known: {', '.join(sorted(known))}")
        if "name" not in data:
            raise ConfigError("an arm needs a name")
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
        return cls(**values)
