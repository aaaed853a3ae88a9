"""Built-in reports: ``table`` for terminals, ``markdown`` for files, ``html`` for a page with figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apex_framework.hookspecs import ApexSpec, hookimpl

if TYPE_CHECKING:
    from apex_framework.hookspecs import Add
    from apex_framework.interfaces import Report

__all__ = ["Plugin", "plugin"]


def _table(**options: Any) -> Report:
    from .table import Table

    return Table(**options)


def _markdown(**options: Any) -> Report:
    from .markdown import Markdown

    return Markdown(**options)


def _html(**options: Any) -> Report:
    from .html import Html

    return Html(**options)


class Plugin(ApexSpec):
    """Registers the reports."""

    @hookimpl
    def apex_reports(self, add: Add[Report]) -> None:
        """All say the same; the page says more."""
        add("table", _table, summary="verdict and tables as plain text")
        add("markdown", _markdown, summary="verdict and tables as Markdown")
        add("html", _html, summary="one page with figures, timelines and checks")


plugin = Plugin()
