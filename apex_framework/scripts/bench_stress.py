"""``python -m apex_framework.scripts.bench_stress --out artifacts``: bench ``stress`` as a script.

Writes into the folder: ``stress.jsonl`` (every row), ``drop_hist.jsonl`` (drops by reason), and
``switch_pre_off.jsonl`` and ``switch_pre_on.jsonl`` (without and with pre-validation).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import click

from ..benches.stress import PRE_OFF, PRE_ON
from ..cli.bench import MANY, Artifact, measure, name_of, seconds_of
from ..cli.context import Context

FILES: dict[str, Callable[[Mapping[str, object]], bool]] = {
    "stress": lambda row: True,
    "drop_hist": lambda row: str(row["metric"]).startswith("drops: "),
    "switch_pre_off": lambda row: row["contender"] == PRE_OFF,
    "switch_pre_on": lambda row: str(row["contender"]).startswith(PRE_ON),
}
"""Artifact -> whether a row belongs into it."""


@click.command()
@click.option("--out", default="artifacts", show_default=True, type=click.Path(path_type=Path, file_okay=False))
@click.option("--profile", default="S", show_default=True, callback=name_of, help="The load: N (normal) or S (stress).")
@click.option("--seeds", type=MANY, help="Trials per contender (20; 10 where something is left out).")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="The first of them.")
@click.option(
    "--seconds", type=float, callback=seconds_of, help="Time of offering, 0.1 or more, instead of the profile's."
)
@click.option("--json", "as_json", is_flag=True, help="Rows as JSON on stdout.")
@click.pass_obj
def main(
    context: Context,
    /,
    out: Path,
    profile: str,
    seeds: int | None,
    seed: int,
    seconds: float | None,
    as_json: bool,
) -> None:
    """What is lost when a team is offered more than some of it can handle."""
    context.json = context.json or as_json
    args = SimpleNamespace(profile=profile, profile_file=None, seeds=seeds, seed=seed, seconds=seconds)
    with ExitStack() as stack:
        files = [(stack.enter_context(Artifact(out, f"{name}.jsonl")), belongs) for name, belongs in FILES.items()]
        for row in measure(context, "stress", args):
            for file, belongs in files:
                if belongs(row):
                    file.write(row)


if __name__ == "__main__":
    from ..cli.boundary import run

    sys.exit(run(sys.argv[1:], main, "bench_stress"))
