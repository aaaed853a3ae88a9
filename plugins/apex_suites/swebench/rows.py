"""Instances in the SWE-bench format: JSON lines (plain, gzip, zstd) or parquet, checked field by field."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from apex_framework.errors import MissingExtraError, UsageError

from ..programs.rows import Row, read_rows, rows_of, unique

SPLITS: Final = ("train", "dev", "test")
CONTAINER: Final = ("image", "eval_script", "log_parser", "eval_type")
"""Columns that the data of ``swebench`` 5 have besides: how an instance is judged in its container."""
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,199}")
_REPO: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*/[A-Za-z0-9_.-]+")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class Instance:
    """One row, with the official column names. The two lists are names as the official log parsers give them."""

    instance_id: str
    repo: str
    base_commit: str
    patch: str
    test_patch: str
    problem_statement: str
    FAIL_TO_PASS: tuple[str, ...]
    PASS_TO_PASS: tuple[str, ...]
    version: str = ""
    hints_text: str = ""
    created_at: str = ""
    environment_setup_commit: str = ""
    split: str = "test"
    container: Mapping[str, str] = field(default_factory=dict, compare=False)
    """The columns of ``CONTAINER`` that it has."""

    def to_row(self) -> dict[str, Any]:
        """The official form: both lists as JSON texts; without what only a container needs."""
        row = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "container"}
        return {**row, **{name: json.dumps(row[name]) for name in ("FAIL_TO_PASS", "PASS_TO_PASS")}}


def read_instances(path: Path) -> tuple[Instance, ...]:
    """Every instance of a file, in order.

    A row without ``split`` belongs to ``dev`` when the file's name begins with that word, else to ``test``. Raises UsageError
    with file and line for a missing field, a wrong type, an id that occurs twice; MissingExtraError for a form whose reader is
    not installed.
    """
    rows = _rows(path)
    default = "dev" if re.match(r"dev(?![a-z])", path.name) else "test"
    found = tuple(_instance(row, default) for row in rows)
    unique(rows, [instance.instance_id for instance in found])
    return found


def _rows(path: Path) -> tuple[Row, ...]:
    if path.suffix == ".parquet":
        return tuple(_parquet(path))
    if path.suffix == ".zst":
        return _zstd(path)
    return read_rows(path)


def _zstd(path: Path) -> tuple[Row, ...]:
    try:
        import zstandard
    except ImportError:
        raise MissingExtraError(f"reading {path.name}", "swebench", "zstandard") from None
    unpacking = zstandard.ZstdDecompressor(max_window_size=2**27)
    try:
        with path.open("rb") as file, unpacking.stream_reader(file, read_across_frames=True) as stream:
            return rows_of(path, io.BufferedReader(stream))
    except (OSError, zstandard.ZstdError) as error:
        raise _unreadable(path, error) from None


def _parquet(path: Path) -> Iterator[Row]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise MissingExtraError(f"reading {path.name}", "swebench", "pyarrow") from None
    try:
        values = parquet.read_table(path).to_pylist()
    except (OSError, ArrowException) as error:
        raise _unreadable(path, error) from None
    if not values:
        raise UsageError(f"{path}: it holds no row", "is the download complete?")
    for number, value in enumerate(values, 1):
        yield _row(f"{path}:{number}", value)


def _row(where: str, value: object) -> Row:
    if not isinstance(value, Mapping):
        raise UsageError(f"{where}: {type(value).__name__} instead of an object", "one object per line")
    return Row(where, value)


def _unreadable(path: Path, error: Exception) -> UsageError:
    if isinstance(error, FileNotFoundError):
        return UsageError(f"{path}: there is no such file", "--data FILE names the file of the suite's tasks")
    told = getattr(error, "strerror", None) or (str(error).splitlines() or [type(error).__name__])[0]
    return UsageError(f"{path}: it cannot be read: {told}", "is the download complete?")


def _instance(row: Row, default_split: str) -> Instance:
    instance = Instance(
        instance_id=_matching(row, "instance_id", _ID, "a name of letters, digits and _ . + -"),
        repo=_matching(row, "repo", _REPO, "owner/name"),
        base_commit=_matching(row, "base_commit", _COMMIT, "a whole hash of 40 digits"),
        patch=_diff(row, "patch"),
        test_patch=_diff(row, "test_patch"),
        problem_statement=row.text("problem_statement"),
        FAIL_TO_PASS=_names(row, "FAIL_TO_PASS"),
        PASS_TO_PASS=_names(row, "PASS_TO_PASS"),
        split=row.text("split", default_split),
        **{name: _optional(row, name) for name in ("version", "hints_text", "created_at", "environment_setup_commit")},
        container={name: text for name in CONTAINER if (text := _optional(row, name))},
    )
    if not instance.problem_statement.strip():
        raise UsageError(f"{row.where}: field 'problem_statement' is empty", "a task needs an issue")
    if not instance.FAIL_TO_PASS:
        raise UsageError(f"{row.where}: field 'FAIL_TO_PASS' is empty", "without it nothing shows that a patch helps")
    if both := set(instance.FAIL_TO_PASS) & set(instance.PASS_TO_PASS):
        raise UsageError(f"{row.where}: {min(both)!r} is in FAIL_TO_PASS and in PASS_TO_PASS", "take it out of one")
    if instance.split not in SPLITS:
        raise UsageError(f"{row.where}: unknown split {instance.split!r}", f"known: {', '.join(SPLITS)}")
    return instance


def _matching(row: Row, name: str, pattern: re.Pattern[str], wanted: str) -> str:
    text = row.text(name)
    if not pattern.fullmatch(text):
        raise UsageError(f"{row.where}: field {name!r} is {text[:60]!r}, not {wanted}")
    return text


def _diff(row: Row, name: str) -> str:
    text = row.text(name)
    if not re.search(r"^--- ", text, re.MULTILINE) and "diff --git " not in text:
        raise UsageError(f"{row.where}: field {name!r} is no unified diff", "is this the right file?")
    return text


def _optional(row: Row, name: str) -> str:
    """Text; empty where there is none. Some copies hold numbers and dates here."""
    value = row.values.get(name)
    return "" if value is None else str(value)


def _names(row: Row, name: str) -> tuple[str, ...]:
    """A list of texts, or the JSON text of one: copies of the data have either."""
    value = row.values.get(name)
    if name not in row.values:
        return row.texts(name)  # which says so
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise UsageError(f"{row.where}: field {name!r} is text, but not a JSON list", "is the row whole?") from None
    return Row(row.where, {**row.values, name: value}).texts(name)
