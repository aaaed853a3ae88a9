"""``python -m apex_framework.scripts.pick_best_static --star S.jsonl --chain C.jsonl --flat F.jsonl --out BEST.jsonl``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ..cli.context import Context
from ..cli.whole import write_whole
from ..errors import NotComparableError


@click.command()
@click.option("--star", required=True, type=click.Path(path_type=Path), help="Episodes of static star.")
@click.option("--chain", required=True, type=click.Path(path_type=Path), help="Episodes of static chain.")
@click.option("--flat", required=True, type=click.Path(path_type=Path), help="Episodes of static flat.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Where the best one's lines are copied.")
@click.pass_obj
def main(context: Context, /, star: Path, chain: Path, flat: Path, out: Path) -> None:
    """Copy the episodes of the static topology that solved most tasks; on a tie the first of star, chain, flat.

    Choose on dev and report on test: picking the best of three equal topologies on the very data that is reported
    makes it look better than it is (by about 3 points with 100 tasks, 1.5 with 300).
    """
    from ..analysis import read_episodes, require_one_digest, summarize_arm

    found = {name: read_episodes(path) for name, path in (("star", star), ("chain", chain), ("flat", flat))}
    require_one_digest(row for rows in found.values() for row in rows)
    keys = {name: {(row.task_id, row.seed) for row in rows} for name, rows in found.items()}
    if not keys["star"] == keys["chain"] == keys["flat"] != set():
        raise NotComparableError("the three files hold other tasks or seeds", "run all three on the same ones")
    success = {}
    for name, rows in found.items():
        arms = sorted({row.arm for row in rows})
        if len(arms) != 1:
            raise NotComparableError(f"--{name} holds the arms {', '.join(arms)}", "one file per arm")
        success[name] = summarize_arm(rows, arms[0]).success
    best = max(success, key=lambda name: success[name])
    write_whole(out, {"star": star, "chain": chain, "flat": flat}[best].read_text(encoding="utf-8"), make_folder=True)
    context.say("warning: valid only as a choice made on dev and reported on other tasks")
    shares = ", ".join(f"{name} {100 * share:.1f} %" for name, share in success.items())
    context.emit({"best": best, "success": success, "out": str(out)}, f"{best} ({shares})")


if __name__ == "__main__":
    from ..cli.boundary import run

    sys.exit(run(sys.argv[1:], main, "pick_best_static"))
