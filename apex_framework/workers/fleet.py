"""The instances of one model: which one a role asks, and what happens when its process dies."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import logging
import os
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from .. import events
from ..errors import BackendError, Failure
from .machine import Memory
from .memory import Holder, MemoryLimits, MemoryWatch, read_memory
from .process import Event, Hear, Worker, WorkerGone, error_of

_log = logging.getLogger(__name__)

RESTARTS: Final = 3
"""An instance that crashed is started again so often within ``WINDOW_S``."""
WINDOW_S: Final = 60.0
ROLE_SALT: Final = "212406"
"""The first number with which no instance of 2 to 8 has more of the roles planner, coder, runner, critic and summarizer
than it must, with and without manager, who of five instances shares that of summarizer. Another one would move roles."""


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """How many processes, of which engine, and how long to wait for them."""

    engine: str
    """``module:class`` of the engine."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """For ``Engine.load``; JSON."""
    instances: int = 1
    environ: tuple[Mapping[str, str], ...] = ()
    """Variables of each instance beside this process's, in turn."""
    keep: frozenset[str] = frozenset()
    """Variables named like secrets that the processes get all the same."""
    load_s: float = 600.0
    """A process that has not loaded by then is killed."""
    grace_s: float = 2.0
    """A process that does not heed a cancellation for so long is killed."""
    memory: MemoryLimits | None = None
    """When models are unloaded because memory is short; by default those of ``limits_from``."""
    read_memory: Callable[[], Awaitable[Memory | None]] = read_memory


def instance_of(role: str, instances: int) -> int:
    """The instance of a role: the same on every machine and in every run, whatever other roles there are."""
    return int.from_bytes(hashlib.sha256(f"{ROLE_SALT}:{role}".encode()).digest()[:8], "big") % instances


class Instance:
    """One model, in a process that is started when it is first needed, and again when it has died."""

    def __init__(self, name: str, settings: FleetSettings, environ: Mapping[str, str], *, tokenizer_only: bool) -> None:
        self.name = name
        self._settings = settings
        self._environ = environ
        self._load = {
            "do": "load",
            "engine": settings.engine,
            "options": dict(settings.options),
            "tokenizer_only": tokenizer_only,
        }
        self._worker: Worker | None = None
        self._starting: asyncio.Task[Worker] | None = None
        self._closed = False
        self._crashes: deque[float] = deque(maxlen=RESTARTS + 1)
        self._last_crash = ""
        self._ids = itertools.count(1)
        self._unloaded: Worker | None = None
        self.info: Mapping[str, Any] = {}
        self.starts = 0
        self.calls = 0
        """Calls under way or waiting."""
        self.last_used = 0.0
        """When a call last began or ended, on the loop's clock."""

    @property
    def pid(self) -> int | None:
        """Its process, if it has one now."""
        return self._worker.pid if self._worker is not None and not self._worker.gone.done() else None

    async def ask(self, frame: Mapping[str, Any], hear: Hear) -> Event:
        """The last event of a call. Raises BackendError.

        A call that the process had not begun when it died is given to the next one: nobody heard anything of it.
        """
        loop = asyncio.get_running_loop()
        self.calls, self.last_used = self.calls + 1, loop.time()
        try:
            return await self._ask(frame, hear)
        finally:
            self.calls, self.last_used = self.calls - 1, loop.time()

    async def _ask(self, frame: Mapping[str, Any], hear: Hear) -> Event:
        while True:
            worker = await self._alive()
            try:
                event = await worker.ask(f"{next(self._ids)}", frame, hear, self._settings.grace_s)
            except WorkerGone as gone:
                if gone.begun and worker is self._unloaded and not self._closed:
                    raise BackendError("the model was unloaded under the call", kind=Failure.UNLOADED) from gone
                if gone.begun and not self._closed:
                    raise BackendError(str(gone), kind=Failure.WORKER_DIED) from gone
                continue
            if event.get("event") == "error":
                raise error_of(event)
            return event

    async def warm(self) -> None:
        """Have a process that is ready. Raises BackendError."""
        await self._alive()

    @property
    def loaded(self) -> bool:
        """Whether a process has the model and may be given calls."""
        return self._worker is not None and not self._worker.gone.done() and not self._worker.meant

    async def unload(self) -> None:
        """End the process. A call that it had begun fails as UNLOADED; the others get a new process."""
        worker = self._worker
        if worker is not None and not worker.meant:
            self._unloaded = worker
            await worker.end(1.0)

    async def close(self) -> None:
        """End the process; calls fail from now on."""
        self._closed = True
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.end(1.0)

    async def _alive(self) -> Worker:
        if self._closed:
            raise BackendError("the backend was closed", kind=Failure.CANCELLED)
        worker = self._worker
        if worker is not None and not worker.gone.done() and not worker.meant:
            return worker
        if self._starting is None:
            self._starting = asyncio.get_running_loop().create_task(self._start())
            self._starting.add_done_callback(self._started)
        return await asyncio.shield(self._starting)  # whoever asked first may leave; the others still wait

    def _started(self, task: asyncio.Task[Worker]) -> None:
        self._starting = None
        if not task.cancelled():
            task.exception()  # those who wait for it get it; none may be left

    async def _start(self) -> Worker:
        """Raises BackendError."""
        loop = asyncio.get_running_loop()
        dead, self._worker = self._worker, None
        if dead is not None:
            await dead.end(0.0)
        recent = [when for when in self._crashes if when > loop.time() - WINDOW_S]
        if len(recent) > RESTARTS:
            cause = f"{self.name} died {len(recent)} times within {WINDOW_S:g} s; the last time {self._last_crash}"
            raise BackendError(cause, "see the log; it is tried again later", kind=Failure.WORKER_DIED)
        worker = Worker(self._load, {**os.environ, **self._environ}, self._settings.keep)
        worker.gone.add_done_callback(lambda gone: self._crashed(worker, gone.result()))
        self.starts += 1
        try:
            async with asyncio.timeout(self._settings.load_s):
                self.info = await worker.start()
        except WorkerGone as gone:
            await worker.end(0.0)
            cause = f"while {self.name} loaded the model, {gone}"
            raise BackendError(cause, kind=Failure.WORKER_DIED, retryable=False) from gone
        except TimeoutError as error:
            worker.kill(meant=False)
            await worker.gone
            await worker.end(0.0)
            cause = f"{self.name} had not loaded the model after {self._settings.load_s:g} s"
            raise BackendError(cause, "allow more time: load_s", kind=Failure.WORKER_DIED) from error
        except BaseException:
            worker.kill()
            await asyncio.shield(worker.end(0.0))
            raise
        self._worker = worker
        return worker

    def _crashed(self, worker: Worker, cause: str) -> None:
        if not worker.meant:
            self._crashes.append(worker.gone.get_loop().time())
            self._last_crash = cause
            _log.warning("%s: %s", self.name, cause)


