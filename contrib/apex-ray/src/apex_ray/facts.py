"""What a process is and sees: read here and on every node, and compared before an episode is run there."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import uuid
from collections.abc import Mapping

GROUP = "apex_framework"

Seen = tuple[str, int, int]
"""A file as it is seen from a process: machine, device, inode. Equal only for one and the same file of one machine."""


def versions() -> dict[str, str]:
    """Python and every distribution that takes part: APEX, and those that bring it a plugin."""
    found = {
        point.dist.metadata["Name"]: point.dist.version
        for point in importlib.metadata.entry_points(group=GROUP)
        if point.dist is not None
    }
    return {"Python": platform.python_version(), **dict(sorted(found.items()))}


def difference(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    """The first thing that is not the same, in words; empty when all is."""
    for name in [*ours, *sorted(theirs.keys() - ours.keys())]:
        if ours.get(name) != theirs.get(name):
            return f"has {name} {theirs.get(name, '(none)')}, this machine {ours.get(name, '(none)')}"
    return ""


def machine() -> str:
    """A name of the running kernel: two processes have the same one only when they share its memory and locks."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return f"{platform.node()}-{uuid.getnode()}"


def seen(path: str) -> Seen | None:
    """A file as this process sees it; None when it does not."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return machine(), status.st_dev, status.st_ino
