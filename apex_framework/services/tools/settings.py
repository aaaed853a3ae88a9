"""What can be set about the door to tools."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from ...errors import ConfigError

RESULT_BYTES = 8 * 2**20
"""Above what ``fs.read`` answers for the largest file it reads: agents that know no resources never meet one."""
LOOP_WINDOW = 64
"""Calls that are looked back on for loops."""


@dataclass(frozen=True, slots=True)
class DoorSettings:
    """Limits of a ToolService. Raises ConfigError for impossible ones."""

    tool_seconds: float | None = None
    """Seconds that all tool calls of the episode may take together; None: any number."""
    agent_tool_seconds: float | None = None
    """Seconds that the tool calls of one agent may take together; None: any number."""
    tool_loop_after: int = 20
    """The same call with the same result so many times in a row is refused the next time; 0: never."""
    tool_result_bytes: int = RESULT_BYTES
    """Of a result's JSON text; a larger one is kept as a resource, and read on in pages."""

    def __post_init__(self) -> None:
        for name in ("tool_seconds", "agent_tool_seconds"):
            seconds = getattr(self, name)
            if seconds is not None and not 0 < seconds < math.inf:
                raise ConfigError(f"{name} is {seconds!r}", "give a number of seconds above 0, or leave it out")
        if not (self.tool_loop_after == 0 or 2 <= self.tool_loop_after <= LOOP_WINDOW):
            raise ConfigError(
                f"tool_loop_after is {self.tool_loop_after}", f"give 2 to {LOOP_WINDOW}, or 0 for no limit"
            )
        if self.tool_result_bytes < 1024:
            raise ConfigError(f"tool_result_bytes is {self.tool_result_bytes}", "give 1024 or more")

    @classmethod
    def of(cls, run: Mapping[str, Any]) -> Self:
        """What a run's settings say; what they leave out is as usual."""
        return cls(**{field.name: run[field.name] for field in fields(cls) if field.name in run})
