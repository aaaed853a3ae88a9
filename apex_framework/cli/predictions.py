"""Patches in the form of the official harness, and its reports; every complaint names its place."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ..errors import UsageError
from ..interfaces import Verdict

IMPORTED: Final = "swebench/imported"
_NOT_RESOLVED: Final = ("unresolved_ids", "empty_patch_ids", "error_ids")
"""A patch that does not apply, or whose tests come to no end, is an error there, and counts as unresolved."""
_NOT_JUDGED: Final = "incomplete_ids"
_BROKEN: Final = "infra_failure_ids"
"""Names of ``error_ids`` and ``unresolved_ids``, since 5.0; reports before that do not tell a broken machine from a patch."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """One patch, and where it was read."""

    where: str
    instance_id: str
    model: str
    patch: str


def read_predictions(path: Path) -> tuple[Prediction, ...]:
    """JSON lines, or one JSON list. Raises UsageError: a missing field, a wrong type, two patches for one task."""
    seen: dict[str, str] = {}
    found: list[Prediction] = []
    for where, row in json_rows(path):
        if not isinstance(row, dict):
            raise UsageError(f"{where}: {type(row).__name__} instead of an object", "one prediction per line")
        name, patch, model = (row.get(key) for key in ("instance_id", "model_patch", "model_name_or_path"))
        if not isinstance(name, str) or "model_patch" not in row or not isinstance(patch, str | None):
            raise UsageError(f"{where}: instance_id and model_patch are needed, as texts", "see predictions/ of a run")
        if name in seen:
            raise UsageError(
                f"{where}: a second patch for {name!r}, the first is at {seen[name]}", "one file per system"
            )
        seen[name] = where
        found.append(Prediction(where, name, model if isinstance(model, str) else "", patch or ""))
    if not found:
        raise UsageError(f"{path}: it holds no prediction", "is it the right file?")
    return tuple(found)


def imported_verdicts(path: Path) -> dict[str, Verdict]:
    """What a report of the official harness says of each task. Raises UsageError.

    Not judged are tasks without a prediction, and errors that the report itself puts down to the machine.
    """
    report = _json(str(path), _text(path))
    if not isinstance(report, dict) or not isinstance(report.get("resolved_ids"), list):
        raise UsageError(f"{path}: no report of the official harness", "it has resolved_ids and unresolved_ids")
    found: dict[str, Verdict] = {}
    broken = frozenset(_names(path, report, _BROKEN))
    for key in (_NOT_JUDGED, *_NOT_RESOLVED, "resolved_ids"):
        for name in _names(path, report, key):
            if name in found and key == "resolved_ids":
                raise UsageError(f"{path}: {name!r} is resolved and not", "is the report whole?")
            error = f"the report lists it in {key}" if key == _NOT_JUDGED else ""
            if key == "error_ids" and name in broken:
                error = f"the report lists it in {key} and {_BROKEN}"
            found[name] = Verdict(key == "resolved_ids", IMPORTED, detail=key, infrastructure_error=error)
    return found


def _names(path: Path, report: dict[str, Any], key: str) -> list[str]:
    names = report.get(key, [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UsageError(f"{path}: {key} is no list of names")
    return names


def json_rows(path: Path) -> Iterator[tuple[str, Any]]:
    """Place and value of each line; of each item where the file is one list, or one object of objects. Raises UsageError."""
    text = _text(path)
    # No other character ends a line: patches may hold those that str.splitlines takes for ends.
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if text.lstrip().startswith("["):
        yield from ((f"{path}[{at}]", row) for at, row in enumerate(_json(str(path), text)))
    elif path.suffix == ".json" and (table := _table(text)):
        yield from ((f"{path}[{name!r}]", row) for name, row in table.items())
    else:
        yield from ((f"{path}:{number}", _json(f"{path}:{number}", line)) for number, line in lines)


def _table(text: str) -> dict[str, Any]:
    """A file that is one object of objects, as some agents write predictions; empty for any other."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) and all(isinstance(row, dict) for row in value.values()) else {}


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UsageError(f"{path}: no whole gzip file: {error}") from None
    except OSError as error:
        raise UsageError(f"{path}: it cannot be read: {error.strerror}", "name a file") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: byte {error.start} is not UTF-8") from None


def _json(where: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: not JSON: {error}", "one object per line") from None
