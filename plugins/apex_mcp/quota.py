"""How much calls may add to a workspace."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import NamedTuple

from apex_framework.errors import ConfigError

from .refusal import Refused

BYTES = 256 * 1024**2
FILES = 10_000
_MOST_KNOWN = 1024


def quota_of(spec: str, most_bytes: int = BYTES, most_files: int = FILES) -> Quota:
    """A quota, as ``fs:quota_bytes=N;quota_files=N`` says or as given. Raises ConfigError."""
    most = {"quota_bytes": most_bytes, "quota_files": most_files}
    for part in filter(None, (piece.strip() for piece in spec.split(";"))):
        name, _, value = (x.strip() for x in part.partition("="))
        if name not in most or not (value.isascii() and value.isdecimal()) or len(value) > 15:
            raise ConfigError(f"tool fs: cannot read {part!r}", "as in fs:quota_bytes=1000000;quota_files=500")
        most[name] = int(value)
    return Quota(most["quota_bytes"], most["quota_files"])


class Usage(NamedTuple):
    """Bytes and files."""

    bytes: int
    files: int

    def plus(self, other: Usage) -> Usage:
        """The sum."""
        return Usage(self.bytes + other.bytes, self.files + other.files)

    def minus(self, other: Usage) -> Usage:
        """The difference."""
        return Usage(self.bytes - other.bytes, self.files - other.files)


class Quota:
    """Growth per workspace since its first change here, at most so many bytes and files. Safe between threads.

    What calls add is added up; only when that seems too much is the workspace measured anew, so that what was removed or
    rolled back is not held against it. What a rollback brings back is seen at that time, too, not before.
    """

    def __init__(self, most_bytes: int = BYTES, most_files: int = FILES) -> None:
        self._most = Usage(most_bytes, most_files)
        self._known: OrderedDict[Hashable, tuple[Usage, Usage]] = OrderedDict()
        self._lock = threading.Lock()

    def admit(self, workspace: Hashable, growth: Usage, measure: Callable[[], Usage]) -> None:
        """Allow a change that adds so much. Raises Refused; to remove is always allowed."""
        with self._lock:
            if workspace not in self._known:
                self._known[workspace] = (measure(), Usage(0, 0))
                while len(self._known) > _MOST_KNOWN:
                    self._known.popitem(last=False)
            self._known.move_to_end(workspace)
            start, grown = self._known[workspace]
            if self._over(grown, growth):
                grown = measure().minus(start)
                self._known[workspace] = (start, grown)
                if over := self._over(grown, growth):
                    raise Refused("E_QUOTA", f"no more than {over} may be added to the workspace")

    def add(self, workspace: Hashable, growth: Usage) -> None:
        """Such a change was made."""
        with self._lock:
            if workspace in self._known:
                start, grown = self._known[workspace]
                added = Usage(max(growth.bytes, 0), max(growth.files, 0))
                self._known[workspace] = (start, grown.plus(added))

    def _over(self, grown: Usage, growth: Usage) -> str:
        after = grown.plus(growth)
        if growth.bytes > 0 and after.bytes > self._most.bytes:
            return f"{self._most.bytes:,} bytes"
        if growth.files > 0 and after.files > self._most.files:
            return f"{self._most.files:,} files"
        return ""
