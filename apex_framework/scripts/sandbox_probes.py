"""``python -m apex_framework.scripts.sandbox_probes NAME``: make every attempt to get out of a sandbox, a line each.

Exit status 0 when all were stopped, else 5.
"""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import click

from ..cli.context import Context
from ..errors import SandboxError
from ..interfaces import Level, Sandbox
from ..testing.probes import HOLDING, LIMITING, Attempt, how_many, run_probes, run_some

OUT = 5
"""Exit status when an attempt got out: a gate that is not passed."""


@click.command()
@click.argument("name")
@click.option("--enter", is_flag=True, help="In a process that was confined while it ran, not in a wrapped command.")
@click.pass_obj
def probes(context: Context, /, name: str, enter: bool) -> int:
    """Try the sandbox NAME. Everything is tried on canaries; takes seconds."""
    attempts = tried(context.plugins.catalog.make("sandbox", name), entered=enter)
    lines = [f"{'OUT ' if a.out else 'held'}  {a.name:<28}  {a.seen}" for a in attempts]
    held = sum(not a.out for a in attempts)
    lines.append(f"{held} of {len(attempts)} attempts were stopped")
    context.emit([dataclasses.asdict(a) for a in attempts], "\n".join(lines))
    return 0 if held == len(attempts) else OUT


def tried(sandbox: Sandbox, *, entered: bool = False) -> tuple[Attempt, ...]:
    """What came of every attempt. Raises SandboxError when it refuses to confine."""
    attempts = run_probes(sandbox, entered=entered)
    if not attempts:
        raise SandboxError(f"sandbox {sandbox.name} cannot confine anything here", "see: apex doctor --security")
    return attempts


def tried_briefly(sandbox: Sandbox, level: Level) -> tuple[Attempt, ...]:
    """What came of the quickest of the attempts that a sandbox of this level stops; for a run, which has no seconds for all.

    Raises SandboxError when nothing runs in it.
    """
    names = {Level.NONE: (), Level.RLIMITS: LIMITING}.get(level, HOLDING + LIMITING)
    try:
        attempts = run_some(sandbox, names) if names else ()
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise SandboxError(f"sandbox {sandbox.name} cannot be tried: {error}", "see: apex doctor --security") from error
    if names and not attempts:
        raise SandboxError(f"sandbox {sandbox.name}: nothing runs in it here", "see: apex doctor --security")
    return attempts


def in_all() -> int:
    """How many attempts there are."""
    return how_many()


if __name__ == "__main__":
    from ..cli.boundary import run

    sys.exit(run(sys.argv[1:], probes, "sandbox_probes"))
