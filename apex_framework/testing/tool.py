"""Conformance kit of tool servers."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from ..interfaces import Capability, TestReport, ToolCall, ToolResult, ToolServer, ToolSpec
from .conformance import run_checks

KIND: Final = "tool"
OUTSIDE: Final = ("../outside.txt", "a/../../outside.txt", "/etc/hostname", "link/outside.txt", "a\0b")

Make = Callable[[], ToolServer]


class FolderWorkspace:
    """A plain folder as a workspace, without savepoints and without tests: enough to call tools on."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def fork(self) -> FolderWorkspace:
        """A copy beside it."""
        return FolderWorkspace(Path(shutil.copytree(self.root, self.root.with_name(f"{self.root.name}-fork"))))

    def commit(self) -> str:
        """Nothing is remembered."""
        return "none"

    def rollback(self) -> None:
        """Nothing is remembered."""

    def dispose(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.root, ignore_errors=True)

    def discover(self) -> Sequence[str]:
        """No tests."""
        return ()

    def run_tests(
        self,
        tests: Sequence[str] | None = None,
        *,
        timeout_s: float = 120.0,
        coverage: bool = False,
        overlay: Mapping[str, str] | None = None,
    ) -> TestReport:
        """No tests."""
        return TestReport(())


def check_tool(make: Make) -> None:
    """Run every check on fresh servers. Raises ConformanceError."""
    run_checks(
        KIND,
        {
            "tools_are_constant": lambda: check_tools_are_constant(make),
            "names_are_server_dot_tool": lambda: check_names_are_server_dot_tool(make),
            "schemas_are_of_objects": lambda: check_schemas_are_of_objects(make),
            "unknown_tools_are_refused": lambda: check_unknown_tools_are_refused(make),
            "unknown_arguments_are_refused": lambda: check_unknown_arguments_are_refused(make),
            "missing_arguments_are_refused": lambda: check_missing_arguments_are_refused(make),
            "wrong_types_are_refused": lambda: check_wrong_types_are_refused(make),
            "refusals_carry_codes": lambda: check_refusals_carry_codes(make),
            "results_are_json": lambda: check_results_are_json(make),
            "paths_stay_inside": lambda: check_paths_stay_inside(make),
            "read_only_means_it": lambda: check_read_only_means_it(make),
            "close_is_idempotent": lambda: check_close_is_idempotent(make),
        },
    )


def check_tools_are_constant(make: Make) -> None:
    """The tools are a tuple of specs, not empty, the same each time."""
    server = make()
    tools = server.tools
    assert isinstance(tools, tuple) and tools, "tools must be a tuple that is not empty"
    assert all(isinstance(t, ToolSpec) for t in tools), "tools must be ToolSpecs"
    assert server.tools == tools, "the tools changed between two looks"


def check_names_are_server_dot_tool(make: Make) -> None:
    """Names are ``server.tool``, all of one server, each once."""
    names = [t.name for t in make().tools]
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*", n) for n in names), (
        f"names must be server.tool: {names}"
    )
    assert len({n.partition(".")[0] for n in names}) == 1, f"names are of several servers: {names}"
    assert len(set(names)) == len(names), f"a name occurs twice: {names}"


def check_schemas_are_of_objects(make: Make) -> None:
    """Each schema is JSON and describes an object; what is required is described."""
    for tool in make().tools:
        schema = json.loads(json.dumps(dict(tool.schema)))
        assert schema.get("type") == "object", f"{tool.name}: the schema must be of an object"
        assert isinstance(schema.get("properties"), dict), f"{tool.name}: the schema must have properties"
        assert set(schema.get("required", ())) <= set(schema["properties"]), f"{tool.name}: required but not described"


def check_unknown_tools_are_refused(make: Make) -> None:
    """A tool that is not there is a refusal, not an exception."""
    with _folder() as root:
        assert not _call(make, root, _unknown(make()), {}).ok, "an unknown tool answered ok"


def check_unknown_arguments_are_refused(make: Make) -> None:
    """Where the schema closes its properties, an argument more is refused."""
    with _folder() as root:
        for tool in make().tools:
            if tool.schema.get("additionalProperties") is False:
                result = _call(make, root, tool.name, {**_sample(tool), "no_such_argument": 1})
                assert not result.ok, f"{tool.name} took an argument that it does not know"


