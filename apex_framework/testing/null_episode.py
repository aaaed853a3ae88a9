"""An episode without solver and tests, for benches of the framework itself: task ``N`` is N messages."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..interfaces import Agent, AgentContext, AgentID, Brief, Member, Message, Roster, Task, Verdict, Workspace


class PingPong:
    """Two agents that pass one message to and fro and make a model call each time."""

    name = "bench_ping_pong"

    def roster(self, size: int | None = None) -> Roster:
        return Roster((Member(AgentID("ping"), "ping"), Member(AgentID("pong"), "pong")), AgentID("ping"))

    def agents(self, roster: Roster, brief: Brief) -> Sequence[Agent]:
        return [_Player(member.id, member.role, int(brief.task_id)) for member in roster.members]

    def tools(self, role: str) -> frozenset[str]:
        return frozenset()


class _Player:
    def __init__(self, agent: AgentID, role: str, messages: int) -> None:
        self.id, self.role = agent, role
        self._messages = messages

    async def handle(self, message: Message, context: AgentContext) -> None:
        handled = int(message.payload.get("handled", 0)) + 1
        await context.ask(f"message {handled}", max_tokens=8)
        if handled < self._messages:
            await context.send("pong" if self.role == "ping" else "ping", {"handled": handled})
        else:
            context.finish("all messages are handled")

    def overhear(self, message: Message) -> None:
        """Two agents have nobody between them."""


class NullSuite:
    """Tasks named by their number of messages; whatever was done is judged a success."""

    name = "bench_null"
    digest = "0" * 64

    def __init__(self, workspaces: Any = None) -> None:
        self._tasks = [Task(str(n), self.name, "dev", "", cluster=str(n)) for n in range(1, 2_001)]

    def tasks(self, split: str) -> Sequence[Task]:
        return self._tasks

    def workspaces(self) -> _NullWorkspaces:
        return _NullWorkspaces()

    def grade(self, task: Task, workspace: Workspace) -> Verdict:
        return Verdict(True, "null", visible_passed=True)


class _NullWorkspaces:
    def create(self, task: Task) -> Workspace:
        return _NullWorkspace()

    def close(self) -> None:
        """Nothing is held."""


class _NullWorkspace:
    @property
    def root(self) -> Path:
        return Path(tempfile.gettempdir())

    def fork(self) -> Workspace:
        return self

    def commit(self) -> str:
        return "null"

    def rollback(self) -> None:
        """Nothing changes here."""

    def dispose(self) -> None:
        """Nothing is on disk."""

    def diff(self) -> str:
        return ""
