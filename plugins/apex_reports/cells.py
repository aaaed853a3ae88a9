"""Cells and tables, before they have a form."""

from __future__ import annotations

from dataclasses import dataclass

from apex_framework.analysis import Answer, ArmRole

from .plain import plain

UNTOLD = "—"
"""A number that nobody told."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table; all cells are text, the first column names the row."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def percent(value: float) -> str:
    """A share as a percentage."""
    return f"{100 * value:.1f} %"


def number(value: float | None, form: str) -> str:
    """Formatted, or UNTOLD."""
    return UNTOLD if value is None else form.format(value)


def counted(count: int, what: str) -> str:
    """``1 task``, ``1,200 tasks``."""
    return f"{count:,} {what}{'s' * (count != 1)}"


def recorded(answer: Answer) -> bool:
    """Whether the arms are systems that ran elsewhere: nothing is known of them but what their verdicts tell."""
    return any(role is ArmRole.RECORDED for role in answer.roles.values())


def told(table: Table) -> Table:
    """The table without the columns in which every cell is UNTOLD, and without the notes that explain only such columns."""
    kept = [i for i, _ in enumerate(table.head) if not table.rows or any(row[i] != UNTOLD for row in table.rows)]
    rows = tuple(tuple(row[i] for i in kept) for row in table.rows)
    return Table(table.title, tuple(table.head[i] for i in kept), rows, table.notes)


def plainly(table: Table) -> Table:
    """The table with every text ``plain``."""
    rows = tuple(tuple(plain(cell) for cell in row) for row in table.rows)
    return Table(
        plain(table.title),
        tuple(plain(cell) for cell in table.head),
        rows,
        tuple(plain(note, 2_000) for note in table.notes),
    )
