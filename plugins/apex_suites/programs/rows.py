"""Rows of a data file that somebody else wrote: JSON lines, or one JSON list; every complaint names its place."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apex_framework.errors import UsageError

MOST_LINE = 16 * 1024**2
"""Bytes of one line."""
MOST_LIST = 256 * 1024**2
"""Bytes of a file that is one JSON list."""

NAMES = {str: "text", int: "a number", list: "a list", dict: "an object"}
MEND = "correct it, or download the file again"
"""What to do about a field."""


@dataclass(frozen=True, slots=True)
class Row:
    """One object and its place, ``file:line`` or ``file[position]``."""

    where: str
    values: Mapping[str, Any]

    def text(self, name: str, default: str | None = None) -> str:
        """A field that holds text. Raises UsageError."""
        value = self._field(name, str, default)
        try:
            value.encode()
        except UnicodeEncodeError:
            raise UsageError(f"{self.where}: field {name!r} is not valid Unicode", "write the file again") from None
        return str(value)

    def texts(self, name: str, default: Sequence[str] | None = None) -> tuple[str, ...]:
        """A field that holds a list of texts. Raises UsageError."""
        value = self._field(name, list, default)
        if not all(isinstance(v, str) for v in value):
            raise UsageError(f"{self.where}: field {name!r} must be a list of texts", MEND)
        return tuple(value)

    def number(self, name: str) -> int:
        """A field that holds a whole number. Raises UsageError."""
        value = self._field(name, int, None)
        if isinstance(value, bool):
            raise UsageError(f"{self.where}: field {name!r} must be a number", MEND)
        return int(value)

    def _field(self, name: str, kind: type, default: Any) -> Any:
        if name not in self.values:
            if default is not None:
                return default
            have = ", ".join(sorted(self.values)[:12]) or "none"
            raise UsageError(f"{self.where}: no field {name!r}", f"its fields are {have}; is this the right file?")
        value = self.values[name]
        if not isinstance(value, kind):
            told = f"{self.where}: field {name!r} must be {NAMES[kind]}, not {type(value).__name__}"
            raise UsageError(told, MEND)
        return value


def read_rows(path: Path) -> tuple[Row, ...]:
    """All rows, in order. Raises UsageError: no such file, not UTF-8, not JSON, a huge line, nothing in it."""
    try:
        with _opened(path) as file:
            return rows_of(path, file)
    except FileNotFoundError:
        raise UsageError(f"{path}: there is no such file", "--data FILE names the file of the suite's tasks") from None
    except (OSError, EOFError, zlib.error) as error:
        told = getattr(error, "strerror", None) or error
        raise UsageError(f"{path}: it cannot be read: {told}", "--data FILE names one file that can be read") from error


def rows_of(path: Path, file: io.BufferedReader) -> tuple[Row, ...]:
    """The same of a file that is open, and unpacked; ``path`` is for complaints. Raises UsageError, and what reading raises."""
    rows = tuple(_list(path, file) if file.peek(1)[:1] == b"[" else _lines(path, file))
    if not rows:
        raise UsageError(f"{path}: it holds no row", "is the download complete?")
    return rows


def unique(rows: Sequence[Row], names: Sequence[str]) -> None:
    """Raises UsageError when a name occurs twice; ``names`` are those of the rows, in order."""
    seen: dict[str, str] = {}
    for row, name in zip(rows, names, strict=True):
        if name in seen:
            raise UsageError(f"{row.where}: {name!r} is there already, at {seen[name]}", "take one of the two out")
        seen[name] = row.where


def _opened(path: Path) -> io.BufferedReader:
    file = path.open("rb")
    if file.peek(2)[:2] != b"\x1f\x8b":
        return file
    file.close()
    return io.BufferedReader(gzip.open(path, "rb"))


def _lines(path: Path, file: io.BufferedReader) -> Iterator[Row]:
    number = 0
    while line := file.readline(MOST_LINE + 1):
        number += 1
        where = f"{path}:{number}"
        if len(line) > MOST_LINE:
            raise UsageError(f"{where}: a line of more than {MOST_LINE:,} bytes", "one task is one line")
        if line.strip():
            yield _row(where, _parsed(where, line))


def _list(path: Path, file: io.BufferedReader) -> Iterator[Row]:
    data = file.read(MOST_LIST + 1)
    if len(data) > MOST_LIST:
        raise UsageError(f"{path}: a list of more than {MOST_LIST:,} bytes", "write one object per line")
    for position, value in enumerate(_parsed(str(path), data)):
        yield _row(f"{path}[{position}]", value)


def _parsed(where: str, data: bytes) -> Any:
    try:
        return json.loads(data.decode())
    except UnicodeDecodeError as error:
        raise UsageError(f"{where}: byte {error.start} is not UTF-8", "the file must be UTF-8 text") from None
    except json.JSONDecodeError as error:
        at = where if error.lineno == 1 else f"{where}:{error.lineno}"
        raise UsageError(f"{at}: not JSON: {error.msg} (column {error.colno})", "one object per line") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: not JSON that can be read: {error}", MEND) from None


def _row(where: str, value: Any) -> Row:
    if not isinstance(value, dict):
        raise UsageError(f"{where}: {type(value).__name__} instead of an object", "one object per line")
    return Row(where, value)