class Fleet:
    """Instances, each started when it is first needed, and one small process that only counts tokens.

    That one never computes an answer, so counting does not wait for one.
    """

    def __init__(
        self,
        name: str,
        settings: FleetSettings,
        limits: MemoryLimits,
        model: str = "",
        tell: Callable[[events.Event], None] = lambda event: None,
    ) -> None:
        """``tell`` hears of memory that is short, and of ``model`` being unloaded for it, on the fleet's loop."""
        environ = settings.environ or ({},)
        self.instances = tuple(
            Instance(f"{name} {n}", settings, environ[n % len(environ)], tokenizer_only=False)
            for n in range(settings.instances)
        )
        self.tokenizer = Instance(f"{name} tokenizer", settings, {}, tokenizer_only=True)
        self._model = model
        self._watch = MemoryWatch(
            self._holders, self._unload_for_memory, limits=limits, read=settings.read_memory, tell=tell
        )
        self._watching: asyncio.Task[None] | None = None
        self.ran_short = False
        """An instance was unloaded because memory was short."""

    def instance(self, role: str) -> Instance:
        """The one that answers this role."""
        return self.instances[instance_of(role, len(self.instances))]

    def watch(self) -> None:
        """From now on look after memory; idempotent."""
        if self._watching is None or self._watching.done():
            self._watching = asyncio.get_running_loop().create_task(self._watch.run())

    async def unload(self) -> None:
        """End every process but the tokenizer's; calls under way fail as UNLOADED."""
        await asyncio.gather(*(instance.unload() for instance in self.instances))

    def _holders(self) -> list[Holder]:
        return [Holder(i.name, self._model, i.last_used, i.calls) for i in self.instances if i.loaded]

    async def _unload_for_memory(self, holder: Holder) -> None:
        self.ran_short = True
        await next(i for i in self.instances if i.name == holder.key).unload()

    async def warm(self) -> None:
        """Start everything at once. Raises BackendError."""
        async with asyncio.TaskGroup() as group:
            for instance in (*self.instances, self.tokenizer):
                group.create_task(instance.warm())

    async def close(self) -> None:
        """End every process."""
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        await asyncio.gather(*(instance.close() for instance in (*self.instances, self.tokenizer)))
