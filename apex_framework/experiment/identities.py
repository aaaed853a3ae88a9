"""Which models answer in a run: found out before its first episode, and again before it is gone on with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any, Final

from ..catalog import Catalog
from ..episode.arm import Arm
from ..errors import BackendError, PlanChangedError
from ..interfaces import Identifies, LLMBackend, ModelIdentity
from .foresight import answering
from .plan import canonical_json, shortened

LIMIT_S: Final = 900.0
"""Seconds that one backend may take: digests of local files need all of them to be read."""

DECISIVE: Final = ("model_digest", "tokenizer_digest", "quantisation")
"""What must not change within a run, where it is known both times."""


def identify(arms: Iterable[Arm], catalog: Catalog) -> dict[str, dict[str, Any]]:
    """Backend -> what is known of its model: the fields of ModelIdentity that have a value, and its determinism.

    Where a backend cannot find out now, ``unknown`` says why. Raises PluginError for one that is broken or hangs.
    """
    found: dict[str, dict[str, Any]] = {}
    for arm in arms:
        for name in arm.backends.values():
            key = f"{name} {canonical_json(arm.backend_options)}" if arm.backend_options else name
            if key in found:
                continue
            with answering(catalog, "llm_backend", name, limit_s=LIMIT_S):
                found[key] = asyncio.run(_identity(catalog.make("llm_backend", name, **arm.backend_options)))
    return dict(sorted(found.items()))


def require_same_models(written: object, find: Callable[[], Mapping[str, Mapping[str, Any]]]) -> None:
    """Raises PlanChangedError when a model that a run was begun with is another one now.

    ``written`` is what stands in run.json. ``find`` is asked only when something there could differ.
    """
    before = {k: v for k, v in written.items() if isinstance(v, Mapping)} if isinstance(written, Mapping) else {}
    if not any(model.get(part) for model in before.values() for part in DECISIVE):
        return
    now = find()
    for name, model in before.items():
        for part in DECISIVE:
            old, new = model.get(part), now.get(name, {}).get(part)
            if old and new and old != new:
                raise PlanChangedError(
                    f"another model answers for backend {name} than when the run was begun: "
                    f"{part} {shortened(str(old))} -> {shortened(str(new))}",
                    "serve the old model again, or start a new run with another --out",
                )


async def _identity(backend: LLMBackend) -> dict[str, Any]:
    capabilities = backend.capabilities
    known = {"model_id": capabilities.model_id, "determinism": capabilities.determinism}
    try:
        if isinstance(backend, Identifies):
            identity: ModelIdentity = await backend.identity()
            known |= {name: value for name, value in asdict(identity).items() if value}
    except BackendError as error:
        known["unknown"] = str(error)
    finally:
        await backend.close()
    return known
