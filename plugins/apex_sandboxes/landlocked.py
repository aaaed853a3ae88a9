"""The ``landlock`` sandbox: Landlock, a filter of system calls, and namespaces where the system allows them."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from apex_framework.interfaces.sandbox import Confinement, Level, SandboxStatus

from .inside import landlock, launch
from .plan import launcher, make_plan
from .probing import probed


class LandlockSandbox:
    """Files by Landlock and read-only mounts, calls by seccomp, network and processes by namespaces, amounts by limits.

    A parent process watches the tree of a wrapped command: what is left when its program ends is ended, and so is all of
    it when together it takes more than is permitted. ``namespaces`` None uses them where the system allows it. Without
    them no socket can be made, and no mode, owner or time of a file changed.
    """

    name = "landlock"

    def __init__(self, *, namespaces: bool | None = None) -> None:
        self._namespaces = namespaces_allowed() if namespaces is None else namespaces

    def wrap(self, argv: Sequence[str], limits: Confinement) -> list[str]:
        """The command behind a small launcher. It ends with status 78, the command not run, if it cannot confine."""
        return [*launcher({**self._plan(limits), "supervised": True}), *argv]

    def enter(self, limits: Confinement) -> None:
        """Confine the calling process, which has one thread, and what it starts. Raises OSError.

        It keeps its place in the tree where Landlock holds signals; elsewhere it goes on in a child, and its former
        self waits and ends alike. No internet sockets, whatever ``limits`` say of the network.
        """
        plan = {**self._plan(limits), "network": False, "own_network": False}
        own_tree = self._namespaces and landlock.version() < landlock.HOLDS_SIGNALS
        launch.confine(plan, own_tree=own_tree)

    def probe(self) -> SandboxStatus:
        """What it achieves here, found by making the attempts once; a few seconds the first time."""
        return probed(self, Level.NAMESPACES if self._namespaces else Level.LANDLOCK)

    def _plan(self, limits: Confinement) -> dict[str, Any]:
        return make_plan(limits, namespaces=self._namespaces)


@functools.lru_cache(maxsize=1)
def namespaces_allowed() -> bool:
    """Whether this user may make namespaces here, found by making some."""
    plan = make_plan(Confinement(Path("/nonexistent")), namespaces=True)
    argv = [*launcher({**plan, "supervised": True, "restricted": False}), "true"]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0
