"""The part of vLLM's module of this name that ``apex_cuda.vllm_engine`` uses."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class RequestOutputKind(Enum):
    CUMULATIVE = 0
    DELTA = 1
    FINAL_ONLY = 2


@dataclass
class SamplingParams:
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int | None = None
    stop: list[str] | None = None
    max_tokens: int | None = 16
    output_kind: RequestOutputKind = RequestOutputKind.CUMULATIVE

    def __post_init__(self) -> None:
        if self.temperature < 0 or not 0 < self.top_p <= 1 or (self.max_tokens or 1) < 1:
            raise ValueError(f"vLLM refuses such sampling parameters: {self}")
