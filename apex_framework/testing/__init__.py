"""For authors of plugins: one conformance kit per kind, each called in one line from a test.

``check_<kind>(make)`` runs every check on fresh objects from ``make`` and raises ConformanceError, which names the
check. ``broken.<kind>.BROKEN`` holds for each check an object that fails exactly that one.
"""

from __future__ import annotations

from typing import Any

from .conformance import ConformanceError, run_checks

_KITS: dict[str, str] = {
    "check_budget_scope": "budget",
    "check_command": "command",
    "check_controller": "controller",
    "check_executor": "executor",
    "check_exporter": "exporter",
    "check_interceptor": "interceptor",
    "check_lane": "lane",
    "check_llm_backend": "llm",
    "check_policy": "policy",
    "check_report": "report",
    "check_sandbox": "sandbox",
    "check_store": "store",
    "check_suite": "suite",
    "check_team": "team",
    "check_tool": "tool",
    "check_topology": "topology",
    "check_transport": "transport",
    "check_workspace": "workspace",
}
"""Kit -> its module, imported when it is first asked for."""

__all__ = ["ConformanceError", "run_checks", *_KITS]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _KITS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_KITS[name]}"), name)
