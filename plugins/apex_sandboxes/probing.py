"""What a sandbox achieves, found by making every attempt to get out, once per process and kind."""

from __future__ import annotations

import functools
import subprocess

from apex_framework.interfaces.sandbox import Level, Sandbox, SandboxStatus
from apex_framework.testing.probes import Attempt, run_probes

SOFT = (
    "hard limits of a whole tree (a look every 100 ms)",
    "a limit of all files together",
)
_RUNNING = "a process that runs already (enter)"


def probed(sandbox: Sandbox, strongest: Level) -> SandboxStatus:
    """The strongest level when every attempt was stopped, whichever way it was confined; ``lacks`` names what was not.

    Sandboxes of one type and one state are probed once.
    """
    return _probed(_Key(sandbox), strongest)


class _Key:
    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self._state = (type(sandbox), repr(sorted(_plain(vars(sandbox)).items())))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other._state == self._state

    def __hash__(self) -> int:
        return hash(self._state)


def _plain(values: dict[str, object]) -> dict[str, object]:
    return {name: vars(value) if hasattr(value, "__dict__") else value for name, value in values.items()}


@functools.lru_cache(maxsize=16)
def _probed(key: _Key, strongest: Level) -> SandboxStatus:
    wrapped, entered = _attempts(key.sandbox, entered=False), _attempts(key.sandbox, entered=True)
    if not wrapped:
        return SandboxStatus(Level.NONE, ("everything, network too: its means are not there or not allowed",))
    out = [a.name for a in wrapped if a.out]
    if entered:
        out += [f"{a.name} (enter)" for a in entered if a.out and a.name not in out]
    else:
        out.append(_RUNNING)
    held = tuple(a.name for a in wrapped if a.name not in out)
    level = strongest if not out else Level.RLIMITS
    if out:
        lacks = (*out, "network and files, as far as that", *SOFT)
    elif strongest < Level.NAMESPACES:
        lacks = ("a network of its own: there is none at all", *SOFT)
    else:
        lacks = SOFT
    return SandboxStatus(level, lacks, held)


def _attempts(sandbox: Sandbox, *, entered: bool) -> tuple[Attempt, ...]:
    try:
        return run_probes(sandbox, entered=entered)
    except (OSError, ValueError, subprocess.SubprocessError):
        return ()
