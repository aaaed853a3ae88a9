"""Conformance kit of sandboxes. Starts short-lived processes; POSIX only."""

from __future__ import annotations

import base64
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from ..interfaces import Confinement, Level, Sandbox, SandboxStatus
from .conformance import run_checks

KIND: Final = "sandbox"
MEMORY: Final = 512 * 1024**2
FILE_SIZE: Final = 1024**2

Make = Callable[[], Sandbox]


def check_sandbox(make: Make) -> None:
    """Run every check. Raises ConformanceError."""
    run_checks(
        KIND,
        {
            "has_a_name": lambda: check_has_a_name(make),
            "probe_is_stable": lambda: check_probe_is_stable(make),
            "gaps_are_named": lambda: check_gaps_are_named(make),
            "wrap_keeps_the_command": lambda: check_wrap_keeps_the_command(make),
            "wrap_keeps_the_exit_status": lambda: check_wrap_keeps_the_exit_status(make),
            "memory_is_limited": lambda: check_memory_is_limited(make),
            "cpu_is_limited": lambda: check_cpu_is_limited(make),
            "file_size_is_limited": lambda: check_file_size_is_limited(make),
            "enter_confines": lambda: check_enter_confines(make),
            "can_be_sent_to_a_helper": lambda: check_can_be_sent_to_a_helper(make),
        },
    )


def check_has_a_name(make: Make) -> None:
    """The name is a word."""
    assert make().name and make().name.isidentifier(), "the name must be a word"


def check_probe_is_stable(make: Make) -> None:
    """Two probes say the same."""
    sandbox = make()
    first = sandbox.probe()
    assert isinstance(first, SandboxStatus), "probe must return a SandboxStatus"
    assert sandbox.probe() == first, "two probes differ"


def check_gaps_are_named(make: Make) -> None:
    """Resource limits alone hold no network: below NAMESPACES something is lacking and is said."""
    status = make().probe()
    if status.level < Level.NAMESPACES:
        assert any("network" in lack for lack in status.lacks), "holds no network and does not say so"


def check_wrap_keeps_the_command(make: Make) -> None:
    """Arguments arrive as they are, blanks, quotes, dashes and none included."""
    words = ["a b", "'\"", "-x", "--", "", "$HOME", "é"]
    done = _run(make(), ["-c", "import sys; print(sys.argv[1:])", *words])
    assert done.stdout.strip() == str(words), f"arguments arrived as {done.stdout.strip()} {done.stderr[-300:]}"


def check_wrap_keeps_the_exit_status(make: Make) -> None:
    """The command's exit status is the status."""
    assert _run(make(), ["-c", "raise SystemExit(7)"]).returncode == 7, "exit status 7 got lost"


def check_memory_is_limited(make: Make) -> None:
    """Memory beyond the limit is refused, unless the probe says that it lacks this."""
    if not _lacks(make(), "memory"):
        done = _run(make(), ["-c", f"bytearray({2 * MEMORY})"], cpu_s=60.0)  # so that no slow machine ends it first
        assert done.returncode != 0, "twice the permitted memory was given"


def check_cpu_is_limited(make: Make) -> None:
    """The limit on CPU time is set, unless the probe says that it lacks this."""
    if not _lacks(make(), "cpu"):
        code = "import resource; print(resource.getrlimit(resource.RLIMIT_CPU)[0])"
        done = _run(make(), ["-c", code])
        assert done.stdout.strip() in ("3", "4"), f"a limit of 3 s of CPU time arrived as {done.stdout.strip()!r}"


def check_file_size_is_limited(make: Make) -> None:
    """A file beyond the limit is refused, unless the probe says that it lacks this."""
    if not _lacks(make(), "file size"):
        done = _run(make(), ["-c", f"f = open('big', 'wb'); f.write(bytes({2 * FILE_SIZE})); f.close()"])
        assert done.returncode != 0, "a file of twice the permitted size was written"


def check_enter_confines(make: Make) -> None:
    """``enter`` in a fresh process holds what ``wrap`` holds."""
    if not _lacks(make(), "memory"):
        code = (
            "import sys,pickle,base64;from pathlib import Path;sys.path[:0]=sys.argv[3:];"
            "from apex_framework.interfaces import Confinement;"
            f"pickle.loads(base64.b64decode(sys.argv[1])).enter(Confinement(Path(sys.argv[2]),{MEMORY},60.0,64,{FILE_SIZE}));"
            f"bytearray({2 * MEMORY})"
        )
        sent = base64.b64encode(pickle.dumps(make())).decode()
        with tempfile.TemporaryDirectory() as root:
            argv = [sys.executable, "-I", "-B", "-c", code, sent, root, *(p for p in sys.path if p)]
            done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        assert "MemoryError" in done.stderr, f"twice the permitted memory was given after enter {done.stderr[-300:]}"


def check_can_be_sent_to_a_helper(make: Make) -> None:
    """It can be pickled: helpers that start test processes enter it there."""
    sent = pickle.loads(pickle.dumps(make()))
    assert sent.probe().level == make().probe().level, "a copy is of another level"


def _lacks(sandbox: Sandbox, what: str) -> bool:
    status = sandbox.probe()
    return status.level is Level.NONE or any(what in lack for lack in status.lacks)


def _run(sandbox: Sandbox, arguments: Sequence[str], cpu_s: float = 3.0) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place).resolve()
        limits = Confinement(root, memory=MEMORY, cpu_s=cpu_s, processes=64, file_size=FILE_SIZE)
        argv = sandbox.wrap([sys.executable, "-I", "-S", "-B", *arguments], limits)
        environment = {"PATH": os.environ.get("PATH", os.defpath), "PYTHONUTF8": "1", "LC_ALL": "C.UTF-8"}
        return subprocess.run(
            argv, cwd=root, env=environment, capture_output=True, encoding="utf-8", timeout=60, check=False
        )
