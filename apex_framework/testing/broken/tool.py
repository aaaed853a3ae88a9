"""One broken tool server per check of the kit: each fails exactly that one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...interfaces import ToolCall, ToolResult, ToolServer, ToolSpec


def _spec(name: str, description: str, *, read_only: bool = True) -> ToolSpec:
    schema = {
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
        "additionalProperties": False,
    }
    return ToolSpec(name, description, schema, read_only=read_only)


class Sound:
    """A server with nothing wrong: the size of a file, and emptying one."""

    tools: tuple[ToolSpec, ...] = (
        _spec("files.size", "Size in bytes."),
        _spec("files.clear", "Empty a file.", read_only=False),
    )

    async def call(self, call: ToolCall) -> ToolResult:
        """Checks, then works."""
        if call.tool not in {t.name for t in self.tools}:
            return self.unknown(call)
        if set(call.arguments) - {"path"} and not self.takes_more():
            return ToolResult(False, error="E_ARG", detail="only path")
        if "path" not in call.arguments:
            return self.missing()
        path = call.arguments["path"]
        if not isinstance(path, str):
            return self.wrong_type()
        root = call.capability.workspace.root
        if "\0" in path or not (root / path).resolve().is_relative_to(root):
            return self.outside(path)
        return self.work(call.tool, root / path)

    async def close(self) -> None:
        """Nothing."""

    def unknown(self, call: ToolCall) -> ToolResult:
        return ToolResult(False, error="E_TOOL", detail="no such tool")

    def takes_more(self) -> bool:
        return False

    def missing(self) -> ToolResult:
        return ToolResult(False, error="E_ARG", detail="path is required")

    def wrong_type(self) -> ToolResult:
        return ToolResult(False, error="E_ARG", detail="path is a string")

    def outside(self, path: str) -> ToolResult:
        return ToolResult(False, error="E_PATH", detail="outside")

    def work(self, tool: str, path: Path) -> ToolResult:
        if not path.is_file():
            return ToolResult(False, error="E_MISSING", detail="no such file")
        if tool.endswith("clear"):
            path.write_bytes(b"")
        return ToolResult(True, {"size": path.stat().st_size})


class ToolsInAList(Sound):
    """Forgets that the tools are constant."""

    def __init__(self) -> None:
        self.tools = list(Sound.tools)  # type: ignore[assignment]  # the fault


class PlainNames(Sound):
    """Names a second tool without its server."""

    tools = (*Sound.tools, replace(Sound.tools[0], name="size"))


class RequiresTheUndescribed(Sound):
    """Requires an argument that its schema does not describe."""

    tools = tuple(replace(t, schema={**t.schema, "required": ["path", "mode"]}) for t in Sound.tools)


class AnswersAnything(Sound):
    """Says ok to a tool that is not there."""

    def unknown(self, call: ToolCall) -> ToolResult:
        return ToolResult(True)


class TakesMore(Sound):
    """Overlooks arguments that it does not know."""

    def takes_more(self) -> bool:
        return True


class DoesWithout(Sound):
    """Guesses a missing argument."""

    def missing(self) -> ToolResult:
        return ToolResult(True, {"size": 0})


class TakesAnyType(Sound):
    """Takes a list for a path."""

    def wrong_type(self) -> ToolResult:
        return ToolResult(True, {"size": 0})


class SpeaksProse(Sound):
    """Refuses without a code."""

    def unknown(self, call: ToolCall) -> ToolResult:
        return ToolResult(False, error="there is no such tool", detail="really")


class AnswersBytes(Sound):
    """Puts bytes into a value."""

    def work(self, tool: str, path: Path) -> ToolResult:
        done = super().work(tool, path)
        return replace(done, value={"size": b"1"}) if done.ok else done


class TrustsPaths(Sound):
    """Looks outside the workspace."""

    def outside(self, path: str) -> ToolResult:
        return ToolResult(True, {"size": 0})


class WritesWhileReading(Sound):
    """Touches the file whose size it was asked for."""

    def work(self, tool: str, path: Path) -> ToolResult:
        done = super().work(tool, path)
        if done.ok:
            path.write_bytes(path.read_bytes() + b"#")
        return done


class ClosesOnce(Sound):
    """Breaks when closed a second time."""

    def __init__(self) -> None:
        self._open: list[Any] = [object()]

    async def close(self) -> None:
        """Not twice."""
        self._open.pop()


BROKEN: dict[str, Callable[[], ToolServer]] = {
    "tools_are_constant": ToolsInAList,
    "names_are_server_dot_tool": PlainNames,
    "schemas_are_of_objects": RequiresTheUndescribed,
    "unknown_tools_are_refused": AnswersAnything,
    "unknown_arguments_are_refused": TakesMore,
    "missing_arguments_are_refused": DoesWithout,
    "wrong_types_are_refused": TakesAnyType,
    "refusals_carry_codes": SpeaksProse,
    "results_are_json": AnswersBytes,
    "paths_stay_inside": TrustsPaths,
    "read_only_means_it": WritesWhileReading,
    "close_is_idempotent": ClosesOnce,
}
"""Check -> factory of a server that fails it and no other."""
