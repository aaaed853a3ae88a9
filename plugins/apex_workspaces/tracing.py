"""Counts and collects the lines that run in files of the workspace, and stops what never ends.

Line events are the same whatever the machine's load, so an endless test is told from a slow one
without a clock. ``sys.monitoring`` serves from Python 3.12 on, ``sys.settrace`` before.
"""

from __future__ import annotations

import ast
import re
import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Protocol


class Tracer(Protocol):
    """Counts steps since the last ``reset``; calls ``exceeded(path, line, function)`` once past the budget."""

    steps: int

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def reset(self) -> None: ...
    def lines(self) -> dict[str, list[int]]: ...


Exceeded = Callable[[str, int, str], None]


def make_tracer(root: str, budget: int, exceeded: Exceeded, *, coverage: bool) -> Tracer:
    """The fastest tracer of this Python. ``root`` ends with a separator."""
    if sys.version_info >= (3, 12):
        return _MonitoringTracer(root, budget, exceeded, coverage=coverage)
    return _SettraceTracer(root, budget, exceeded, coverage=coverage)


class _SettraceTracer:
    def __init__(self, root: str, budget: int, exceeded: Exceeded, *, coverage: bool) -> None:
        self._root, self._budget, self._exceeded, self._coverage = root, budget, exceeded, coverage
        self._lines: dict[str, set[int]] = {}
        self._local: dict[str, Callable[..., Any] | None] = {}
        self.steps = 0

    def start(self) -> None:
        threading.settrace(self._trace)
        sys.settrace(self._trace)

    def stop(self) -> None:
        sys.settrace(None)
        threading.settrace(None)

    def reset(self) -> None:
        # Python stops tracing when the recursion limit strikes inside the trace function.
        sys.settrace(self._trace)
        self.steps = 0
        for lines in self._lines.values():
            lines.clear()

    def lines(self) -> dict[str, list[int]]:
        return _relative(self._lines, self._root)

    def _trace(self, frame: FrameType, event: str, arg: object) -> Any:
        path = frame.f_code.co_filename
        try:
            return self._local[path]
        except KeyError:
            local = self._local[path] = self._make_local(path) if path.startswith(self._root) else None
            return local

    def _make_local(self, path: str) -> Callable[..., Any]:
        add = self._lines.setdefault(path, set()).add if self._coverage else None
        budget, exceeded = self._budget, self._exceeded

        def local(frame: FrameType, event: str, arg: object) -> Any:
            if event == "line":
                self.steps += 1
                if self.steps > budget:
                    exceeded(path, frame.f_lineno, frame.f_code.co_name)
                if add is not None:
                    add(frame.f_lineno)
            return local

        return local


class _MonitoringTracer:
    _TOOL = 4

    def __init__(self, root: str, budget: int, exceeded: Exceeded, *, coverage: bool) -> None:
        self._root, self._budget, self._exceeded, self._coverage = root, budget, exceeded, coverage
        self._lines: dict[str, set[int]] = {}
        self.steps = 0

    def start(self) -> None:
        if sys.version_info >= (3, 12):
            mon = sys.monitoring
            mon.use_tool_id(self._TOOL, "apex")
            mon.register_callback(self._TOOL, mon.events.PY_START, self._enter)
            mon.register_callback(self._TOOL, mon.events.PY_RESUME, self._enter)
            mon.register_callback(self._TOOL, mon.events.LINE, self._line)
            mon.register_callback(self._TOOL, mon.events.JUMP, self._jump)
            mon.set_events(self._TOOL, mon.events.PY_START | mon.events.PY_RESUME)

    def stop(self) -> None:
        if sys.version_info >= (3, 12):
            sys.monitoring.set_events(self._TOOL, 0)
            sys.monitoring.free_tool_id(self._TOOL)

    def reset(self) -> None:
        self.steps = 0
        for lines in self._lines.values():
            lines.clear()

    def lines(self) -> dict[str, list[int]]:
        return _relative(self._lines, self._root)

    def _enter(self, code: CodeType, offset: int) -> Any:
        if sys.version_info >= (3, 12):
            if code.co_filename.startswith(self._root):
                events = sys.monitoring.events
                sys.monitoring.set_local_events(self._TOOL, code, events.LINE | events.JUMP)
            return sys.monitoring.DISABLE
        return None

    def _line(self, code: CodeType, line: int) -> None:
        self.steps += 1
        if self.steps > self._budget:
            self._exceeded(code.co_filename, line, code.co_name)
        if self._coverage:
            self._lines.setdefault(code.co_filename, set()).add(line)

    def _jump(self, code: CodeType, offset: int, target: int) -> None:
        # A loop within one line makes jumps but no line events.
        if target < offset:
            self.steps += 1
            if self.steps > self._budget:
                self._exceeded(code.co_filename, code.co_firstlineno, code.co_name)


def _relative(lines: dict[str, set[int]], root: str) -> dict[str, list[int]]:
    return {path[len(root) :]: sorted(found) for path, found in sorted(lines.items()) if found}


_EMPTY_LOOP = re.compile(rb"while\b[^\n]*:\s*(?:#[^\n]*\s*)*(?:pass|continue|\.\.\.)")


def compile_traceable(source: bytes, path: str) -> CodeType:
    """The source's code. Raises what ``compile`` raises.

    ``while True: pass`` is one instruction that jumps to itself and makes no line events: its body
    becomes a call that does nothing, so that the loop is counted like any other.
    """
    if _EMPTY_LOOP.search(source):
        module = _FillEmptyLoops().visit(ast.parse(source, path))
        return compile(ast.fix_missing_locations(module), path, "exec", dont_inherit=True)
    return compile(source, path, "exec", dont_inherit=True)


class _FillEmptyLoops(ast.NodeTransformer):
    def visit_While(self, node: ast.While) -> ast.While:
        self.generic_visit(node)
        if isinstance(node.test, ast.Constant) and node.test.value and all(_does_nothing(s) for s in node.body):
            nothing = ast.Lambda(ast.arguments([], [], None, [], [], None, []), ast.Constant(None))
            node.body.insert(0, ast.copy_location(ast.Expr(ast.Call(nothing, [], [])), node.body[0]))
        return node


def _does_nothing(statement: ast.stmt) -> bool:
    constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return constant or isinstance(statement, ast.Pass | ast.Continue)
