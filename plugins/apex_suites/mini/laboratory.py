"""The main process's end of the laboratory: asks originals, tries copies."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from apex_framework.errors import SuiteError

from .inputs import Case
from .sources import Repository

SCRIPT = Path(__file__).with_name("lab.py")
PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Failure:
    """How one case fails on a copy."""

    case: int
    kind: str
    """``value``, ``raise`` or ``no raise``."""
    got: str
    path: str = ""
    line: int = 0
    """Innermost frame of the package when an exception came out."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A copy's run over all cases. ``status``: ``ok``, ``import``, ``endless`` or ``crash``."""

    status: str
    failures: tuple[Failure, ...] = ()
    steps: int = 0
    covered: tuple[Mapping[str, Any], ...] = ()


class Laboratory:
    """One process. Two with different hash seeds show what is not repeatable. A context manager."""

    def __init__(self, hash_seed: int) -> None:
        if not hasattr(os, "fork"):
            raise SuiteError("mini needs a system with fork", "use Linux or macOS (on Windows: WSL)")
        keep = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH")}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-s", "-S", "-W", "ignore", str(SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**keep, "PYTHONHASHSEED": str(hash_seed), "LC_ALL": "C.UTF-8", "TZ": "UTC", "PYTHONUTF8": "1"},
        )

    def __enter__(self) -> Laboratory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process; idempotent."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                stream.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _ask(self, **request: Any) -> dict[str, Any]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        try:
            stdin.write(json.dumps(request).encode() + b"\n")
            stdin.flush()
            ready, _, _ = select.select([stdout], [], [], PATIENCE_S)
            line = stdout.readline() if ready else b""
        except BrokenPipeError:
            line = b""
        if not line:
            self._process.kill()
            raise SuiteError("the laboratory process of mini gave no answer", "run the command again")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def record(self, prelude: str, cases: Sequence[Case]) -> list[dict[str, str] | None]:
        """What the original gives for each case; None where it cannot be compared."""
        answers: list[dict[str, str] | None] = self._ask(
            do="record", prelude=prelude, cases=[c.expression for c in cases]
        )["answers"]
        return answers

    def load(self, repository: Repository, cases: Sequence[Case]) -> None:
        """Make a copy and its cases the subject of the following runs."""
        asked = [{"expression": c.expression, "mode": c.mode, "expected": c.expected} for c in cases]
        self._ask(
            do="load",
            package=repository.source.package,
            files=dict(repository.files),
            block=list(repository.block),
            prelude=repository.prelude,
            cases=asked,
        )

    def run(self, changed: Mapping[str, str], *, steps: int, coverage: bool = False, elsewhere: bool = False) -> Trial:
        """Run all cases on the copy with some files changed; ``elsewhere``: in another working directory."""
        reply = self._ask(do="run", files=dict(changed), steps=steps, coverage=coverage, elsewhere=elsewhere)
        failures = tuple(
            Failure(f["case"], f["kind"], f["got"], *(f.get("at") or ("", 0))) for f in reply.get("failures", ())
        )
        return Trial(reply["status"], failures, reply.get("steps", 0), tuple(reply.get("covered", ())))

    def tests(self, changed: Mapping[str, str], tests: Mapping[str, str]) -> dict[str, str]:
        """Outcome of every test of some test files by its id; empty when the run broke."""
        reply = self._ask(do="tests", files=dict(changed), tests=dict(tests))
        outcomes: dict[str, str] = reply.get("outcomes", {})
        return outcomes
