"""The actors that do one kind of work: those that the cluster was asked for, and those that wait for a job."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from typing import Any, Final

import ray
from ray.exceptions import GetTimeoutError, RayError, RayTaskError

from apex_framework.errors import ExecutorError

from .facts import difference, versions
from .node import GRACE_S, Node
from .options import Options

FAILED_STARTS: Final = 3
"""Actors that may die one after the other before they have said a word."""
ANSWER_S: Final = 60.0
"""Seconds that a result may take from its node to here."""


class Crew:
    """Asks for actors, lets in those whose versions are ours, and ends them."""

    def __init__(self, work: str, options: Options) -> None:
        """``work`` is ``module:function``."""
        self._options = options
        self._versions = versions()
        self._setup = {
            "work": work,
            "folder": os.getcwd(),
            "path": [os.path.abspath(path) for path in sys.path if path],
            "variables": variables(os.environ, options.env),
        }
        self.idle: list[Any] = []
        self.coming: dict[Any, Any] = {}
        """What an actor's first word will come by, and the actor."""
        self._failed = 0
        self._alone_since: float | None = None

    def ask(self, count: int) -> None:
        """Ask for so many more; they come when the cluster has room."""
        placed: dict[str, Any] = {
            "num_cpus": self._options.cpus,
            "max_concurrency": 2,
            "max_restarts": 0,
            "scheduling_strategy": "SPREAD",
        }
        for _ in range(count):
            actor = ray.remote(Node).options(**placed).remote()
            # In a call, not in the constructor: what an actor is made with is kept by the head, and this may hold keys.
            self.coming[actor.hello.remote(self._setup)] = actor

    def welcome(self, reference: Any) -> None:
        """An actor said its first word, or died. Raises ExecutorError when it cannot do this run's episodes."""
        actor = self.coming.pop(reference)
        try:
            told = ray.get(reference, timeout=ANSWER_S)
        except RayError as error:
            ray.kill(actor)
            self._failed += 1
            if self._failed >= FAILED_STARTS or isinstance(error, RayTaskError) or "creation task" in str(error):
                raise ExecutorError(
                    f"a node of the Ray cluster cannot run a worker: {short(error)}",
                    f"pip install 'apex-ray=={self._versions.get('apex-ray', '')}' there, and what else is installed here",
                ) from error
            return
        if differs := difference(self._versions, told["versions"]):
            ray.kill(actor)
            raise ExecutorError(
                f"node {told['node']} of the Ray cluster {differs}: its episodes would not be those of this machine",
                "install the same versions on every node",
            )
        self._failed = 0
        self.idle.append(actor)

    def patience(self, working: int) -> None:
        """Raises ExecutorError when nobody works or waits, and nobody has come for long."""
        if working or self.idle:
            self._alone_since = None
            return
        now = time.monotonic()
        self._alone_since = self._alone_since or now
        if now - self._alone_since > self._options.start_s:
            cpus = ray.cluster_resources().get("CPU", 0)
            raise ExecutorError(
                f"the Ray cluster had no room for a worker within {self._options.start_s:g} s ({cpus:g} CPUs in all)",
                "see `ray status`; let others' work end, or add a node",
            )

    def give_up(self) -> None:
        """Take back what was asked for and has not come."""
        coming, self.coming = list(self.coming.values()), {}
        for actor in coming:
            ray.kill(actor)

    def close(self) -> None:
        """End all that wait or may come."""
        idle, self.idle = self.idle, []
        self.give_up()
        dismiss(idle)


def dismiss(actors: Iterable[Any]) -> None:
    """End actors: their workers are told to leave first, all at once, and clean up."""
    actors = list(actors)
    try:
        if actors:
            leaving = [actor.leave.remote() for actor in actors]
            ray.wait(leaving, num_returns=len(leaving), timeout=GRACE_S + 2)
    finally:
        for actor in actors:
            ray.kill(actor)


def variables(environ: Any, named: Iterable[str]) -> dict[str, str]:
    """What of this environment is sent: APEX's own variables, but for those named like a secret, and those named."""
    own = {name: value for name, value in environ.items() if name.startswith("APEX_") and not _secret(name)}
    if absent := next((name for name in named if name not in environ), None):
        raise ExecutorError(f"executor ray: env={absent}, and there is no such variable here", f"export {absent}=…")
    return own | {name: environ[name] for name in named}


def short(error: BaseException) -> str:
    """A failure of Ray in a line: it writes paragraphs."""
    if isinstance(error, GetTimeoutError):
        return f"no answer within {ANSWER_S:g} s"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = next((line for line in reversed(lines) if "Error: " in line), lines[0] if lines else "")
    return f"{type(error).__name__}: {told[:200]}".rstrip(": ")


def _secret(name: str) -> bool:
    return name.upper().endswith(("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "CREDENTIALS"))
