"""While the solver thinks, this process denies it files, imports, programs, threads and the network."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

from apex_framework.errors import BackendError

_DENIED = (
    "open", "import", "exec", "os.", "socket.", "subprocess.", "shutil.", "glob.", "tempfile.", "pathlib.",
    "ctypes.", "mmap.", "fcntl.", "_thread.", "urllib.", "http.", "sqlite3.", "marshal.", "pickle.", "pty.",
    "signal.", "winreg.", "_winapi.", "msvcrt.", "webbrowser.",
)  # fmt: skip
"""Audit events (the beginnings of their names) that are refused. Compiling to a syntax tree is not among them."""

_thinking: ContextVar[bool] = ContextVar("apex_repair_thinking", default=False)


class ConfinementError(BackendError):
    """The solver reached for something outside its prompt."""

    def __init__(self, event: str) -> None:
        super().__init__(f"the solver is confined to its prompt; denied: {event}")
        self.event = event


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event.startswith(_DENIED) and _thinking.get():
        raise ConfinementError(event)


@cache  # an audit hook can never be removed: one per process, idle outside the window
def _install() -> None:
    sys.addaudithook(_audit)


@contextmanager
def confined() -> Iterator[None]:
    """The window in which this context is denied the outside world. Raises ConfinementError inside it."""
    _install()
    collecting = gc.isenabled()
    gc.disable()  # a stranger's finalizer, run by a collection in the window, would be denied its files
    token = _thinking.set(True)
    try:
        yield
    finally:
        _thinking.reset(token)
        if collecting:
            gc.enable()
