"""For authors of plugins: one conformance kit per kind, each called in one line from a test.

``check_<kind>(make)`` runs every check on fresh objects from ``make`` and raises ConformanceError, which names the
check. ``broken.<kind>.BROKEN`` holds for each check an object that fails exactly that one.

``simulate`` puts a lane, a topology or a transport under the whole runtime, with faults, in virtual time;
``cancel_everywhere`` cancels a coroutine at each of its awaits; ``SimulatedDisk`` is a disk that crashes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .conformance import ConformanceError, run_checks

if TYPE_CHECKING:
    from .budget import check_budget_scope
    from .chaos import cancel_everywhere
    from .command import check_command
    from .controller import check_controller
    from .disk import SimulatedDisk
    from .executor import check_executor
    from .exporter import check_exporter
    from .interceptor import check_interceptor
    from .lane import check_lane
    from .llm import check_llm_backend
    from .outcome import Outcome
    from .policy import check_policy
    from .report import check_report
    from .sandbox import check_sandbox
    from .simulation import simulate
    from .store import check_store
    from .suite import check_suite
    from .team import check_team
    from .tool import check_tool
    from .topology import check_topology
    from .transport import check_transport
    from .virtual_time import interleavings
    from .workspace import check_workspace

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
    "Outcome": "outcome",
    "SimulatedDisk": "disk",
    "cancel_everywhere": "chaos",
    "interleavings": "virtual_time",
    "simulate": "simulation",
}
"""Name -> its module, imported when it is first asked for."""

__all__ = [
    "ConformanceError",
    "Outcome",
    "SimulatedDisk",
    "cancel_everywhere",
    "check_budget_scope",
    "check_command",
    "check_controller",
    "check_executor",
    "check_exporter",
    "check_interceptor",
    "check_lane",
    "check_llm_backend",
    "check_policy",
    "check_report",
    "check_sandbox",
    "check_store",
    "check_suite",
    "check_team",
    "check_tool",
    "check_topology",
    "check_transport",
    "check_workspace",
    "interleavings",
    "run_checks",
    "simulate",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _KITS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_KITS[name]}"), name)
