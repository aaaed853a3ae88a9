"""Confines this process as its first argument says, then becomes the program that the others name.

Ends with status 78 and one line when it cannot confine: the program is not run then.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from . import kernel, landlock, limits, mounts, namespaces, seccomp, supervise

CANNOT = 78
"""Exit status of a launcher that could not confine (EX_CONFIG)."""


def separate(plan: Mapping[str, Any], *, processes: bool) -> None:
    """Leave the namespaces that the plan says; of processes for children only. Raises OSError."""
    if plan["namespaces"]:
        namespaces.separate(network=bool(plan["network"]) or not plan["own_network"], processes=processes)
        mounts.read_only_but(plan["writable"], plan["readable"], plan["shared_memory"])


def restrict(plan: Mapping[str, Any]) -> None:
    """What holds for the calling process and all that it starts, for good. Raises OSError.

    ``plan``: ``readable``, ``writable``, ``devices``, ``private`` (paths; the last are nobody else's), ``network``, ``limits``, whether ``namespaces`` with an
    ``own_network`` are there, whether to use ``landlock`` and ``seccomp``.
    """
    kernel.no_new_privileges()
    limits.apply(plan["limits"])
    network = bool(plan["network"])
    alone = bool(plan["namespaces"]) and bool(plan["own_network"])
    if plan["landlock"]:
        # In a network of its own, programs may speak to themselves.
        changeable = [*plan["writable"], *plan["private"]]
        landlock.restrict(plan["readable"], changeable, plan["devices"], network=network or alone)
    kernel.drop_capabilities()
    if plan["seccomp"]:
        seccomp.restrict(sockets=network or alone, attributes=bool(plan["namespaces"]))


def confine(plan: Mapping[str, Any], *, own_tree: bool) -> None:
    """Confine the calling process. With ``own_tree`` it returns in a child, and the caller ends as that ends. Raises OSError."""
    kernel.no_new_privileges()
    separate(plan, processes=own_tree)
    if own_tree:
        namespaces.in_own_tree()
    restrict(plan)


def main() -> None:
    """``launch PLAN PROGRAM ARGUMENT...``: the plan in JSON."""
    try:
        plan = json.loads(sys.argv[1])
        if plan["supervised"]:
            separate(plan, processes=True)
            supervise.supervise(plan["limits"], own_tree=bool(plan["namespaces"]))
        if plan["restricted"]:
            restrict(plan)
    except (OSError, ValueError, TypeError, KeyError) as error:
        _end(CANNOT, f"cannot confine: {error}")
    try:
        os.execvp(sys.argv[2], sys.argv[2:])
    except OSError as error:
        _end(127, f"cannot run {sys.argv[2]}: {error}")


def _end(status: int, line: str) -> None:
    sys.stderr.write(f"apex: {line}\n")
    sys.stderr.flush()
    os._exit(status)
