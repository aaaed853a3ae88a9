"""What was tried so far, a line per fault: an interrupted command goes on where it was."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from apex_framework.errors import UsageError

FORMAT = 1


class Journal:
    """Lines in a file beside the result; removed when the result is written. A context manager; one process at a time."""

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self.path = path
        self._head = {"format": FORMAT, **settings}
        self.done: dict[str, dict[str, Any]] = {}
        """What became of each fault that was tried, by its key."""
        self._stable: frozenset[str] | None = None
        self._file: Any = None

    def __enter__(self) -> Journal:
        """Raises UsageError: in use, damaged, or begun with other settings."""
        try:
            self._file = self.path.open("a+b")
        except OSError as error:
            raise UsageError(f"{self.path}: {error.strerror or error}", "choose another place: --out FILE") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise UsageError(f"{self.path} is in use", "wait for the other command, or choose another --out") from None
        try:
            self._read()
        except BaseException:
            self._file.close()
            raise
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._file.close()

    def add(self, key: str, outcome: Mapping[str, Any]) -> None:
        """Write down what became of a fault, durably."""
        self.done[key] = dict(outcome)
        self._append({"key": key, **outcome})

    def known(self, stable: Sequence[str]) -> tuple[str, ...]:
        """Tests that are stable now and were so when the work began."""
        if self._stable is None:
            self._append({"stable": list(stable)})
            self._stable = frozenset(stable)
        return tuple(test for test in stable if test in self._stable)

    def remove(self) -> None:
        """The work is done and nothing need be remembered."""
        self.path.unlink(missing_ok=True)

    def _append(self, row: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(row).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def _read(self) -> None:
        self._file.seek(0)
        data = self._file.read()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):  # the last line was being written when the process ended
            self._file.truncate(len(whole))
        rows = []
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                rows.append(json.loads(line))
            except ValueError:
                raise UsageError(f"{self.path}:{number}: damaged", "remove it to begin anew") from None
        if not rows:
            self._append(self._head)
            return
        if rows[0] != self._head:
            differ = sorted(k for k in {*rows[0], *self._head} if rows[0].get(k) != self._head.get(k))
            raise UsageError(
                f"{self.path} was begun with another {', '.join(differ)}",
                "give the same options, or remove it to begin anew",
            )
        for row in rows[1:]:
            if "stable" in row:
                self._stable = frozenset(row["stable"])
            else:
                self.done[row.pop("key")] = row
