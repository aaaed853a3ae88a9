"""One call on its way through the door, and the row that it leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...events import OperationLogged
from ...interfaces.tool import Capability, ToolCall, ToolResult
from . import oplog
from .codes import E_TOOL
from .progress import Listener


@dataclass(slots=True, eq=False)
class Passage:
    """What is known of a call. JSON texts are made once: the log, the loops and the weighing all want them."""

    given: Capability
    """What the caller holds. Nothing on the way may make it wider."""
    arguments: Mapping[str, Any]
    text: str | None
    """JSON text of ``arguments``."""
    progress: Listener | None
    answer: ToolResult | None = None
    """The server's own, with its JSON text."""
    answer_text: str | None = None
    _digest: str = ""

    @property
    def answer_digest(self) -> str:
        """Of the JSON text of the server's own answer."""
        if not self._digest:
            self._digest = oplog.digest(self.answer_text or "")
        return self._digest

    def row(
        self,
        call: ToolCall,
        answer: ToolResult,
        secrets: Sequence[str],
        episode_id: str,
        n: int,
        ts: float,
        elapsed_ms: int,
    ) -> OperationLogged:
        """The call's row: ``answer`` is what its caller gets, which need not be the server's own."""
        text = oplog.redacted(call.arguments, self.text, secrets)
        own = answer is self.answer
        result = (self.answer_text if own else oplog.json_text(answer.value)) or ""
        detail = oplog.redacted(None, answer.detail[: 4 * oplog.DETAIL], secrets) if answer.detail else ""
        who = call.capability
        return OperationLogged(
            episode_id,
            n,
            who.agent_id,
            who.role,
            call.tool,
            who.epoch,
            "ok" if answer.ok else answer.error or E_TOOL,
            oplog.shown(text),
            oplog.digest(text),
            self.answer_digest if own else oplog.digest(result),
            len(result) if result.isascii() else len(result.encode("utf-8", "surrogatepass")),
            ts,
            elapsed_ms,
            oplog.shown(detail, oplog.DETAIL),
        )
