"""The desk of a durable session: what goes out is written down before, what came in is written down after."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import PayloadError
from ..events import EffectInDoubt
from ..interfaces import Agent, Denied, LLMResult, LLMStatus, Message, RouteResult, ToolResult
from ..services import E_ARG, E_TIMEOUT, E_TOOL
from .desk import Desk
from .keeper import Keeper
from .records import Kind, from_answer, key_of, to_answer
from .state import Call

if TYPE_CHECKING:
    from .session import Session

E_IN_DOUBT = "E_IN_DOUBT"
"""This tool was called before, and nobody knows whether it had its effect; it is not called again."""


class DurableDesk(Desk):
    """An agent's doors in a durable session.

    Messages wait in ``sent`` until the step is written down. A call that an earlier, cut run of this step has made
    gives the answer that it gave then: calls are known by what they are, not by when they come.
    """

    def __init__(self, session: Session, agent: Agent, keeper: Keeper, message: Message) -> None:
        super().__init__(session, agent)
        self.sent: list[Message] = []
        self._keeper, self._log = keeper, keeper.log
        self._step = {"m": message.msg_id, "by": str(agent.id)}
        self._times: Counter[str] = Counter()

    async def ask(self, prompt: str, *, max_tokens: int, purpose: str = "", heard: str = "") -> LLMResult | Denied:
        key = self._key("model", prompt, max_tokens, purpose)
        call = self._known(key)
        if call is not None and call.answer is not None:
            answer = from_answer(call.answer)
            assert isinstance(answer, LLMResult | Denied)
            good = isinstance(answer, LLMResult) and answer.status in (LLMStatus.OK, LLMStatus.LENGTH)
            if good or call.attempt == self._attempt:
                self._calls += 1
                return answer
        result = await super().ask(prompt, max_tokens=max_tokens, purpose=purpose, heard=heard)
        await self._answered(key, "model", to_answer(result), wait=isinstance(result, LLMResult))
        return result

    async def use(self, tool: str, /, **arguments: Any) -> ToolResult:
        try:
            key = self._key("tool", tool, arguments)
        except (TypeError, ValueError, RecursionError) as error:
            return _unwritable(tool, error)
        spec = self._session.services.tools.spec(tool)
        harmless = spec is None or (spec.read_only and not spec.outward)
        repeatable = harmless or (spec is not None and (spec.idempotent or spec.read_only))
        call = self._known(key)
        if call is not None:
            if call.answer is not None:
                answer = from_answer(call.answer)
                assert isinstance(answer, ToolResult)
                gone = harmless and self._session.services.tools.is_gone(answer)
                if not gone and (answer.ok or call.attempt == self._attempt):
                    return answer
            if not repeatable and (call.answer is None or call.answer["error"] in (E_TIMEOUT, E_TOOL, E_IN_DOUBT)):
                return await self._doubt(key, tool, arguments)
        if not harmless:
            try:
                self._log.write(Kind.CALL, {**self._step, "key": key, "what": tool, "arguments": _plain(arguments)})
            except PayloadError as error:
                return _unwritable(tool, error)
            await self._log.barrier()
        result = await self._session.use(self._agent, tool, arguments, key, epoch=self.epoch)
        try:
            row = to_answer(result)
        except (TypeError, ValueError) as error:
            result = ToolResult(False, error=E_TOOL, detail=f"{tool}: its answer has no JSON form: {error}")
            row = to_answer(result)
        await self._answered(key, tool, row, wait=not harmless)
        answer = from_answer(row)
        assert isinstance(answer, ToolResult)
        return answer

    async def _doubt(self, key: str, tool: str, arguments: Mapping[str, Any]) -> ToolResult:
        agent, message = self._step["by"], self._step["m"]
        doubt = {"agent_id": agent, "msg_id": message, "tool": tool, "arguments": _plain(arguments)}
        more: dict[str, Any] = {}
        if doubt not in self._log.state.doubts:
            more = {"doubt": doubt, "fault": f"{agent}: InDoubt: whether {tool} had its effect is not known"}
            self._session.faults.append(more["fault"])
            if self._session.on_event is not None:
                self._session.on_event(EffectInDoubt(self._session.episode_id, agent, message, tool, key))
        result = ToolResult(False, error=E_IN_DOUBT, detail=f"{tool} was called before, and its answer is not known")
        await self._answered(key, tool, to_answer(result), wait=True, **more)
        return result

    async def _answered(self, key: str, what: str, answer: dict[str, Any], *, wait: bool, **more: Any) -> None:
        self._log.write(Kind.ANSWER, {**self._step, "key": key, "what": what, "answer": answer, **more})
        if wait:
            await self._log.barrier()

    async def _route(self, message: Message) -> RouteResult:
        try:
            body = json.loads(json.dumps(message.payload, allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise PayloadError(f"message {message.msg_id} has no JSON form: {error}", "keep to JSON values") from error
        message.payload = body  # as it will be after a crash, whatever becomes of the sender's copy
        result = self._keeper.reentry.judge(message)
        if result:
            self.sent.append(message)
        return result

    def _key(self, *what: object) -> str:
        key = key_of(self._session.episode_id, self._step, *what)
        self._times[key] += 1
        return key if self._times[key] == 1 else f"{key}.{self._times[key]}"

    def _known(self, key: str) -> Call | None:
        return self._log.state.calls.get((self._step["m"], self._step["by"]), {}).get(key)

    @property
    def _attempt(self) -> int:
        return self._log.state.attempt(self._step["m"], self._step["by"])


def _unwritable(tool: str, error: Exception) -> ToolResult:
    """For arguments that cannot be written down: what cannot be remembered is not done."""
    return ToolResult(False, error=E_ARG, detail=f"{tool}: its arguments cannot be written down: {str(error)[:200]}")


def _plain(arguments: Mapping[str, Any]) -> Any:
    """Arguments for people to read, whatever they are."""
    return json.loads(json.dumps(arguments, default=repr))
