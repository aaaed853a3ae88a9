"""An agent's world in memory: files, tests that are functions of the source, and a model that answers by a script."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apex_agents import speech
from apex_framework.interfaces import (
    AgentID,
    Denied,
    Epoch,
    LLMResult,
    LLMStatus,
    Message,
    MessagePriority,
    RouteResult,
    ToolResult,
)
from apex_framework.interfaces.prompting import Ask, Edit, GrammarError, Section, apply_edit, parse_prompt

SOURCE = "def add(a, b):\n    return a - b\n\n\ndef half(a):\n    return a / 2\n"
FUNCTIONS = (("add", 1, 2), ("half", 5, 6))
ADD, HALF = "app.py::add", "app.py::half"

GOOD = "CANDIDATE 1 sign\nFILE app.py:2\n<<<<<<< SEARCH\n    return a - b\n=======\n    return a + b\n>>>>>>> REPLACE"
BAD = GOOD.replace("a + b", "a * b")
WRONG = GOOD.replace("a + b", "a // b")

DENIED = Denied({"episode": "tokens"}, {"episode": 3}, 500)
FAILED = LLMResult("", 0, 0, LLMStatus.ERROR, "no connection")


@dataclass
class Desk:
    """The AgentContext of one agent. ``answers`` by task: each is used once, the last one again and again."""

    answers: Mapping[Ask, Sequence[str | Denied | LLMResult]] = field(default_factory=dict)
    passes: Callable[[str], Sequence[bool]] = lambda source: (True, "a + b" in source)
    files: dict[str, str] = field(default_factory=lambda: {"app.py": SOURCE})
    prompts: list[str] = field(default_factory=list)
    sent: list[tuple[str, dict[str, Any], MessagePriority]] = field(default_factory=list)
    used: list[str] = field(default_factory=list)
    finished: str = ""
    headroom: float = 1.0

    async def ask(self, prompt: str, *, max_tokens: int, purpose: str = "", heard: str = "") -> LLMResult | Denied:
        asked = parse_prompt(prompt).ask
        assert purpose == asked.value and heard in prompt
        answers = self.answers[asked]
        answer = answers[min(sum(parse_prompt(p).ask is asked for p in self.prompts), len(answers) - 1)]
        self.prompts.append(prompt)
        return LLMResult(answer, 1, 1) if isinstance(answer, str) else answer

    async def use(self, tool: str, /, **arguments: Any) -> ToolResult:
        self.used.append(tool)
        try:
            return ToolResult(True, getattr(self, "_" + tool.replace(".", "_"))(**arguments))
        except (GrammarError, KeyError) as error:
            return ToolResult(False, error="E_ARG", detail=str(error))

    def _fs_outline(self) -> dict[str, Any]:
        return {"functions": [{"path": "app.py", "name": n, "first": a, "last": b} for n, a, b in FUNCTIONS]}

    def _fs_read(self, path: str, start: int = 1, end: int | None = None) -> dict[str, Any]:
        return {"text": "\n".join(self.files[path].split("\n")[start - 1 : end])}

    def _fs_write(self, path: str, text: str) -> dict[str, Any]:
        self.files[path] = text
        return {}

    def _fs_patch(self, edits: list[dict[str, Any]]) -> dict[str, Any]:
        self.files = self._edited(edits)
        return {}

    def _test_run(self, edits: Sequence[dict[str, Any]] = (), coverage: bool = False) -> dict[str, Any]:
        results = self.passes(self._edited(edits)["app.py"])
        tests = [
            {"id": f"t{n}", "status": "passed" if ok else "failed", "detail": "" if ok else "AssertionError: 1 != 3"}
            for n, ok in enumerate(results)
        ]
        covered = {f"t{n}": {"app.py": [2] if not ok else [6]} for n, ok in enumerate(results)}
        passed = sum(results)
        value = {"passed": passed, "total": len(tests), "pass_rate": passed / len(tests), "tests": tests}
        return {**value, "coverage": covered} if coverage else value

    def _edited(self, edits: Sequence[dict[str, Any]]) -> dict[str, str]:
        files = dict(self.files)
        for edit in edits:
            files[edit["path"]] = apply_edit(files[edit["path"]], Edit(**edit))
        return files

    async def send(
        self, audience: str, payload: dict[str, Any], *, priority: MessagePriority = MessagePriority.DRAFT
    ) -> RouteResult:
        self.sent.append((audience, payload, priority))
        return RouteResult.ENQUEUED

    def finish(self, reason: str) -> None:
        self.finished = self.finished or reason

    def said(self) -> list[tuple[str, str]]:
        """(audience, kind) of everything sent."""
        return [(audience, payload["kind"]) for audience, payload, _ in self.sent]

    def text(self, index: int = -1) -> str:
        """The words of a message."""
        return "\n".join(body for _, _, body in self.sent[index][1]["sections"])


def message(kind: str, *sections: Section, sender: str = "planner", **data: Any) -> Message:
    """A message to somebody."""
    return Message("e", "m", AgentID(sender), AgentID("x"), Epoch(0), speech.payload(kind, sections, **data))
