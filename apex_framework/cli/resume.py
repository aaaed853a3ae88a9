"""``apex resume``: go on with an interrupted run."""

from __future__ import annotations

from pathlib import Path

import click

from .context import Context


@click.command()
@click.argument("path", metavar="[RUN]", required=False, type=click.Path(path_type=Path))
@click.option("--workers", type=int, default=2, show_default=True, help="Processes that run episodes.")
@click.option(
    "--retry-failed", is_flag=True, help="Also run again what failed for infrastructure, in a finished RUN too."
)
@click.pass_obj
def resume(context: Context, /, path: Path | None, workers: int, retry_failed: bool) -> int:
    """Go on with an interrupted run: the latest under runs/, or RUN. Finished episodes are not run again.

    Refused when the suite, the policies, the plugins or their versions are not those that the run was begun with.
    """
    from ..experiment.resume import latest_unfinished, reopen_same
    from .running import carry_out

    folder = reopen_same(path or latest_unfinished(), context.plugins, retry_failed=retry_failed)
    return carry_out(context, folder, workers)
