"""An attacker beside a workspace: a process that swaps names as fast as it can while a tool is asked for a file.

Whoever checks a path and then opens it is sooner or later handed another file than the one that was checked.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

INSIDE: Final = "inside\n"
OUTSIDE: Final = "outside\n"


@dataclass(frozen=True, slots=True)
class Race:
    """One kind of swap. ``path`` is what the tool is asked for, ``swapped`` the name that is swapped for a link."""

    path: str
    swapped: str
    hard: bool = False
    """A second hard link to the file outside, which no reader can tell from a file: only writing through it counts."""


RACES: Final[Mapping[str, Race]] = {
    "directory": Race("d/f", "d"),
    "file": Race("f", "f"),
    "parent": Race("a/b/c/f", "a"),
    "hard link": Race("h/f", "h/f", hard=True),
}

_ATTACK = """
import ctypes, os, select, sys
name, link, target, soft = sys.argv[1:]
call = getattr(ctypes.CDLL(None), "renameat2", None)
def exchange():
    if call is None or call(-100, os.fsencode(name), -100, os.fsencode(link), 2):
        os.rename(name, name + ".parked")
        os.rename(link, name)
        os.rename(name + ".parked", link)
def again():
    # A write may have put a file where the link was: then there is nothing left to swap.
    if not os.path.islink(name) and not os.path.islink(link):
        os.unlink(link)
        os.symlink(soft, link)
def relink():
    try:
        os.unlink(link)
    except FileNotFoundError:
        pass
    os.link(target, link)
    os.rename(link, name)
print("ready", flush=True)
while not select.select([0], [], [], 0)[0]:
    for _ in range(64):
        try:
            relink() if target else exchange()
        except OSError:
            pass
    try:
        target or again()
    except OSError:
        pass
"""


class Attack:
    """A folder ``root`` with the file that is asked for, one ``outside`` of it, and the process that swaps.

    A context manager; the process ends with it, and with the process that started it.
    """

    def __init__(self, folder: Path, race: Race) -> None:
        self.root, self.outside, self.race = folder / "root", folder / "outside", race
        inner = Path(race.path).relative_to(race.swapped)
        self.target = self.outside / inner if inner.parts else self.outside / "f"
        for path, text in ((self.root / race.path, INSIDE), (self.target, OUTSIDE)):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self._link = self.root / "link"
        self._goal = self.outside if inner.parts else self.target
        if not race.hard:
            self._link.symlink_to(self._goal)
        self._names = self._outside_names()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        target = str(self.target) if self.race.hard else ""
        arguments = (str(self.root / self.race.swapped), str(self._link), target, str(self._goal))
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _ATTACK, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            assert self._process.stdin is not None and self._process.stdout is not None
            self._process.stdin.close()
            self._process.wait()
            self._process.stdout.close()

    def read(self, text: str) -> bool:
        """True if what a tool read came from outside."""
        return text == OUTSIDE and not self.race.hard

    def written(self) -> bool:
        """True if something outside was changed since it was last asked; then it is put back."""
        names = self._outside_names()
        for name in names - self._names:
            (self.outside / name).unlink()
        try:
            changed = self.target.read_text() != OUTSIDE
        except FileNotFoundError:
            changed = True
        if changed:
            self.target.write_text(OUTSIDE)
        return changed or names != self._names

    def _outside_names(self) -> set[str]:
        return {
            os.path.relpath(os.path.join(folder, name), self.outside)
            for folder, _, names in os.walk(self.outside)
            for name in names
        }
