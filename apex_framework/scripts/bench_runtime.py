"""``python -m apex_framework.scripts.bench_runtime --out artifacts``: what the runtime's own work costs.

Writes ``switch_bench.jsonl`` (latency of a switch by phase, memory), ``overhead.jsonl`` (the epoch check in nanoseconds,
throughput with gating on and off, CPU per message) and ``controller_latency.jsonl`` (decisions) into the folder.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import click

from .. import benches
from ..cli.bench import MANY, Artifact, measure
from ..cli.context import Context

ARTIFACTS = {
    "switch_bench.jsonl": ("switch",),
    "overhead.jsonl": ("epoch", "overhead"),
    "controller_latency.jsonl": ("decision",),
}
"""File -> benches whose rows it holds."""
PARTS = tuple(name for names in ARTIFACTS.values() for name in names)


@click.command()
@click.option("--out", default="artifacts", show_default=True, type=click.Path(path_type=Path, file_okay=False))
@click.option("--only", multiple=True, type=click.Choice(PARTS), help="Measure this part only; may be given again.")
@click.option("-n", type=MANY, help="Repetitions instead of each part's own number.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Seed, where a part is seeded.")
@click.option("--json", "as_json", is_flag=True, help="Rows as JSON on stdout.")
@click.pass_obj
def main(context: Context, /, out: Path, only: tuple[str, ...], n: int | None, seed: int, as_json: bool) -> None:
    """Switch latency and memory, the epoch check, gating on against off, CPU per message, decisions."""
    context.json = context.json or as_json
    for file, names in ARTIFACTS.items():
        wanted = [name for name in names if not only or name in only]
        if not wanted:
            continue
        with Artifact(out, file) as artifact:
            for name in wanted:
                if name not in benches.names():
                    context.say(f"bench {name} is not there")
                    continue
                for row in measure(context, name, SimpleNamespace(n=n, seed=seed, say=context.say)):
                    artifact.write(row)


if __name__ == "__main__":
    from ..cli.boundary import run

    sys.exit(run(sys.argv[1:], main, "bench_runtime"))
