"""What is wrong with a GGUF file is said in a line, before anything is loaded."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apex_framework.errors import MissingExtraError, ModelError
from apex_framework.plugins import load_plugins
from apex_framework.testing.gguf import write_tiny_gguf
from apex_metal.backend import memory_needed, refuse_too_large
from apex_metal.gguf import read_head


def _refused(named: object, *words: str) -> None:
    with pytest.raises(ModelError) as caught:
        read_head(Path(str(named)))
    message = f"{caught.value.cause} / {caught.value.remedy}"
    assert all(word in message for word in words) and "\n" not in message and caught.value.remedy, message
    assert caught.value.exit_status == 3 and caught.value.code == "E0330"


def test_a_head_tells_what_the_file_is(gguf: Path) -> None:
    head = read_head(gguf)
    assert (head.architecture, head.quantisation, head.trained_context, head.tokens) == ("llama", "F32", 8192, 516)
    assert head.kv_bytes(8192) == 2 * 8192 * 2 * 2 * (16 + 16), (
        "half precision x context x layers x heads x (key + value)"
    )
    assert memory_needed(head, 8192, 512, 2) - memory_needed(head, 8192, 512, 1) > head.kv_bytes(8192)


def test_another_vocabulary_has_another_digest(gguf: Path, tmp_path: Path) -> None:
    weights = read_head(write_tiny_gguf(tmp_path / "weights.gguf", seed=1))
    words = read_head(write_tiny_gguf(tmp_path / "words.gguf", merges=100))
    assert weights.tokenizer_digest == read_head(gguf).tokenizer_digest != words.tokenizer_digest


def test_bad_files_are_told_apart(gguf: Path, tmp_path: Path) -> None:
    data = gguf.read_bytes()

    def file(name: str, content: bytes) -> Path:
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    _refused(tmp_path / "nothing.gguf", "there is no model file", "APEX_GGUF_MODEL_PATH")
    _refused(gguf.parent, "is a folder", "tiny.gguf")
    _refused(file("empty", b""), "is no GGUF file")
    _refused(file("text", b"hello, this is no model at all"), "is no GGUF file")
    _refused(file("old", b"GGUF" + struct.pack("<I", 1) + data[8:]), "version 1")
    _refused(file("head", data[:2000]), "ends within its head", "download it again")
    _refused(file("cut", data[:-1000]), "is cut off", "download it again")
    _refused(file("lengths", data[:8] + struct.pack("<QQ", 1 << 60, 1 << 60) + data[24:]), "is damaged")
    _refused(write_tiny_gguf(tmp_path / "bert", architecture="bert"), "no text generator but a bert")


@given(st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_damage_is_refused_in_a_line_or_makes_another_head(gguf: Path, tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray(gguf.read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(4, 20_000))] = data.draw(st.integers(0, 255))
    file = tmp_path / "damaged.gguf"
    file.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    try:
        read_head(file)
    except ModelError as error:
        assert "\n" not in error.cause


def test_too_little_memory_is_foreseen(gguf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head = read_head(gguf)
    need = memory_needed(head, 8192, 512, 5)
    monkeypatch.setattr("apex_metal.backend.available_memory", lambda: need)
    refuse_too_large(head, 8192, 512, 5)
    with pytest.raises(
        ModelError, match=r"needs about 0\.\d GB with 6 x 8,192 tokens of context, and 0\.\d GB are free"
    ):
        refuse_too_large(head, 8192, 512, 6)


def test_both_names_are_registered_and_say_what_they_need() -> None:
    entries = {e.name: e for e in load_plugins().catalog.entries("llm_backend")}
    assert entries["llama_cpp"].requires == entries["llama_cpp_metal"].requires == "metal"


def test_without_the_extra_the_line_that_installs_it_is_said(gguf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apex_metal.backend.importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError) as caught:
        load_plugins().catalog.make("llm_backend", f"llama_cpp:{gguf}")
    assert caught.value.remedy == "pip install 'apex-framework[metal]'" and caught.value.exit_status == 3
