"""What is looked at before a transformers model is loaded."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from apex_framework.interfaces import Finding, Grade, Needs
from apex_framework.workers import (
    FleetSettings,
    ModelInfo,
    WorkerBackend,
    context_finding,
    gigabytes,
    memory_finding,
)

from .folder import Folder


class FolderBackend(WorkerBackend):
    """A model's folder that says what it is before it is loaded. ``cards`` of graphics hold it, or, without, the memory here."""

    def __init__(
        self,
        model: ModelInfo,
        settings: FleetSettings,
        folder: Folder,
        cards: Sequence[str],
        kind: str,
        need: int,
    ) -> None:
        super().__init__(model, settings)
        self._folder, self._cards, self._kind, self._need = folder, tuple(cards), kind, need
        self._instances = settings.instances

    async def examine(self, needs: Needs) -> Sequence[Finding]:
        """Folder, architecture, quantisation, context and memory; the folder was read when this was made."""
        folder = self._folder
        kinds = folder.config.get("architectures") or ["not told"]
        size = f"{len(folder.weights)} files of weights, whole, {gigabytes(folder.size)}"
        architecture = f"{kinds[0]}; whether the library knows it is seen when it is loaded"
        return [
            Finding("file", Grade.OK, f"{folder.path}: {size}"),
            Finding("architecture", Grade.OK, architecture),
            Finding("quantisation", Grade.OK, f"{folder.dtype} on disk, {self._kind} in memory"),
            context_finding(self.capabilities.context_tokens, folder.context, needs),
            await asyncio.to_thread(self._memory),
        ]

    def _memory(self) -> Finding:
        copies = f"the weights, {self._instances} times"
        if not self._cards:
            return memory_finding(self._need, copies)
        shown = f"graphics cards {', '.join(self._cards)}; whether {copies}, fit is seen when they are loaded"
        return Finding("memory", Grade.OK, shown)
