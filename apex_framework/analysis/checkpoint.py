"""Checkpoints of controllers as two files: arrays in ``.npz``, settings in ``.json`` beside it. Never a pickle.

The same checkpoint gives the same bytes: the archive is written without compression and without clock times.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import ArtifactError
from ..interfaces import Checkpoint


def checkpoint_bytes(checkpoint: Checkpoint) -> bytes:
    """The ``.npz`` archive of its arrays, as float64."""
    import numpy

    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(checkpoint.arrays):
            member = io.BytesIO()
            array = numpy.asarray(checkpoint.arrays[name], dtype=numpy.float64)
            numpy.lib.format.write_array(member, numpy.ascontiguousarray(array), version=(1, 0), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0)), member.getvalue())
    return out.getvalue()


def checkpoint_lists(checkpoint: Checkpoint) -> dict[str, Any]:
    """JSON-ready keywords of an equal Checkpoint, arrays as nested lists: for what travels without files."""
    import numpy

    arrays = {name: numpy.asarray(array).tolist() for name, array in checkpoint.arrays.items()}
    return {"arrays": arrays, "meta": dict(checkpoint.meta)}


def checkpoint_digest(checkpoint: Checkpoint) -> str:
    """SHA-256 over arrays and settings."""
    settings = json.dumps(dict(checkpoint.meta), sort_keys=True, separators=(",", ":")).encode()
    return hashlib.sha256(checkpoint_bytes(checkpoint) + settings).hexdigest()


def write_checkpoint(path: Path, checkpoint: Checkpoint, about: Mapping[str, Any] | None = None) -> str:
    """Write ``path`` (``.npz``) and its ``.json``; ``about`` (seed, command, suite digest) goes into the latter.

    Returns the digest, which does not depend on ``about``.
    """
    path = path.with_suffix(".npz")
    digest = checkpoint_digest(checkpoint)
    data = {"meta": dict(checkpoint.meta), "digest": digest, "about": dict(about or {})}
    for target, content in (
        (path, checkpoint_bytes(checkpoint)),
        (path.with_suffix(".json"), (json.dumps(data, indent=2, sort_keys=True) + "\n").encode()),
    ):
        temporary = target.with_name(target.name + ".part")
        temporary.write_bytes(content)
        temporary.replace(target)
    return digest


def read_checkpoint(path: Path) -> Checkpoint:
    """Read what ``write_checkpoint`` wrote. Raises ArtifactError when it is missing or damaged."""
    import numpy

    path = path.with_suffix(".npz")
    try:
        data = json.loads(path.with_suffix(".json").read_text())
        with numpy.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        checkpoint = Checkpoint(arrays, data["meta"])
        digest = data["digest"]
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise ArtifactError(f"cannot read the policy {path}: {error}", "train it again: apex train") from error
    if checkpoint_digest(checkpoint) != digest:
        raise ArtifactError(f"the policy {path} does not match its digest", "train it again: apex train")
    return checkpoint
