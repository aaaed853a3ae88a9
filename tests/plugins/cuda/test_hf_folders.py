"""What is wrong with a model's folder is said in a line, before anything is loaded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from apex_cuda.backend import graphics_cards, refuse_too_large
from apex_cuda.folder import find_folder
from apex_framework.errors import MissingExtraError, ModelError
from apex_framework.plugins import load_plugins


def _folder(place: Path, config: object = None, weights: bytes | None = None) -> Path:
    place.mkdir()
    default = {"architectures": ["LlamaForCausalLM"], "max_position_embeddings": 2048}
    (place / "config.json").write_text(json.dumps(default if config is None else config))
    head = json.dumps({"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
    whole = len(head).to_bytes(8, "little") + head + bytes(16)
    (place / "model.safetensors").write_bytes(whole if weights is None else weights)
    return place


def _refused(named: object, *words: str) -> None:
    with pytest.raises(ModelError) as caught:
        find_folder(str(named))
    message = f"{caught.value.cause} / {caught.value.remedy}"
    assert all(word in message for word in words) and "\n" not in message and caught.value.remedy, message
    assert caught.value.exit_status == 3


def test_a_whole_folder_is_taken(tmp_path: Path) -> None:
    folder = find_folder(str(_folder(tmp_path / "m")))
    assert (folder.model_id, folder.context, folder.dtype) == ("m", 2048, "float32")
    digest, words = folder.digests()
    assert digest != words and folder.digests() == (digest, words)


def test_bad_folders_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    _refused(tmp_path / "nothing", "there is no model at")
    _refused("someone/some-model", "not on this machine", "hf download someone/some-model")
    (tmp_path / "file.gguf").write_bytes(b"GGUF")
    _refused(tmp_path / "file.gguf", "is a file", "llama_cpp")
    (tmp_path / "empty").mkdir()
    _refused(tmp_path / "empty", "config.json")
    _refused(_folder(tmp_path / "list", config=[1]), "no configuration")
    _refused(_folder(tmp_path / "bert", config={"architectures": ["BertForMaskedLM"]}), "no text generator")
    _refused(_folder(tmp_path / "short", weights=b"\x10\0\0\0\0\0\0\0{}"), "cut off or damaged")
    whole = (_folder(tmp_path / "whole") / "model.safetensors").read_bytes()
    _refused(_folder(tmp_path / "cut", weights=whole[:-1]), "cut off or damaged")
    _refused(_folder(tmp_path / "junk", weights=b"\x05\0\0\0\0\0\0\0[[[[["), "damaged")
    (pickled := _folder(tmp_path / "pickled")).joinpath("model.safetensors").rename(pickled / "pytorch_model.bin")
    _refused(pickled, "no weights in safetensors", "can run code")
    index = _folder(tmp_path / "sharded") / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}}))
    _refused(index.parent, "lacks model-2.safetensors")


def test_the_cache_of_the_hub_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    root = tmp_path / "models--someone--some-model"
    (root / "refs").mkdir(parents=True)
    (root / "snapshots").mkdir()
    (root / "refs" / "main").write_text("0123abcd")
    _refused("someone/some-model", "never fetched completely")
    _folder(root / "snapshots" / "0123abcd")
    assert find_folder("someone/some-model").model_id == "someone/some-model"


def test_too_little_memory_is_foreseen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"architectures": ["LlamaForCausalLM"], "dtype": "bfloat16"}
    folder = find_folder(str(_folder(tmp_path / "m", config=config)))
    monkeypatch.setattr("apex_cuda.backend.available_memory", lambda: 6 * folder.size)
    refuse_too_large(folder, 3)
    with pytest.raises(ModelError, match="in 4 instances"):
        refuse_too_large(folder, 4)


def test_cards_are_what_the_driver_shows_and_the_variable_leaves(tmp_path: Path) -> None:
    assert graphics_cards({}, tmp_path) == ()
    assert graphics_cards({"CUDA_VISIBLE_DEVICES": "0,1"}, tmp_path) == (), "a variable is no card"
    for name in ("nvidia0", "nvidia1", "nvidia10", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    assert graphics_cards({}, tmp_path) == ("0", "1", "2")
    assert graphics_cards({"CUDA_VISIBLE_DEVICES": "1"}, tmp_path) == ("1",)
    assert graphics_cards({"CUDA_VISIBLE_DEVICES": ""}, tmp_path) == ()


def test_both_names_are_registered_and_say_what_they_need() -> None:
    entries = {e.name: e for e in load_plugins().catalog.entries("llm_backend")}
    assert entries["hf"].requires == entries["hf_cuda"].requires == "cuda"


def test_without_the_extra_the_line_that_installs_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apex_cuda.backend.importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError) as caught:
        load_plugins().catalog.make("llm_backend", f"hf:{_folder(tmp_path / 'm')}")
    assert caught.value.remedy == "pip install 'apex-framework[cuda]'" and caught.value.exit_status == 3
