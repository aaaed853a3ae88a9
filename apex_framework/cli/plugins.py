"""``apex plugins``: what is installed, who brought it, whether it works, and what it costs to load."""

from __future__ import annotations

import click

from ..catalog import Entry
from ..plugins import PluginRecord, Plugins
from .context import Context

COLUMNS = ("kind", "name", "plugin", "package", "version", "status", "load_ms", "summary")


@click.command()
@click.argument("kind", required=False)
@click.pass_obj
def plugins(context: Context, kind: str | None) -> None:
    """List plugins: what they bring, their status and load time.

    KIND is a kind of plugin, such as topology; without it all kinds are listed. A plugin that is BROKEN or blocked
    has a line of its own, with the cause.
    """
    loaded = context.load_plugins()
    if kind is not None:
        kind = kind.replace("-", "_")
        loaded.catalog.names(kind)  # an unknown kind is an error
    rows = table(loaded, kind)
    context.emit(rows, _text(rows))


def table(loaded: Plugins, kind: str | None = None) -> list[dict[str, object]]:
    """One row per registered name, and one per plugin that brings nothing or was left out."""
    records = {record.name: record for record in loaded.report.plugins}
    rows = [_row(entry, records[entry.owner.plugin]) for entry in loaded.catalog.entries(kind)]
    rows += [
        {
            "kind": "",
            "name": "",
            "plugin": r.name,
            "package": r.distribution,
            "version": r.version,
            "status": r.status,
            "load_ms": round(r.load_ms, 2),
            "summary": r.error,
        }
        for r in loaded.report.plugins
        if not r.provides and (kind is None or r.status != "ok")
    ]
    return rows


def _row(entry: Entry, record: PluginRecord) -> dict[str, object]:
    return {
        "kind": entry.kind,
        "name": entry.name,
        "plugin": record.name,
        "package": record.distribution,
        "version": record.version,
        "status": entry.status,
        "load_ms": round(record.load_ms, 2),
        "summary": entry.summary,
    }


def _text(rows: list[dict[str, object]]) -> str:
    cells = [COLUMNS, *(tuple(str(row[c]) for c in COLUMNS) for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(COLUMNS))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in cells)
