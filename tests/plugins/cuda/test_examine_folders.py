"""What ``apex doctor`` is told of a model's folder before it is loaded; transformers need not be there."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from apex_cuda.backend import memory_needed
from apex_cuda.examine import FolderBackend
from apex_cuda.folder import find_folder
from apex_framework.interfaces import Finding, Grade, ModelIdentity, Needs
from apex_framework.workers import FleetSettings, ModelInfo


def made(place: Path, cards: tuple[str, ...] = (), need: int | None = None) -> FolderBackend:
    place.mkdir(exist_ok=True)
    config = {"architectures": ["LlamaForCausalLM"], "max_position_embeddings": 2048, "dtype": "bfloat16"}
    (place / "config.json").write_text(json.dumps(config))
    head = json.dumps({"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
    (place / "model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + bytes(16))
    folder = find_folder(str(place))
    info = ModelInfo(folder.model_id, 2048, "hf", lambda: ModelIdentity(folder.model_id))
    settings = FleetSettings("apex_cuda.engine:TransformersEngine", {}, 2)
    needed = memory_needed(folder, 2) if need is None else need
    return FolderBackend(info, settings, folder, cards, "bfloat16" if cards else "float32", needed)


def examined(backend: FolderBackend, needs: Needs) -> dict[str, Finding]:
    return {f.what: f for f in asyncio.run(backend.examine(needs))}


def test_a_folder_that_suffices(tmp_path: Path) -> None:
    found = examined(made(tmp_path / "m"), Needs(2000, 2000))
    assert list(found) == ["file", "architecture", "quantisation", "context", "memory"]
    assert {f.grade for f in found.values()} == {Grade.OK}
    assert "bfloat16 on disk, float32 in memory" in found["quantisation"].found


def test_context_and_memory_that_do_not(tmp_path: Path) -> None:
    found = examined(made(tmp_path / "m", need=1 << 60), Needs(40_000, 2049))
    assert found["context"].grade is found["memory"].grade is Grade.FAIL
    assert found["context"].remedy and found["memory"].remedy


def test_with_graphics_cards_the_memory_here_does_not_count(tmp_path: Path) -> None:
    found = examined(made(tmp_path / "m", cards=("0", "1"), need=1 << 60), Needs(2000, 2000))
    assert found["memory"].grade is Grade.OK and "graphics cards 0, 1" in found["memory"].found
