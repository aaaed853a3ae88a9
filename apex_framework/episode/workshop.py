"""What a worker process keeps between episodes: plugins, the suite with its tasks, workspaces, backends."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
from collections.abc import Mapping
from typing import Any

from ..catalog import Catalog
from ..errors import SuiteError
from ..interfaces import Closes, LLMBackend, Sandbox, Task, TaskSuite, WorkspaceProvider
from ..plugins import Plugins, load_plugins
from .confining import SETTINGS, sandbox_for
from .models import ModelRoom

AUTO = "auto"
"""Names the workspaces that a suite prefers."""


class Workshop:
    """Made once per process and kind of run; ``close`` releases processes and files."""

    def __init__(
        self,
        plugins: Plugins,
        suite: str,
        split: str,
        limit: int | None = None,
        workspace: str = AUTO,
        resident_models: int | None = None,
        sandbox: Sandbox | None = None,
        suite_options: Mapping[str, str] | None = None,
    ) -> None:
        self.plugins = plugins
        self.suite: TaskSuite = make_suite(plugins.catalog, suite, limit, workspace, sandbox, suite_options)
        self.split = split
        self.workspaces: WorkspaceProvider = self.suite.workspaces()
        self._tasks: dict[str, Task] = {}
        self.models = ModelRoom(functools.partial(plugins.catalog.make, "llm_backend"), resident_models)

    @property
    def catalog(self) -> Catalog:
        """Every named factory."""
        return self.plugins.catalog

    @functools.cached_property
    def suite_digest(self) -> str:
        """Hash of all that decides the suite's tasks and verdicts."""
        return self.suite.digest

    def task(self, task_id: str) -> Task:
        """A task of the split by its id. Raises SuiteError when there is none."""
        if not self._tasks:
            self._tasks = {t.id: t for t in self.suite.tasks(self.split)}
        try:
            return self._tasks[task_id]
        except KeyError:
            raise SuiteError(f"suite {self.suite.name!r} has no task {task_id!r} in split {self.split!r}") from None

    def backend(self, name: str, options: Mapping[str, Any]) -> LLMBackend:
        """A backend, made on first use and kept."""
        return self.models.backend(name, options)

    def close(self) -> None:
        """Release workspaces, what judging opened, and backends; idempotent."""
        with contextlib.ExitStack() as at_end:
            at_end.callback(self.models.close)
            if isinstance(self.suite, Closes):
                at_end.callback(self.suite.close)
            at_end.callback(self.workspaces.close)


def make_suite(
    catalog: Catalog,
    name: str,
    limit: int | None = None,
    workspace: str = AUTO,
    sandbox: Sandbox | None = None,
    options: Mapping[str, str] | None = None,
) -> TaskSuite:
    """A suite by name, with the workspaces that its tasks are worked on in, and what confines their tests there.

    Its factory is given ``limit`` and ``options`` where there are any, and ``workspaces``: called with the name of the
    provider that the suite prefers, ``local`` without one, it makes that, or the one that the user asked for.
    """
    confining = {} if sandbox is None else {"sandbox": sandbox}

    def workspaces(preferred: str = "local") -> WorkspaceProvider:
        made: WorkspaceProvider = catalog.make("workspace", preferred if workspace == AUTO else workspace, **confining)
        return made

    given: dict[str, Any] = {**(options or {}), **({} if limit is None else {"limit": limit})}
    suite: TaskSuite = catalog.make("suite", name, workspaces=workspaces, **given)
    return suite


@functools.lru_cache(maxsize=4)
def _workshop(settings: str) -> Workshop:
    run = json.loads(settings)
    plugins = load_plugins(
        block=tuple(run.get("blocked", ())), only=run.get("only"), safe_mode=bool(run.get("safe_mode", False))
    )
    kept = run.get("limit"), run.get("workspace", AUTO), run.get("resident_models")
    sandbox = sandbox_for(run, plugins.catalog)
    workshop = Workshop(
        plugins, run["suite"], run["split"], *kept, sandbox=sandbox, suite_options=run.get("suite_options")
    )
    atexit.register(workshop.close)
    return workshop


def workshop_for(run: Mapping[str, Any]) -> Workshop:
    """This process's workshop for a run: the one cache that a worker keeps, keyed by all that decides it."""
    keys = (
        *("suite", "suite_options", "split", "limit", "workspace", "blocked", "only", "safe_mode", "resident_models"),
        *SETTINGS,
    )
    return _workshop(json.dumps({k: run[k] for k in keys if k in run}, sort_keys=True))
