"""Every hook of APEX. A plugin subclasses ``ApexSpec`` and marks what it implements with ``hookimpl``.

All registering hooks have one shape: the host passes ``add``, the plugin calls
``add(name, factory, summary="...", requires="extra")`` for each thing it brings. Factories take
keyword options, return the object, and do their heavy imports when called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pluggy

if TYPE_CHECKING:
    import click

    from .events import CallDenied, DecisionTaken, EpisodeFinished, EpisodeStarted, RunFinished, SwitchFinished
    from .interfaces import (
        BlobStore,
        BudgetScope,
        Controller,
        Executor,
        Exporter,
        Interceptor,
        LaneDiscipline,
        LLMBackend,
        Policy,
        Report,
        Sandbox,
        TaskSuite,
        Team,
        ToolServer,
        Topology,
        Transport,
        WorkspaceProvider,
    )

PROJECT = "apex_framework"
"""Name of the entry-point group and of the hook project."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

T_contra = TypeVar("T_contra", contravariant=True)


class Add(Protocol[T_contra]):
    """Registers one named factory."""

    def __call__(
        self, name: str, factory: Callable[..., T_contra], *, summary: str = "", requires: str = ""
    ) -> None: ...


class ApexSpec:
    """The hooks. Registering ones first, observers last; all synchronous."""

    @hookspec
    def apex_topologies(self, add: Add[Topology]) -> None:
        """Shapes of communication."""

    @hookspec
    def apex_controllers(self, add: Add[Controller]) -> None:
        """Choosers of topologies."""

    @hookspec
    def apex_budget_scopes(self, add: Add[BudgetScope]) -> None:
        """Ceilings on tokens and time."""

    @hookspec
    def apex_llm_backends(self, add: Add[LLMBackend]) -> None:
        """Sources of answers."""

    @hookspec
    def apex_tools(self, add: Add[ToolServer]) -> None:
        """Groups of functions for agents."""

    @hookspec
    def apex_transports(self, add: Add[Transport]) -> None:
        """Ways across an edge."""

    @hookspec
    def apex_policies(self, add: Add[Policy]) -> None:
        """Rules that may deny."""

    @hookspec
    def apex_interceptors(self, add: Add[Interceptor]) -> None:
        """Advice around messages and calls."""

    @hookspec
    def apex_stores(self, add: Add[BlobStore]) -> None:
        """Places for large blobs."""

    @hookspec
    def apex_lanes(self, add: Add[LaneDiscipline]) -> None:
        """Orders of service."""

    @hookspec
    def apex_teams(self, add: Add[Team]) -> None:
        """Rosters of agents."""

    @hookspec
    def apex_suites(self, add: Add[TaskSuite]) -> None:
        """Sets of tasks."""

    @hookspec
    def apex_workspaces(self, add: Add[WorkspaceProvider]) -> None:
        """Places where tasks are worked on."""

    @hookspec
    def apex_sandboxes(self, add: Add[Sandbox]) -> None:
        """Confinements of task code."""

    @hookspec
    def apex_executors(self, add: Add[Executor]) -> None:
        """Machines for episodes."""

    @hookspec
    def apex_exporters(self, add: Add[Exporter]) -> None:
        """Ways out for events and metrics."""

    @hookspec
    def apex_reports(self, add: Add[Report]) -> None:
        """Readable forms of runs."""

    @hookspec
    def apex_commands(self, add: Add[click.Command]) -> None:
        """Commands of the ``apex`` program; the factory returns a click command."""

    @hookspec
    def apex_on_episode_started(self, event: EpisodeStarted) -> None:
        """An episode begins."""

    @hookspec
    def apex_on_episode_finished(self, event: EpisodeFinished) -> None:
        """An episode ended."""

    @hookspec
    def apex_on_decision(self, event: DecisionTaken) -> None:
        """A controller decided."""

    @hookspec
    def apex_on_switch(self, event: SwitchFinished) -> None:
        """A switch was committed or aborted."""

    @hookspec
    def apex_on_denied(self, event: CallDenied) -> None:
        """A call was refused."""

    @hookspec
    def apex_on_run_finished(self, event: RunFinished) -> None:
        """All episodes of a run are done."""


KINDS: dict[str, str] = {
    "topology": "apex_topologies",
    "controller": "apex_controllers",
    "budget_scope": "apex_budget_scopes",
    "llm_backend": "apex_llm_backends",
    "tool": "apex_tools",
    "transport": "apex_transports",
    "policy": "apex_policies",
    "interceptor": "apex_interceptors",
    "store": "apex_stores",
    "lane": "apex_lanes",
    "team": "apex_teams",
    "suite": "apex_suites",
    "workspace": "apex_workspaces",
    "sandbox": "apex_sandboxes",
    "executor": "apex_executors",
    "exporter": "apex_exporters",
    "report": "apex_reports",
    "command": "apex_commands",
}
"""Kind of plugin -> the hook that registers it."""

Factory = Callable[..., Any]
"""Makes the registered object from keyword options."""
