"""Where tasks are worked on and tested: the workspaces ``local``, ``checkout``, ``uv`` and ``swebench``, and the ``plain`` sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apex_framework.hookspecs import Add, ApexSpec, hookimpl

if TYPE_CHECKING:
    from apex_framework.interfaces import Sandbox, WorkspaceProvider


def _local(**options: Any) -> WorkspaceProvider:
    from .local import LocalWorkspaces

    return LocalWorkspaces(**options)


def _checkout(**options: Any) -> WorkspaceProvider:
    from .checkout import CheckoutWorkspaces

    return CheckoutWorkspaces(**options)


def _uv(**options: Any) -> WorkspaceProvider:
    from .uv import UvWorkspaces

    return UvWorkspaces(**options)


def _swebench(**options: Any) -> WorkspaceProvider:
    from .containers import ContainerWorkspaces

    return ContainerWorkspaces(**options)


def _plain(**options: Any) -> Sandbox:
    from .plain import PlainSandbox

    return PlainSandbox(**options)


class Plugin(ApexSpec):
    """Registers what this package brings."""

    @hookimpl
    def apex_workspaces(self, add: Add[WorkspaceProvider]) -> None:
        add("local", _local, summary="a private directory per task; tests run in forked processes")
        add("checkout", _checkout, summary="a repository at one commit; its own tests (pytest, unittest, command)")
        add("uv", _uv, summary="the same, with a Python environment per task: versions from 3.6, packages")
        add("swebench", _swebench, summary="a container's image per task; needs a Docker engine that answers")

    @hookimpl
    def apex_sandboxes(self, add: Add[Sandbox]) -> None:
        add("plain", _plain, summary="resource limits only; for code that is trusted not to be hostile")


plugin = Plugin()
