"""A workspace's files during one call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

from apex_framework.interfaces import RunsTests, Workspace

from .gate import Gate, Put
from .names import Parts, check_readable, check_writable, split
from .quota import Quota, Usage
from .refusal import Refused

MOST_SEARCHED = 32 * 1024**2
"""Bytes that one search or outline looks through."""


class Files:
    """Files of a workspace, held for the length of one call: ``alone``, or together with other readers.

    A context manager. Every method raises Refused.
    """

    def __init__(
        self, workspace: Workspace, *, alone: bool = False, quota: Quota | None = None, kernel: bool | None = None
    ) -> None:
        self._workspace = workspace
        self._gate = Gate(workspace.root, kernel=kernel)
        self._quota = quota
        try:
            self._gate.lock(alone=alone)
        except BaseException:
            self._gate.__exit__()
            raise

    def __enter__(self) -> Files:
        return self

    def __exit__(self, *_: object) -> None:
        self._gate.__exit__()

    @cached_property
    def test_files(self) -> frozenset[str]:
        """Paths of the visible tests' files; found when first asked for, as that may take long."""
        tests = self._workspace.discover() if isinstance(self._workspace, RunsTests) else ()
        return frozenset(test.partition("::")[0] for test in tests)

    def done_reading(self) -> None:
        """Let others change files while this call goes on."""
        self._gate.unlock()

    def text(self, path: str) -> str | None:
        """Text of a file, None where there is none."""
        return text_of(self._gate, readable(path))

    def piece(self, path: str, offset: int, length: int) -> tuple[bytes, int]:
        """Bytes of a file of any size, and that size."""
        return self._gate.read_at(readable(path), offset, length)

    def exists(self, parts: Parts) -> bool:
        """True for a regular file, False where there is nothing."""
        return self._gate.present(parts) is not None

    def texts(self, wanted: Callable[[str], bool]) -> dict[str, str]:
        """Text of every text file that is wanted."""
        return self.some_texts(filter(wanted, self.paths()))[0]

    def some_texts(self, paths: Iterable[str]) -> tuple[dict[str, str], str]:
        """Text of these files but binary and huge ones; and the first that would be too much, or nothing."""
        texts: dict[str, str] = {}
        left = MOST_SEARCHED
        for path in paths:
            try:
                text = text_of(self._gate, split(path)) or ""
            except Refused:
                continue  # binary, too large, or swapped meanwhile: not searched
            left -= len(text)
            if left < 0:
                return texts, path
            texts[path] = text
        return texts, ""

    def paths(self) -> list[str]:
        """Every path, in order."""
        return list(self._gate.files())

    def listing(self, below: str = "", after: str = "") -> tuple[list[str], str]:
        """Paths below a folder and after a path, in order, and what to go on after where there are too many."""
        return self._gate.listing(readable(below), readable(after))

    def check(self, path: str) -> Parts:
        """Components of a path that agents may change."""
        return writable(path, self.test_files)

    def replace(self, contents: Mapping[str, str | None]) -> None:
        """New texts (None removes a file): all or none."""
        self.change({self.check(p): None if text is None else Put(as_bytes(text)) for p, text in contents.items()})

    def change(self, puts: Mapping[Parts, Put | None]) -> None:
        """Change files: all or none, within the quota."""
        if self._quota is None:
            self._gate.change(puts)
            return
        workspace, growth = (str(self._workspace.root), *self._gate.identity), self._growth(puts)
        self._quota.admit(workspace, growth, lambda: Usage(*self._gate.usage()))
        self._gate.change(puts)
        self._quota.add(workspace, growth)

    def _growth(self, puts: Mapping[Parts, Put | None]) -> Usage:
        growth = Usage(0, 0)
        for parts, put in puts.items():
            old = self._gate.present(parts)
            if old is not None:
                growth = growth.minus(Usage(old.st_size, 1))
            if put is not None and put.data is not None:
                growth = growth.plus(Usage(len(put.data), 1))
            elif put is not None:
                source = self._gate.present(put.source or parts)
                growth = growth.plus(Usage(source.st_size if source else 0, 1))
        return growth


def readable(path: str) -> Parts:
    """Components of a path that agents may look at. Raises Refused."""
    parts = split(path)
    check_readable(parts)
    return parts


def writable(path: str, read_only: frozenset[str]) -> Parts:
    """Components of a path that agents may change. Raises Refused."""
    parts = split(path)
    if not parts:
        raise Refused("E_PATH", "the workspace itself is not a file")
    check_writable(parts, read_only)
    return parts


def as_bytes(text: str) -> bytes:
    """A text as it is stored. Raises Refused for one that could not be read again."""
    if "\0" in text:
        raise Refused("E_ARG", "the text holds a NUL character: it would be a binary file")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise Refused("E_ARG", "the text is not valid Unicode") from None


def text_of(gate: Gate, parts: Parts) -> str | None:
    """Text of a file, None where there is none. Raises Refused, also for a binary file."""
    try:
        return as_text(gate.read(parts), parts)
    except Refused as refusal:
        if refusal.code == "E_MISSING":
            return None
        raise


def as_text(data: bytes, parts: Parts) -> str:
    """The text that these bytes are. Raises Refused."""
    try:
        if b"\0" not in data:
            return data.decode()
    except UnicodeDecodeError:
        pass
    raise Refused("E_TYPE", f"{'/'.join(parts)} is not UTF-8 text")
