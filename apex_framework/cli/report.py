"""``apex report``: finished runs as something to read, every number made again from their files."""

from __future__ import annotations

from pathlib import Path

import click

from ..errors import RunFolderError
from ..ports import SystemFiles
from .checked import check_finished
from .context import Context


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=Path))
@click.option("--report", "name", default="table", show_default=True, metavar="NAME", help="Form: table, markdown.")
@click.option("--best-static", metavar="ARM", help="The static topology that was best on dev.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="A file instead of the terminal.")
@click.pass_obj
def report(context: Context, runs: tuple[Path, ...], name: str, best_static: str | None, out: Path | None) -> None:
    """Verdict, tables and limits of one or more run folders, in a form that a plugin brings.

    Several runs are read as one, which is refused when their suite digests differ. So is a finished run whose files are
    not those of its manifest.
    """
    for run in runs:
        check_finished(context, run)
    options = {} if best_static is None else {"best_static": best_static}
    text = context.plugins.catalog.make("report", name, **options).render(runs)
    if out is not None:
        try:
            if out.exists() and not out.is_file():  # a terminal or a pipe cannot be replaced
                out.write_text(text, encoding="utf-8")
            else:
                SystemFiles().replace(out.resolve(), text.encode())
        except OSError as error:
            raise RunFolderError(f"cannot write {out}: {error.strerror}", "choose another --out") from error
    value = {"report": name, "runs": [str(run) for run in runs], "out": out and str(out), "text": text}
    context.emit(value, text.rstrip() if out is None else f"{out}: report {name!r} of {len(runs)} run(s)")