def check_missing_arguments_are_refused(make: Make) -> None:
    """Without any argument, a tool that requires one refuses."""
    with _folder() as root:
        for tool in make().tools:
            if tool.schema.get("required"):
                assert not _call(make, root, tool.name, {}).ok, f"{tool.name} did without what it requires"


def check_wrong_types_are_refused(make: Make) -> None:
    """A list where a string, number or flag belongs is refused."""
    with _folder() as root:
        for tool in make().tools:
            for name, kind in tool.schema.get("properties", {}).items():
                if kind.get("type") in ("string", "integer", "number", "boolean"):
                    result = _call(make, root, tool.name, {**_sample(tool), name: [[]]})
                    assert not result.ok, f"{tool.name} took a list for {name}"


def check_refusals_carry_codes(make: Make) -> None:
    """A refusal has a stable code ``E_…``, a detail and no value."""
    with _folder() as root:
        result = _call(make, root, _unknown(make()), {})
        if not result.ok:
            assert re.fullmatch(r"E_[A-Z][A-Z_]*", result.error), f"{result.error!r} is not a code E_…"
            assert result.detail and not result.value, "a refusal has a detail and no value"


def check_results_are_json(make: Make) -> None:
    """Every answer is a ToolResult whose value is JSON; success has no code."""
    with _folder() as root:
        for tool in make().tools:
            result = _call(make, root, tool.name, _sample(tool))
            json.dumps(dict(result.value), allow_nan=False)
            assert not (result.ok and result.error), f"{tool.name} answered ok with the code {result.error}"


def check_paths_stay_inside(make: Make) -> None:
    """A path that leaves the workspace, by name or by link, is refused by every tool and nothing outside changes."""
    with _folder() as root:
        canary = root.parent / "outside.txt"
        for tool in make().tools:
            if tool.schema.get("properties", {}).get("path", {}).get("type") == "string":
                for path in OUTSIDE:
                    result = _call(make, root, tool.name, {**_sample(tool), "path": path})
                    assert not result.ok, f"{tool.name} took the path {path!r}"
        assert canary.read_text() == "outside", "a file outside the workspace was changed"


def check_read_only_means_it(make: Make) -> None:
    """Tools that say read-only change no file."""
    with _folder() as root:
        before = _content(root)
        for tool in make().tools:
            if tool.read_only:
                _call(make, root, tool.name, _sample(tool))
                assert _content(root) == before, f"{tool.name} says read-only and changed a file"


def check_close_is_idempotent(make: Make) -> None:
    """Close twice, used or not."""

    async def work() -> None:
        server = make()
        await server.close()
        await server.close()

    asyncio.run(work())


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place).resolve() / "workspace"
        root.mkdir()
        (root.parent / "outside.txt").write_text("outside")
        (root / "sample.py").write_text("def sample():\n    return 1\n")
        (root / "link").symlink_to("..")
        yield root


def _content(root: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file() and "link" not in p.parts}


def _unknown(server: ToolServer) -> str:
    return f"{server.tools[0].name.partition('.')[0]}.no_such_tool"


def _sample(tool: ToolSpec) -> dict[str, Any]:
    values = {"string": "sample.py", "integer": 1, "number": 1.0, "boolean": True, "array": [], "object": {}}
    described: Mapping[str, Any] = tool.schema.get("properties", {})
    return {
        name: values.get(described.get(name, {}).get("type", ""), "sample.py")
        for name in tool.schema.get("required", ())
    }


def _call(make: Make, root: Path, name: str, arguments: Mapping[str, Any]) -> ToolResult:
    async def work() -> ToolResult:
        server = make()
        try:
            workspace = FolderWorkspace(root)
            capability = Capability(workspace, frozenset(t.name for t in server.tools))
            return await server.call(ToolCall(name, arguments, capability, deadline_s=30.0))
        finally:
            await server.close()

    result = asyncio.run(work())
    assert isinstance(result, ToolResult), f"{name} answered with {type(result).__name__}, not a ToolResult"
    return result
