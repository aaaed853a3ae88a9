"""Runs of the command ``apex`` in processes of their own, and what must hold of each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

BUDGET = 6_000
"""Tokens per episode: enough for a few calls of a model that solves nothing."""


def left_running(mark: str) -> list[str]:
    """Commands of the processes that have ``mark`` in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:200])
        except OSError:  # it ended meanwhile, or is another user's
            continue
    return found


@dataclass
class Stage:
    """Where runs happen: an empty folder and an environment, by whose mark their processes are known."""

    folder: Path
    environ: Mapping[str, str]
    mark: str = field(default_factory=lambda: f"run-{uuid.uuid4().hex}")

    def start(self, *command: str) -> subprocess.Popen[str]:
        """``apex COMMAND``, not waited for."""
        environ = {**os.environ, "XDG_STATE_HOME": str(self.folder / "state"), "MARK": self.mark, **self.environ}
        return subprocess.Popen(
            [sys.executable, "-m", "apex_framework", *command],
            cwd=self.folder, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def finish(self, process: subprocess.Popen[str], status: int = 0) -> str:
        """What it printed; it must end with ``status`` and leave no process."""
        out, err = process.communicate(timeout=250)
        if "E0308" in out + err:
            pytest.skip(f"no sandbox here that may run what a model writes: {(out + err).strip()[:300]}")
        assert process.returncode == status, out + err  # with --json what is wrong is said in the first
        assert "Traceback" not in err, err
        assert left_running(self.mark) == []
        return out

    def run(self, *command: str, status: int = 0) -> str:
        """``apex COMMAND`` to its end."""
        return self.finish(self.start(*command), status)


def command_of(backend: str, out: str, *, episodes: int = 2, real_time: bool = True) -> tuple[str, ...]:
    """``apex run`` with one small arm."""
    arm = ("--controller", "static:star", "--no-baselines", "--workers", "1", "--budget", f"{BUDGET}")
    return ("run", "--backend", backend, "--episodes", f"{episodes}", *arm, "--out", out, "--json") + (
        ("--real-time",) if real_time else ()
    )


def lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSONL file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def check_run(folder: Path, *, level: str, episodes: int = 2) -> list[dict[str, Any]]:
    """Its episodes: all done, none for infrastructure, every call paid, nothing spent above the budget."""
    assert (folder / "DONE").exists()
    assert json.loads((folder / "run.json").read_text())["plan"]["level"] == level
    rows = lines(folder / "episodes.jsonl")
    assert len({row["task_id"] for row in rows}) == len(rows) == episodes
    calls = lines(folder / "calls.jsonl")
    for row in rows:
        assert row["status"] in ("finished", "budget", "steps"), row
        paid = [c for c in calls if c["task_id"] == row["task_id"] and c["event"] == "CallSettled"]
        assert len(paid) == row["calls"] > 0
        assert sum(c["tokens_in"] + c["tokens_out"] for c in paid) == row["tokens"] <= BUDGET == row["budget"]
        assert row["overspent"] == row["failed_calls"] == 0, row
    return rows


def models_of(folder: Path) -> Sequence[str]:
    """Determinism that the calls of a run recorded, each once."""
    return sorted({c["determinism"] for c in lines(folder / "calls.jsonl") if c["event"] == "CallSettled"})
