"""What a run tries of its sandbox itself, whatever that says of what it achieves."""

from __future__ import annotations

import dataclasses
import functools

from ..catalog import Catalog
from ..episode.confining import PLAIN, Confining
from ..errors import SandboxError
from ..interfaces import Level, Sandbox


def tried(confining: Confining, catalog: Catalog) -> Confining:
    """The same with the attempts that were made. Raises SandboxError when one of them got out, or none could be made.

    They are few and quick, on canaries, once per process; ``apex doctor --security`` makes all. The plain sandbox is left
    out: it says that it holds nothing, and workspaces bring their own.
    """
    if confining.name == PLAIN or confining.status.level is Level.NONE:
        return confining
    return dataclasses.replace(confining, tried=_stopped(catalog, confining.name, confining.status.level))


@functools.lru_cache(maxsize=16)
def _stopped(catalog: Catalog, name: str, level: Level) -> tuple[str, ...]:
    from ..scripts.sandbox_probes import tried_briefly

    sandbox: Sandbox = catalog.make("sandbox", name)
    attempts = tried_briefly(sandbox, level)
    if out := [attempt.name for attempt in attempts if attempt.out]:
        raise SandboxError(
            f"sandbox {name} says that it achieves {level.name} here, and lets out: {', '.join(out)}",
            "take another one with --sandbox, or block its plugin with -p no:NAME; apex doctor --security tries them all",
        )
    return tuple(attempt.name for attempt in attempts)
