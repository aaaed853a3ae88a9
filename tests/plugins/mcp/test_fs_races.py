"""Names are swapped by another process meanwhile: nothing outside is read or changed. Who checks and then opens is caught."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apex_framework.testing.swaps import OUTSIDE, RACES, Attack
from apex_mcp import beneath
from apex_mcp.gate import Gate, Put, split
from apex_mcp.refusal import Refused

TRIES = 150
ENOUGH = 50_000
"""Tries after which a planted bug would have to be called safe."""

KERNEL = [
    pytest.param(True, marks=pytest.mark.skipif(not beneath.kernel_confines(), reason="no openat2 here")),
    False,
]


def escapes(attack: Attack, tries: int, kernel: bool, *, until_first: bool = False) -> tuple[int, set[str]]:
    """Read and write the file so often while names are swapped: escapes, and codes of refusals."""
    parts, count, codes = split(attack.race.path), 0, set[str]()

    def guarded(work: Callable[[Gate], Any]) -> Any:
        try:
            with Gate(attack.root, kernel=kernel) as gate:
                return work(gate)
        except Refused as refused:
            codes.add(refused.code)
            return b""

    for _ in range(tries):
        count += attack.read(guarded(lambda gate: gate.read(parts)).decode())
        guarded(lambda gate: gate.change({parts: Put(b"written\n")}))
        count += attack.written()
        if until_first and count:
            break
    return count, codes


@pytest.mark.parametrize("kernel", KERNEL, ids=["openat2", "steps"])
@pytest.mark.parametrize("race", RACES)
def test_no_swap_opens_a_way_out(tmp_path: Path, race: str, kernel: bool) -> None:
    with Attack(tmp_path, RACES[race]) as attack:
        count, codes = escapes(attack, TRIES, kernel)
    assert count == 0
    assert codes <= {"E_SYMLINK", "E_TYPE", "E_MISSING", "E_IO"}
    assert attack.target.read_text() == OUTSIDE


def test_several_files_at_once_stay_inside_too(tmp_path: Path) -> None:
    with Attack(tmp_path, RACES["directory"]) as attack:
        for number in range(TRIES):
            try:
                with Gate(attack.root) as gate:
                    gate.change({("d", "f"): Put(b"written\n"), ("d", "new", f"f{number % 3}"): Put(b"x\n")})
            except Refused:
                pass
            assert not attack.written()
    with Gate(attack.root) as gate:
        gate.lock(alone=True)
    assert sorted(os.listdir(attack.outside)) == ["f"]


# --- planted


def checked_then_opened(self: beneath.Root, parts: tuple[str, ...], flags: int) -> int:
    for depth in range(1, len(parts) + 1):
        try:
            info = os.stat("/".join(parts[:depth]), dir_fd=self.fd, follow_symlinks=False)
        except OSError as error:
            raise Refused("E_MISSING", str(error)) from None
        if stat.S_ISLNK(info.st_mode):
            raise Refused("E_SYMLINK", "a link")
    return followed(self, parts, flags)


def followed(self: beneath.Root, parts: tuple[str, ...], flags: int) -> int:
    try:
        return os.open("/".join(parts) or ".", flags & ~os.O_NOFOLLOW, dir_fd=self.fd)
    except OSError as error:
        raise Refused("E_IO", str(error)) from None


@pytest.mark.parametrize("race", ["directory", "parent", "file"])
@pytest.mark.parametrize("planted", [checked_then_opened, followed])
def test_a_gate_that_checks_and_then_opens_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, race: str, planted: Callable[..., int]
) -> None:
    monkeypatch.setattr(beneath.Root, "open", planted)
    with Attack(tmp_path, RACES[race]) as attack:
        count, _ = escapes(attack, ENOUGH, kernel=False, until_first=True)
    assert count > 0


def test_a_write_through_a_hard_link_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def in_place(root: beneath.Root, puts: dict[tuple[str, ...], Put]) -> None:
        for parts, put in puts.items():
            with root.parent(parts) as folder:
                fd = os.open(parts[-1], os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o644, dir_fd=folder)
                with os.fdopen(fd, "wb") as file:
                    file.write(put.data or b"")

    monkeypatch.setattr("apex_mcp.changes.commit", in_place)
    with Attack(tmp_path, RACES["hard link"]) as attack:
        count, _ = escapes(attack, ENOUGH, kernel=False, until_first=True)
    assert count > 0
