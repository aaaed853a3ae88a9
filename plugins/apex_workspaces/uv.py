"""The ``uv`` provider: checkouts whose tests run in a Python environment of the task's own."""

from __future__ import annotations

from pathlib import Path

from apex_framework.errors import EnvironmentProblem, WorkspaceError
from apex_framework.interfaces import Sandbox, Task

from . import state
from .checkout import CheckoutWorkspaces
from .environments import Environments
from .recipe import Recipe
from .running import Interpreter


class UvWorkspaces(CheckoutWorkspaces):
    """``cache`` holds the environments; by default a folder of the user's cache, which may be deleted at any time."""

    own_python = True

    def __init__(self, *, sandbox: Sandbox | None = None, network: bool = False, cache: Path | None = None) -> None:
        super().__init__(sandbox=sandbox, network=network)
        if cache is None:
            from platformdirs import user_cache_path

            cache = user_cache_path("apex-framework") / "environments"
        self._environments = Environments(cache, sandbox=self.sandbox)

    def interpreter(self, task: Task, recipe: Recipe, base: state.State) -> Interpreter:
        """The Python of the task's environment. Raises WorkspaceError or EnvironmentProblem."""
        try:
            return self._environments.get(recipe, base)
        except (WorkspaceError, EnvironmentProblem) as error:
            raise type(error)(f"task {task.id}: {error.cause}", error.remedy) from error
