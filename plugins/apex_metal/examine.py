"""What is looked at before a GGUF file is loaded."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from apex_framework.interfaces import Finding, Grade, Needs
from apex_framework.workers import (
    FleetSettings,
    ModelInfo,
    WorkerBackend,
    context_finding,
    gigabytes,
    memory_finding,
)

from .gguf import Head

LARGE: Final = 1 << 30
"""Bytes of a file from which a smaller kind of weights is worth a word."""
_BITS: Final = {"F32": 32, "F16": 16, "BF16": 16}


class LlamaCppBackend(WorkerBackend):
    """A GGUF file that says what it is before it is loaded; ``need`` is what it takes, in bytes."""

    def __init__(self, model: ModelInfo, settings: FleetSettings, head: Head, need: int) -> None:
        super().__init__(model, settings)
        self._head, self._need = head, need
        self._copies = f"{settings.instances} x {model.context_tokens:,} tokens of context"

    async def examine(self, needs: Needs) -> Sequence[Finding]:
        """File, architecture, quantisation, context and memory; the file was read when this was made."""
        head, context = self._head, self.capabilities.context_tokens
        memory = await asyncio.to_thread(memory_finding, self._need, self._copies)
        return [
            Finding("file", Grade.OK, f"{head.path}: GGUF, whole, {gigabytes(head.size)}"),
            Finding(
                "architecture", Grade.OK, f"{head.architecture}; whether llama.cpp knows it is seen when it is loaded"
            ),
            quantisation_finding(head.quantisation, head.size),
            context_finding(context, head.trained_context, needs),
            memory,
        ]


def quantisation_finding(kind: str, size: int) -> Finding:
    """On the kind of a file's weights."""
    if not kind:
        return Finding("quantisation", Grade.WARN, "the file does not tell", "look where it came from")
    if kind in _BITS and size >= LARGE:
        less = f"{_BITS[kind]} bits per weight"
        remedy = "a file in Q8_0 has about 8.5, one in Q4_K_M about 4.9"
        return Finding("quantisation", Grade.WARN, f"{kind}: {less}", remedy)
    return Finding("quantisation", Grade.OK, kind)
