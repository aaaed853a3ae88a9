"""The desk: an agent's doors to the world while it handles one message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..interfaces import Agent, Denied, LLMResult, Message, MessagePriority, RouteResult, ToolResult
from ..ports import derive_seed

if TYPE_CHECKING:
    from .session import Session


class Desk:
    """An agent's doors: the AgentContext of one handled message."""

    def __init__(self, session: Session, agent: Agent) -> None:
        self._session = session
        self._agent = agent
        self._calls = 0
        self.finished = ""
        """Why this agent has finished; empty while it has not."""
        self.epoch: int | None = None
        """The epoch in which the handling ended; None while it lasts.

        Switches do not wait for handlers, so a handler at work is of the epoch in force, whichever it began in. Who
        keeps a desk for later keeps it in the epoch that it was left in, and changes nothing in another.
        """

    async def ask(self, prompt: str, *, max_tokens: int, purpose: str = "", heard: str = "") -> LLMResult | Denied:
        self._calls += 1
        seed = derive_seed(self._session.seed, self._agent.id, self._calls, prompt)
        tags = self._session.tags(self._agent)
        return await self._session.services.llm.ask(
            tags, prompt, max_tokens=max_tokens, purpose=purpose, seed=seed, message_tokens_text=heard
        )

    async def use(self, tool: str, /, **arguments: Any) -> ToolResult:
        return await self._session.use(self._agent, tool, arguments, epoch=self.epoch)

    async def send(
        self, audience: str, payload: dict[str, Any], *, priority: MessagePriority = MessagePriority.DRAFT
    ) -> RouteResult:
        return await self._session.send(self._agent, audience, payload, priority, self._route)

    async def _route(self, message: Message) -> RouteResult:
        return await self._session.route(self._agent, message)

    def leave(self) -> None:
        """The handling is over."""
        if self.epoch is None:
            self.epoch = self._session.router.epoch

    def finish(self, reason: str) -> None:
        self.finished = self.finished or reason or "finished"

    @property
    def headroom(self) -> float:
        shares = self._session.services.headroom(self._session.tags(self._agent))
        return min(shares.values(), default=1.0)
