"""The ``bwrap`` sandbox: bubblewrap's namespaces and mounts around the filter of system calls and Landlock."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from typing import Any

from apex_framework.errors import SandboxError
from apex_framework.interfaces.sandbox import Confinement, Level, SandboxStatus

from .inside import landlock
from .landlocked import LandlockSandbox
from .plan import HERE, SHARED_MEMORY, launcher, make_plan
from .probing import probed

_USUAL = "/usr/bin/bwrap"
"""Preferred: security policies of systems know it by this path."""


class BwrapSandbox:
    """Only what is named exists inside; everything else is not there, rather than forbidden.

    ``program`` is bubblewrap's path. Programs that cannot be started through it, those that run already, are confined as by
    ``landlock``, which a kernel without Landlock cannot do.
    """

    name = "bwrap"

    def __init__(self, *, program: str | None = None) -> None:
        found = program or (_USUAL if os.access(_USUAL, os.X_OK) else shutil.which("bwrap"))
        if found is None:
            raise SandboxError("sandbox bwrap needs bubblewrap, which is not installed", "apt install bubblewrap")
        self._program = found
        self._within = LandlockSandbox()

    def wrap(self, argv: Sequence[str], limits: Confinement) -> list[str]:
        """The command behind a supervisor, bubblewrap and a small launcher."""
        plan = self._plan(limits)
        outer = {**plan, "namespaces": False, "supervised": True, "restricted": False}
        inner = {**plan, "landlock": landlock.version() > 0, "namespaces": True, "supervised": False}
        return [*launcher(outer), self._program, *self._options(plan), "--", *launcher(inner), *argv]

    def enter(self, limits: Confinement) -> None:
        """Confine the calling process as ``landlock`` does. Raises OSError."""
        self._within.enter(limits)

    def probe(self) -> SandboxStatus:
        """What it achieves here, found by making the attempts once; a few seconds the first time."""
        return probed(self, Level.NAMESPACES)

    def _plan(self, limits: Confinement) -> dict[str, Any]:
        plan = make_plan(limits, namespaces=True)
        return {**plan, "private": [SHARED_MEMORY, "/tmp"], "readable": [*plan["readable"], "/proc"]}

    def _options(self, plan: dict[str, Any]) -> list[str]:
        options = ["--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
        options += ["--share-net"] if plan["network"] else []
        size = str(plan["shared_memory"])
        options += ["--dev", "/dev", "--size", size, "--tmpfs", SHARED_MEMORY, "--size", size, "--tmpfs", "/tmp"]
        options += ["--proc", "/proc"]
        for path in (*plan["readable"], HERE):
            if not path.startswith("/proc"):
                options += ["--ro-bind-try", path, path]
        for path in plan["writable"]:
            options += ["--bind", path, path]
        return [*options, "--chdir", plan["writable"][0]]
