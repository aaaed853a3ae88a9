"""The file that ``--out`` names: written whole or not at all."""

from __future__ import annotations

from pathlib import Path

from ..errors import RunFolderError
from ..ports import SystemFiles


def write_whole(path: Path, text: str, *, make_folder: bool = False) -> None:
    """Write a file, or the one that a link leads to, whole or not at all; into a pipe or a device. Raises RunFolderError."""
    data = text.encode("utf-8", "backslashreplace")
    try:
        if make_folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():  # a terminal or a pipe cannot be replaced
            path.write_bytes(data)
        else:
            SystemFiles().replace(path.resolve(), data)
    except OSError as error:
        raise RunFolderError(f"cannot write {path}: {error.strerror}", "choose another --out") from error
