"""``apex resume``: go on with an interrupted run."""

from __future__ import annotations

from pathlib import Path

import click

from .context import Context


@click.command()
@click.argument("path", metavar="[RUN]", required=False, type=click.Path(path_type=Path))
@click.option("--workers", type=int, default=2, show_default=True, help="Processes that run episodes.")
@click.option("--executor", default="", metavar="NAME[:OPTIONS]", help="Where episodes are run; by default as before.")
@click.option("--report/--no-report", "page", default=True, help="Also write the report as an HTML page (default).")
@click.option(
    "--retry-failed", is_flag=True, help="Also run again what failed for infrastructure, in a finished RUN too."
)
@click.option("--data", type=click.Path(path_type=Path), help="Where the file of the suite's tasks lies now.")
@click.option("--repos", type=click.Path(path_type=Path), help="Where the folder of its repositories lies now.")
@click.option("--run-budget", type=int, metavar="TOKENS", help="Raise the ceiling of the whole run.")
@click.option("--day-budget", type=int, metavar="TOKENS", help="Raise the ceiling of a day for the rest of this run.")
@click.pass_obj
def resume(
    context: Context,
    /,
    path: Path | None,
    workers: int,
    executor: str,
    page: bool,
    retry_failed: bool,
    data: Path | None,
    repos: Path | None,
    run_budget: int | None,
    day_budget: int | None,
) -> int:
    """Go on with an interrupted run: the latest under runs/, or RUN. Finished episodes are not run again.

    Refused when the suite, the policies, the plugins or their versions are not those that the run was begun with.
    """
    from ..experiment.resume import latest_unfinished, reopen_same
    from .running import carry_out

    folder = reopen_same(
        path or latest_unfinished(),
        context.plugins,
        retry_failed=retry_failed,
        run_budget=run_budget,
        day_budget=day_budget,
        places={n: str(place.absolute()) for n, place in (("data", data), ("repos", repos)) if place is not None},
    )
    return carry_out(context, folder, workers, executor, page=page)
