"""The host's side of running a repository's tests: one supervisor process per run, confined by a sandbox."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from apex_framework.errors import WorkspaceError
from apex_framework.interfaces import Sandbox
from apex_framework.interfaces.sandbox import Confinement

from .forkserver import _kill_marked
from .recipe import Recipe

_HERE: Final = str(Path(__file__).resolve().parent)
_STUB: Final = "import sys,types;m=types.ModuleType({0!r});m.__path__=[sys.argv.pop(1)];sys.modules[{0!r}]=m;"
_SUPERVISE: Final = _STUB.format("apex_workspaces") + "from apex_workspaces.supervisor import main;main()"
# The program starts in the repository, which Python would search before its own modules.
_ELSEWHERE: Final = "import sys;sys.path[:]=[p for p in sys.path if p];"
_TEST: Final = _ELSEWHERE + _STUB.format("_apex_inside") + "from _apex_inside.main import main;main()"
_MARK: Final = "APEX_TEST_RUN"


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python, and the folders that it needs besides the system's."""

    program: str = sys.executable
    folders: tuple[Path, ...] = (Path(sys.prefix), Path(sys.base_prefix))


@dataclass(frozen=True, slots=True)
class Place:
    """Folders of a run: ``work`` holds the files, ``tmp`` is empty. Nothing else lies in the folder that holds both."""

    work: Path
    tmp: Path


def ask(
    recipe: Recipe,
    sandbox: Sandbox,
    interpreter: Interpreter,
    place: Place,
    tests: Sequence[str],
    *,
    wall_s: float,
    paths: Sequence[str],
    coverage: bool = False,
    uncovered: Sequence[str] = (),
    collect: bool = False,
) -> dict[str, Any]:
    """Run or collect; blocking; nothing that was started is left. Raises WorkspaceError when nothing can be started."""
    mark = secrets.token_hex(16)
    limits = Confinement(
        place.work,
        memory=recipe.memory,
        cpu_s=max(wall_s, recipe.cpu_s) + 5,
        processes=recipe.processes,
        writable=(place.tmp,),
        # Programs that look for settings from their files upward list the folders that two paths share.
        readable=(*interpreter.folders, Path(_HERE) / "inside", place.work.parent),
    )
    request = {
        "argv": sandbox.wrap(_command(recipe, interpreter), limits),
        "env": _environment(recipe, interpreter, place, mark),
        "cwd": str(place.work),
        "config": _config(recipe, place, paths, coverage, uncovered, collect),
        "tests": list(tests),
        "collect": collect,
        "singly": recipe.runner == "command",
        "wall_s": wall_s,
        "cpu_s": max(1, recipe.cpu_s),
        "idle_s": recipe.idle_s,
        "limits": {"processes": recipe.processes},
        "disk": recipe.disk,
        "writable": [str(place.work), str(place.tmp)],
        "most_output": recipe.most_output,
        "keep_output": recipe.keep_output,
    }
    answer = _exchange(request, wall_s + 30, mark)
    if answer is None:
        lost = {"status": "error", "detail": "the test supervisor died", "steps": 0, "lines": {}}
        return {"results": [lost] * len(tests), "found": [], "broken": {}, "status": "crashed", "why": "", "exit": "", "output": "", "log": ""}  # fmt: skip
    if "failed" in answer:
        raise WorkspaceError(f"the tests cannot be started: {answer['failed']}", "see the task's python and sandbox")
    return answer


def _command(recipe: Recipe, interpreter: Interpreter) -> list[str]:
    if recipe.runner == "command":
        return [part.replace("{python}", interpreter.program) for part in recipe.command]
    return [interpreter.program, "-s", "-B", "-c", _TEST, f"{_HERE}/inside"]


def _config(
    recipe: Recipe, place: Place, paths: Sequence[str], coverage: bool, uncovered: Sequence[str], collect: bool
) -> dict[str, Any]:
    if recipe.runner == "command":
        return {}
    return {
        "runner": recipe.runner,
        "root": str(place.work),
        "path": [str(place.work / part) if part != "." else str(place.work) for part in recipe.path],
        "args": [*recipe.args, *(part for plugin in recipe.plugins for part in ("-p", plugin))],
        "paths": list(paths),
        "coverage": coverage,
        "uncovered": list(uncovered),
        "step_budget": recipe.step_budget,
        "collect": collect,
    }


def _environment(recipe: Recipe, interpreter: Interpreter, place: Place, mark: str) -> Mapping[str, str]:
    return {
        "PATH": os.pathsep.join((str(Path(interpreter.program).parent), os.defpath)),
        "HOME": str(place.tmp),
        "TMPDIR": str(place.tmp),
        "TZ": "UTC",
        "LC_ALL": "C.UTF-8",
        "PYTHONUTF8": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PY_COLORS": "0",
        **dict(recipe.env),
        _MARK: mark,
    }


def _exchange(request: dict[str, Any], patience_s: float, mark: str) -> dict[str, Any] | None:
    argv = [sys.executable, "-I", "-S", "-B", "-W", "ignore", "-c", _SUPERVISE, _HERE]
    process = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"PATH": os.defpath, "LC_ALL": "C.UTF-8", _MARK: mark},
        cwd="/",
        start_new_session=True,
        bufsize=0,
    )
    assert process.stdin is not None and process.stdout is not None
    data = b""
    try:
        with contextlib.suppress(BrokenPipeError):
            view = memoryview(json.dumps(request).encode() + b"\n")
            while view:
                view = view[process.stdin.write(view) :]
        data = _read(process.stdout.fileno(), time.monotonic() + patience_s)
    finally:
        # Its standard input closed tells it to end everything; what of it does not is found by its mark.
        process.stdin.close()
        process.stdout.close()
        if not data.endswith(b"\n"):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(2.0)
            process.kill()
            _kill_marked(f"{_MARK}={mark}".encode())
        process.wait()
    return json.loads(data) if data.endswith(b"\n") else None


def _read(fd: int, deadline: float) -> bytes:
    parts: list[bytes] = []
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    while not (parts and parts[-1].endswith(b"\n")) and (left := deadline - time.monotonic()) > 0:
        if poll.poll(left * 1000):
            data = os.read(fd, 1 << 20)
            if not data:
                break
            parts.append(data)
    return b"".join(parts)
