"""The ``checkout`` provider: a repository at one commit, without the commits after it, and its own tests in a sandbox."""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from pathlib import Path

from apex_framework.errors import WorkspaceError
from apex_framework.interfaces import Sandbox, Task

from . import state
from .bases import Bases
from .plain import PlainSandbox
from .recipe import Recipe, recipe_of
from .running import Interpreter
from .scratch import Scratch
from .workspace import CheckoutWorkspace

_KEPT = 8
"""Lists of tests that are kept."""


class CheckoutWorkspaces:
    """Makes workspaces of ``task.repo`` (a folder, or with ``network`` an https address) at ``task.base_commit``.

    ``task.files`` come on top. How tests are run is in ``task.run``, see ``Recipe``. Workspaces lie below one scratch folder,
    which vanishes at ``close`` or after this process.
    """

    own_python = False
    """Whether a task may ask for an interpreter or packages."""

    def __init__(self, *, sandbox: Sandbox | None = None, network: bool = False) -> None:
        self._place = Scratch()
        self._scratch = self._place.path
        self.sandbox = sandbox or PlainSandbox()
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self.bases = Bases(self.folder, network=network)
        self._found: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        self._closed = False

    def create(self, task: Task) -> CheckoutWorkspace:
        """A folder with the repository's files.

        Raises WorkspaceError, and leaves nothing: for what is no repository or has no such commit, for submodules and
        for stand-ins of large files (which would not be there), for a wrong ``task.run``.
        """
        recipe = recipe_of(task)
        if not self.own_python and (recipe.packages or recipe.pre_install or recipe.python or recipe.site):
            raise WorkspaceError(
                f"task {task.id} wants a Python environment of its own (python, packages, pre_install, site)",
                "use the workspaces 'uv'",
            )
        base = self.bases.state_of(task, recipe)
        interpreter = self.interpreter(task, recipe, base)
        return CheckoutWorkspace(self, task, recipe, interpreter, base, base)

    def close(self) -> None:
        """Remove every workspace; idempotent."""
        self._closed = True
        self._place.remove()

    def interpreter(self, task: Task, recipe: Recipe, base: state.State) -> Interpreter:
        """What runs the tests of a task. Raises WorkspaceError."""
        return Interpreter()

    def folder(self) -> Path:
        """A fresh folder. Raises WorkspaceError when the provider is closed."""
        if self._closed:
            raise WorkspaceError("the provider is closed")
        made = self._scratch / f"w{next(self._numbers)}"
        made.mkdir()
        return made

    def found(self, key: str) -> tuple[str, ...] | None:
        """Tests that were found for this content, if they are known."""
        with self._lock:
            return self._found.get(key)

    def keep_found(self, key: str, tests: tuple[str, ...]) -> None:
        """Know them from now on."""
        with self._lock:
            self._found[key] = tests
            while len(self._found) > _KEPT:
                self._found.popitem(last=False)
