"""How a task's tests are run, read from ``task.run``: what its suite says, never what its repository says."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, get_args, get_type_hints

from apex_framework.errors import WorkspaceError
from apex_framework.interfaces import Task

RUNNERS = ("pytest", "unittest", "command")
_IGNORED = ("block",)


@dataclass(frozen=True, slots=True)
class Recipe:
    """Times in seconds, sizes in bytes."""

    runner: str = "pytest"
    tests: tuple[str, ...] = ()
    """Files or folders of the visible tests; for ``command`` the names of tests, when it has ``{test}`` in it."""
    command: tuple[str, ...] = ()
    """Program and arguments; ``{python}`` is the task's interpreter, ``{test}`` one test: it then runs once per test."""
    args: tuple[str, ...] = ()
    """More options for pytest. Those that the repository asks for are left out."""
    plugins: tuple[str, ...] = ()
    """Modules of pytest plugins to load; those that are installed are not loaded by themselves."""
    path: tuple[str, ...] = (".",)
    """Folders that are searched for modules."""
    env: tuple[tuple[str, str], ...] = ()
    python: str = ""
    """Version (``3.6``) or path of the interpreter; empty for the one that runs this."""
    packages: tuple[str, ...] = ()
    """What pip installs into the environment."""
    pre_install: tuple[tuple[str, ...], ...] = ()
    """Commands that run in a copy of the repository when the environment is made."""
    binary_only: bool = True
    """Take packages only as wheels, which run nothing while they are installed."""
    site: tuple[tuple[str, str], ...] = ()
    """Files that the environment has beside its packages: texts by path below its ``site-packages``."""
    keep_output: int = 0
    """Bytes of what a run prints that are kept for its report, from the beginning on."""
    fixed: tuple[str, ...] = ()
    """Patterns of more files that are as in the task where the tests that decide are brought along (see ``judging``)."""
    free: tuple[str, ...] = ()
    """Patterns of files that a patch may change although they steer tests."""
    allow: tuple[str, ...] = ()
    """``submodules``, ``lfs``, ``outside_links``: go on without these although the repository has them."""
    step_budget: int = 0
    """Lines before a test counts as endless; 0 for no such limit."""
    cpu_s: int = 60
    """CPU seconds of one test."""
    idle_s: float = 30.0
    """A test asleep for so long is ended."""
    memory: int = 2 * 1024**3
    processes: int = 256
    disk: int = 512 * 1024**2
    """What a run may write in all."""
    most_output: int = 16 * 1024**2
    """What a run may print."""
    test_cost_s: float = 0.05
    """What one test is said to take; load changes nothing in it."""

    @property
    def digest(self) -> str:
        """A hash of what decides which tests there are."""
        value = [self.runner, self.tests, self.args, self.plugins, self.path, self.env, self.python, self.packages]
        return hashlib.sha256(json.dumps([*value, self.pre_install, self.site]).encode()).hexdigest()


def recipe_of(task: Task) -> Recipe:
    """Read and check. Raises WorkspaceError that names the entry."""
    types = get_type_hints(Recipe)
    known = {f.name for f in fields(Recipe)}
    given: dict[str, Any] = {}
    for name, value in task.run.items():
        if name in _IGNORED:
            continue
        if name not in known:
            raise WorkspaceError(f"task {task.id}: run has no entry {name!r}", f"known: {', '.join(sorted(known))}")
        given[name] = _read(task, name, value, types[name])
    recipe = Recipe(**given)
    if recipe.runner not in RUNNERS:
        raise WorkspaceError(f"unknown runner {recipe.runner!r}", f"known: {', '.join(RUNNERS)}")
    if (recipe.runner == "command") != bool(recipe.command):
        raise WorkspaceError(f"task {task.id}: runner 'command' and the entry 'command' go together")
    for path in (*recipe.tests, *recipe.path):
        if recipe.runner != "command" and (path.startswith(("/", "-")) or ".." in path.split("/")):
            raise WorkspaceError(f"task {task.id}: {path!r} is not a path inside the repository")
    for path, _ in recipe.site:
        if path.startswith("/") or not {"", ".", ".."}.isdisjoint(path.split("/")):
            raise WorkspaceError(f"task {task.id}: {path!r} is not a path inside site-packages")
    return recipe


def _read(task: Task, name: str, value: Any, kind: Any) -> Any:
    plain: Any = {int: int, bool: bool, str: str, float: (int, float)}.get(kind)
    if plain is not None:
        fits = isinstance(value, plain) and (kind is bool or not isinstance(value, bool))
        if fits and (isinstance(value, str | bool) or value >= 0):
            return value
    elif name in ("env", "site") and isinstance(value, Mapping):
        return tuple(sorted((str(k), str(v)) for k, v in value.items()))
    elif isinstance(value, list | tuple):
        inner = get_args(kind)[0]
        if inner is str and all(isinstance(v, str) and "\0" not in v for v in value):
            return tuple(value)
        if inner is not str and all(
            isinstance(v, list | tuple) and v and all(isinstance(x, str) for x in v) for v in value
        ):
            return tuple(tuple(v) for v in value)
    raise WorkspaceError(f"task {task.id}: run entry {name!r} has no such value: {value!r:.80}")
