"""The folder of a transformers model: where it is, what it says of itself, what it weighs. No library, no network."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from apex_framework.errors import ModelError
from apex_framework.workers import file_digest

_REPOSITORY: Final = re.compile(r"[\w.-]+(?:/[\w.-]+)?")
_TOKENIZER: Final = re.compile(r"tokenizer|vocab|merges|special_tokens|added_tokens|chat_template|spiece")


@dataclass(frozen=True, slots=True)
class Folder:
    """A model on this machine."""

    path: Path
    model_id: str
    config: Mapping[str, Any]

    @property
    def context(self) -> int:
        """Longest context that the model was made for; 0 when it does not tell."""
        nested = self.config.get("text_config")
        for config in (self.config, nested if isinstance(nested, dict) else {}):
            for key in ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length"):
                if type(value := config.get(key)) is int and value > 0:
                    return value
        return 0

    @property
    def dtype(self) -> str:
        """Kind of the stored weights, e.g. ``bfloat16``."""
        return str(self.config.get("dtype") or self.config.get("torch_dtype") or "float32")

    @property
    def weights(self) -> tuple[Path, ...]:
        """The files of weights."""
        return tuple(sorted(self.path.glob("*.safetensors")))

    @property
    def size(self) -> int:
        """Bytes of the weights."""
        return sum(file.stat().st_size for file in self.weights)

    def digests(self) -> tuple[str, str]:
        """(digest of weights and configuration, digest of the tokenizer), each over names and contents."""
        files = sorted(p for p in self.path.iterdir() if p.is_file())
        words = [p for p in files if _TOKENIZER.search(p.name)]
        rest = [p for p in files if p not in words and p.suffix in (".safetensors", ".json")]
        return _together(rest), _together(words)


def find_folder(named: str) -> Folder:
    """The model in a folder, or by its name in the local cache of the Hub; never downloaded. Raises ModelError."""
    path = Path(named).expanduser()
    if not path.exists():
        path = _cached(named)
    if not path.is_dir():
        raise ModelError(f"{named} is a file, not a model's folder", "for a GGUF file take the backend llama_cpp")
    try:
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelError(
            f"{path} holds no model: there is no config.json in it", "name a transformers model"
        ) from error
    except (OSError, ValueError) as error:
        raise ModelError(f"{path / 'config.json'} cannot be read: {error}", "download the model again") from error
    if not isinstance(config, dict):
        raise ModelError(f"{path / 'config.json'} is no configuration", "download the model again")
    folder = Folder(path.absolute(), _name(named, path), config)
    _check(folder)
    return folder


def _check(folder: Folder) -> None:
    kinds = folder.config.get("architectures") or []
    if kinds and not any(re.search(r"CausalLM|LMHead|ConditionalGeneration", str(kind)) for kind in kinds):
        raise ModelError(f"{folder.model_id} is no text generator but a {kinds[0]}", "name a causal language model")
    if not folder.weights:
        cause = f"{folder.path} has no weights in safetensors"
        raise ModelError(cause, "convert them: pickled weights can run code and are never loaded")
    for file in folder.weights:
        _check_whole(file)
    index = folder.path / "model.safetensors.index.json"
    if index.exists():
        try:
            wanted = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelError(f"{index} cannot be read", "download the model again") from error
        if missing := sorted(wanted - {file.name for file in folder.weights}):
            raise ModelError(f"{folder.path} lacks {missing[0]}", "download the model again")


def _check_whole(file: Path) -> None:
    """A safetensors file is 8 bytes of length, so much JSON, then as many bytes as its largest offset says."""
    try:
        with open(file, "rb") as data:
            length = int.from_bytes(data.read(8), "little")
            size = file.stat().st_size
            head = json.loads(data.read(length)) if 8 + length <= size and length < 1 << 28 else {}
        ends = [entry["data_offsets"][1] for name, entry in head.items() if name != "__metadata__"]
    except OSError as error:
        raise ModelError(f"{file}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise ModelError(f"{file} is damaged", "download the model again") from error
    if not ends or 8 + length + max(ends) > size:
        raise ModelError(f"{file} is cut off or damaged: {size:,} bytes", "download the model again")


def _cached(name: str) -> Path:
    """A model's newest snapshot in the cache of huggingface_hub, by its documented layout."""
    remedy = f"name a folder, or fetch it first: hf download {name}"
    if not _REPOSITORY.fullmatch(name) or ".." in name:
        raise ModelError(
            f"there is no model at {name}", "name a folder, or a model that lies in the local cache of the Hub"
        )
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    root = Path(os.environ.get("HF_HUB_CACHE") or home / "hub") / f"models--{name.replace('/', '--')}"
    try:
        snapshot = root / "snapshots" / (root / "refs" / "main").read_text().strip()
    except OSError as error:
        raise ModelError(f"the model {name} is not on this machine", remedy) from error
    if not snapshot.is_dir():
        raise ModelError(f"the model {name} was never fetched completely", remedy)
    return snapshot


def _name(named: str, path: Path) -> str:
    return named if path.parent.name == "snapshots" else path.absolute().name


def _together(files: list[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.name} {file_digest(file)}\n".encode())
    return f"sha256:{digest.hexdigest()}"
