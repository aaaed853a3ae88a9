"""What happens at the door to tools, as data; ``events`` has them, too."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ToolUsed:
    """A tool call ended; ``error`` is its code, empty on success; ``elapsed_ms`` in episode time."""

    episode_id: str
    agent_id: str
    role: str
    tool: str
    ok: bool
    error: str = ""
    elapsed_ms: int = 0


@dataclass(frozen=True, slots=True)
class OperationLogged:
    """The same call's line in ops.jsonl. Secrets are redacted; digests are of redacted arguments and of whole results.

    ``ts`` is episode time in seconds at the call's beginning, ``elapsed_ms`` episode time, too.
    """

    episode_id: str
    n: int
    """Number of the call in its episode, from 1, in the order in which calls ended."""
    agent_id: str
    role: str
    tool: str
    epoch: int
    decision: str
    """``ok``, or the code that it was refused or failed with."""
    arguments: str
    """The beginning of their JSON text."""
    arguments_digest: str
    result_digest: str
    result_bytes: int
    ts: float
    elapsed_ms: int
    detail: str = ""
    """The beginning of the reason, where it was no success."""


@dataclass(frozen=True, slots=True)
class ToolProgressed:
    """A long tool call tells how far it is: ``share`` in [0, 1]. At most once in a second of episode time per call."""

    episode_id: str
    agent_id: str
    role: str
    tool: str
    share: float
    text: str = ""


@dataclass(frozen=True, slots=True)
class DirectCallBlocked:
    """Somebody called a tool server or a model backend past its door; nothing was done. Who, as far as the call says so."""

    episode_id: str
    server: str
    tool: str
    agent_id: str = ""
    role: str = ""


@dataclass(frozen=True, slots=True)
class LoopDetected:
    """A call had the same result ``times`` in a row, and is refused until something changes."""

    episode_id: str
    agent_id: str
    role: str
    tool: str
    times: int
    arguments_digest: str


@dataclass(frozen=True, slots=True)
class EffectInDoubt:
    """A durable session does not know whether a tool call had its effect, and did not make it again."""

    episode_id: str
    agent_id: str
    msg_id: str
    tool: str
    key: str
