"""The ``swebench`` provider: tasks whose repository and environment are in a container's image, run by a Docker engine."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, Final

from apex_framework.errors import WorkspaceError
from apex_framework.interfaces import Sandbox, Task

from . import docker, removing, state
from .checkout import CheckoutWorkspaces
from .recipe import Recipe, recipe_of
from .running import Interpreter, Place
from .workspace import CheckoutWorkspace

TESTBED: Final = "/testbed"
_OURS: Final = ("image", "testbed")


class ContainerWorkspaces(CheckoutWorkspaces):
    """Workspaces with the files that ``task.run["image"]`` has below ``/testbed`` (or ``task.run["testbed"]``).

    They are folders of this machine, with savepoints like those of a checkout; every run mounts a copy in a container of its own,
    without a network. The container is the boundary: a ``sandbox`` is not used. Images are never fetched.
    """

    own_python = True

    def __init__(self, *, sandbox: Sandbox | None = None, program: str = "docker") -> None:
        self.engine = docker.Engine(program)
        self.engine.check()
        super().__init__(sandbox=sandbox)
        self.engine.sweep()

    @property
    def held(self) -> Path:
        """The folder whose lock says that this host lives."""
        return self._scratch

    def create(self, task: Task) -> ContainerWorkspace:
        """A folder with the image's files and the task's; without ``.git``, which may know what came later.

        Raises WorkspaceError, and leaves nothing.
        """
        image, testbed = (_text(task, name, default) for name, default in zip(_OURS, ("", TESTBED), strict=True))
        if not image or image.startswith("-"):
            raise WorkspaceError(
                f"task {task.id}: its run names no image", 'image = "NAME:TAG"; SWE-bench: execution=containers'
            )
        if not PurePosixPath(testbed).is_absolute() or testbed == "/" or "," in testbed:
            raise WorkspaceError(f"task {task.id}: {testbed!r} is no folder of an image", f"such as {TESTBED}")
        run = {name: value for name, value in task.run.items() if name not in _OURS}
        recipe = recipe_of(replace(task, run=run))
        if recipe.runner != "command":
            raise WorkspaceError(
                f"task {task.id}: in a container tests are run by a command",
                'runner = "command", command = ["bash", …]',
            )
        if recipe.packages or recipe.pre_install or recipe.python or recipe.site:
            raise WorkspaceError(f"task {task.id}: what an image holds cannot be changed (python, packages)")
        files = self._files(image, testbed)
        base = self.bases.state_of(replace(task, repo="", base_commit=""), recipe)
        # The task is the image's now: nothing of its repository is fetched.
        ours = replace(task, repo="", base_commit="", run={**run, "image": image, "testbed": testbed})
        start = {**files, **base}
        return ContainerWorkspace(self, ours, recipe, Interpreter("python", ()), start, start)

    def _files(self, image: str, testbed: str) -> state.State:
        self.engine.check_image(image)
        place = self.folder()
        try:
            self.engine.copy_out(image, testbed, place, self.held)
            shutil.rmtree(place / ".git", ignore_errors=True)
            return state.Folder(place).read()
        finally:
            removing.remove(place)


class ContainerWorkspace(CheckoutWorkspace):
    """A workspace whose runs are containers."""

    _provider: ContainerWorkspaces

    def _run_in(
        self, place: Place, recipe: Recipe, tests: Sequence[str], wall_s: float, **options: Any
    ) -> dict[str, Any]:
        engine, run = self._provider.engine, self._task.run
        limits = docker.Limits(
            recipe.memory, recipe.processes, recipe.cpu_s, recipe.disk, recipe.most_output, recipe.keep_output
        )
        env = {"HOME": "/tmp", "TZ": "UTC", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
        results, log, status = [], bytearray(), "finished"
        deadline = time.monotonic() + wall_s
        for test in tests:
            left = max(0.0, deadline - time.monotonic())
            command = [part.replace("{python}", "python").replace("{test}", test) for part in recipe.command]
            ended = engine.run(
                run["image"], command, folder=place.work, at=run["testbed"], env={**env, **dict(recipe.env)},
                limits=limits, wall_s=left, held=self._provider.held,
            )  # fmt: skip
            log += ended.log[: max(0, recipe.keep_output - len(log))]
            if ended.why:
                status = "timeout"
            results.append(_result(ended))
        return {"results": results, "status": status, "log": log.decode("utf-8", "replace")}


def _result(ended: docker.Ended) -> dict[str, Any]:
    tail = ended.tail.decode("utf-8", "replace").strip()
    if ended.why:
        told = "timeout", ended.why
    elif ended.status == docker.ENGINE_FAILED:
        raise WorkspaceError(f"the container cannot be run: {' '.join(tail.split())[-300:]}", "look at the engine")
    elif ended.status in docker.NOT_STARTED:
        told = "error", f"the command cannot be started\n{tail}"
    elif ended.status > 128:
        told = "error", f"the command was ended by signal {ended.status - 128}\n{tail}"
    else:
        told = ("failed", f"the command exited with status {ended.status}\n{tail}") if ended.status else ("passed", "")
    return {"status": told[0], "detail": told[1].strip(), "steps": 0, "lines": {}}


def _text(task: Task, name: str, default: str) -> str:
    value = task.run.get(name, default)
    if not isinstance(value, str) or any(not c.isprintable() or c.isspace() for c in value):
        raise WorkspaceError(f"task {task.id}: run entry {name!r} has no such value: {value!r:.80}")
    return value
