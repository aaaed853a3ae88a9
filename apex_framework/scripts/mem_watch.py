"""``python -m apex_framework.scripts.mem_watch``: watch this machine's memory; with ``--ollama`` unload that server's models.

Prints a line per look. Exit status with ``--once``: 0, or 5 when less than ``--unload`` is free.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Sequence

import click

from ..catalog import Catalog
from ..cli.context import Context
from ..errors import BackendError, ConfigError, EnvironmentProblem, ModelServerError
from ..interfaces import ListsLoaded, LLMBackend, Unloads
from ..workers.machine import Memory, memory_now
from ..workers.memory import Holder, MemoryCare, MemoryLimits, Pressure, described, percent

CRITICAL = 5
"""Exit status of ``--once`` below the limit: a gate that is not passed."""


@click.command()
@click.option("--interval", default=5.0, show_default=True, type=float, help="Seconds between two looks.")
@click.option("--warn", default="10", show_default=True, help="Percent free below which it is a warning.")
@click.option("--unload", default="5", show_default=True, help="Percent free below which models are unloaded.")
@click.option("--once", is_flag=True, help="Look once; the exit status tells.")
@click.option("--json", "as_json", is_flag=True, help="Lines as JSON.")
@click.option(
    "--ollama", metavar="URL", help="An Ollama server on this machine, whose models are unloaded, one per look."
)
@click.pass_obj
def watch(
    context: Context, /, interval: float, warn: str, unload: str, once: bool, as_json: bool, ollama: str | None
) -> int:
    """Watch memory until interrupted."""
    limits = MemoryLimits(percent(warn, "--warn"), percent(unload, "--unload"), interval_s=interval)
    context.json = context.json or as_json
    server = _Server(context.plugins.catalog, ollama) if ollama is not None else None
    pressure = asyncio.run(_look(context, limits, server, once=once))
    return CRITICAL if once and pressure is Pressure.CRITICAL else 0


class _Server:
    """An Ollama server's models, by what the backend of that name can do."""

    def __init__(self, catalog: Catalog, url: str) -> None:
        self._catalog, self._url = catalog, url
        self._backend("any")  # a wrong address is told at once

    async def loaded(self) -> list[Holder]:
        async with self._using("any") as backend:
            if not isinstance(backend, ListsLoaded):
                raise ConfigError("the backend ollama cannot tell what is loaded")
            return [Holder(m.name, m.name, float(n)) for n, m in enumerate(await backend.loaded())]

    async def unload(self, model: str) -> None:
        async with self._using(model) as backend:
            if not isinstance(backend, Unloads):
                raise ConfigError("the backend ollama cannot unload")
            await backend.unload()

    @contextlib.asynccontextmanager
    async def _using(self, model: str) -> AsyncIterator[LLMBackend]:
        backend = self._backend(model)
        try:
            yield backend
        finally:
            await backend.close()

    def _backend(self, model: str) -> LLMBackend:
        backend: LLMBackend = self._catalog.make("llm_backend", "ollama", model=model, base_url=self._url)
        return backend


async def _look(context: Context, limits: MemoryLimits, server: _Server | None, *, once: bool) -> Pressure:
    care, task = MemoryCare(limits), asyncio.current_task()
    while task is None or not task.cancelling():  # a refused connection can swallow a cancellation that comes with it
        now = memory_now()
        if now is None:
            raise EnvironmentProblem("this system does not tell how much memory is free")
        holders, trouble = await _holders(server, once=once)
        step = care.look(now.free_share, holders)
        unloaded = ""
        if server is not None and step.unload is not None:
            try:
                await server.unload(step.unload.model)
                unloaded = step.unload.model
            except BackendError as error:
                trouble = f"{step.unload.model} could not be unloaded: {error}"
        _say(context, now, step.pressure, holders, unloaded, trouble)
        if once:
            return step.pressure
        await asyncio.sleep(limits.interval_s)
    raise asyncio.CancelledError


async def _holders(server: _Server | None, *, once: bool) -> tuple[list[Holder], str]:
    """What the server has loaded, or why that is not known; a watch outlives its server. Raises ModelServerError once."""
    if server is None:
        return [], ""
    try:
        return await server.loaded(), ""
    except BackendError as error:
        if once:
            raise ModelServerError(f"ollama: {error}", error.remedy) from error
        return [], f"ollama: {error}"


def _say(
    context: Context, now: Memory, pressure: Pressure, holders: Sequence[Holder], unloaded: str, trouble: str
) -> None:
    row = {
        "free_percent": round(100 * now.free_share, 1),
        "available": now.available,
        "total": now.total,
        "pressure": str(pressure),
        "loaded": [h.model for h in holders],
        "unloaded": unloaded,
        "trouble": trouble,
    }
    parts = [f"{pressure}: {described(now)}"]
    parts += [f"loaded: {', '.join(h.model for h in holders)}"] if holders else []
    parts += [f"unloaded: {unloaded}"] if unloaded else []
    parts += [trouble] if trouble else []
    context.emit(row, "; ".join(parts))


if __name__ == "__main__":
    from ..cli.boundary import run

    sys.exit(run(sys.argv[1:], watch, "mem_watch"))
