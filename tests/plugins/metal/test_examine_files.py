"""What ``apex doctor`` is told of a GGUF file before it is loaded; llama.cpp need not be there."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from apex_framework.interfaces import Examines, Finding, Grade, ModelIdentity, Needs
from apex_framework.workers import FleetSettings, ModelInfo
from apex_metal.backend import llama_cpp_backend, memory_needed
from apex_metal.examine import LARGE, LlamaCppBackend, quantisation_finding
from apex_metal.gguf import read_head


def made(gguf: Path, context: int, need: int | None = None) -> LlamaCppBackend:
    head = read_head(gguf)
    info = ModelInfo(gguf.stem, context, "llama_cpp", lambda: ModelIdentity(gguf.stem))
    needed = memory_needed(head, context, 512, 1) if need is None else need
    return LlamaCppBackend(info, FleetSettings("apex_metal.engine:LlamaEngine", {}, 1), head, needed)


def examined(backend: Examines, needs: Needs) -> dict[str, Finding]:
    return {f.what: f for f in asyncio.run(backend.examine(needs))}


def test_a_file_that_suffices(gguf: Path) -> None:
    found = examined(made(gguf, 8192), Needs(4000, 2048))
    assert list(found) == ["file", "architecture", "quantisation", "context", "memory"]
    assert {f.grade for f in found.values()} == {Grade.OK}
    assert "llama" in found["architecture"].found and found["quantisation"].found == "F32"


def test_context_and_memory_that_do_not(gguf: Path) -> None:
    found = examined(made(gguf, 1024, need=1 << 60), Needs(4000, 2048))
    assert found["context"].grade is found["memory"].grade is Grade.FAIL
    assert "4,000" in found["context"].found and found["context"].remedy and found["memory"].remedy
    assert examined(made(gguf, 3000), Needs(4000, 2048))["context"].grade is Grade.WARN


def test_large_files_of_whole_weights_are_worth_a_word() -> None:
    grades = {kind: quantisation_finding(kind, LARGE).grade for kind in ("F16", "BF16", "Q4_K_M", "")}
    assert grades == {"F16": Grade.WARN, "BF16": Grade.WARN, "Q4_K_M": Grade.OK, "": Grade.WARN}
    assert quantisation_finding("F16", LARGE - 1).grade is Grade.OK


def test_the_backend_itself_can_be_examined(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("APEX_NUM_LLM_INSTANCES", raising=False)
    backend = llama_cpp_backend(str(tiny))
    assert isinstance(backend, Examines)
    assert {f.grade for f in examined(backend, Needs(4000, 2048)).values()} == {Grade.OK}
    assert backend.processes == (), "nothing was loaded"
