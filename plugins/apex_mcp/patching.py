"""Changes to several texts at once: search/replace edits and unified diffs. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apex_framework.interfaces.prompting import Edit, GrammarError, apply_edit

from .refusal import Refused, argument, only

MOST_HUNKS = 1000
MOST_EDITS = 1000
MOST_COMPARED = 5_000_000
"""Lines that may be compared to find the places of one file's hunks."""
MOST_SOUGHT = 50_000_000
"""Lines that may be compared to find the places of all edits of a call."""
_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_FORBIDDEN = (
    "rename from",
    "rename to",
    "copy from",
    "copy to",
    "Binary files",
    "GIT binary patch",
    "old mode",
    "new mode",
)

Read = Callable[[str], str | None]
"""Text of a path, None where there is no file."""


def edits_from(items: Sequence[Any], default_path: str = "") -> tuple[Edit, ...]:
    """Edits from JSON objects with path, line, search, replace. Raises Refused."""
    if len(items) > MOST_EDITS:
        raise Refused("E_ARG", f"more than {MOST_EDITS:,} edits at once")
    edits: list[Edit] = []
    for item in items:
        if not isinstance(item, Mapping):
            raise Refused("E_ARG", "each edit is an object with path, line, search and replace")
        only(item, "path", "line", "search", "replace")
        path = argument(item, "path", str, default_path)
        search, replace = argument(item, "search", str), argument(item, "replace", str)
        edits.append(Edit(path, argument(item, "line", int, 1), search, replace))
    if not edits or not all(e.path for e in edits):
        raise Refused("E_ARG", "edits must not be empty and need a path each")
    return tuple(edits)


def apply_edits(edits: Sequence[Edit], read: Read) -> dict[str, str]:
    """New texts by path, edits applied in order. Raises Refused when one does not apply."""
    texts: dict[str, str] = {}
    sought = 0
    for edit in edits:
        text = texts.get(edit.path)
        if text is None:
            text = read(edit.path)
        if text is None:
            raise Refused("E_MISSING", f"no {edit.path}")
        if not edit.search:
            raise Refused("E_PATCH", f"the search text for {edit.path} is empty")
        lines, first = text.split("\n"), edit.search.partition("\n")[0]
        sought += len(lines) + lines.count(first) * edit.search.count("\n")
        if sought > MOST_SOUGHT:
            raise Refused("E_PATCH", f"too much work to find the places of the edits in {edit.path}")
        try:
            texts[edit.path] = apply_edit(text, edit)
        except GrammarError as error:
            raise Refused("E_PATCH", str(error)) from None
    return texts


@dataclass(slots=True)
class _Hunk:
    start: int
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _FileDiff:
    old: str | None
    new: str | None
    hunks: list[_Hunk] = field(default_factory=list)


def apply_diff(diff: str, read: Read) -> dict[str, str | None]:
    """New texts by path (None: removed). Context must match exactly, at the nearest place. Raises Refused."""
    changes: dict[str, str | None] = {}
    for part in _parse(diff):
        path = part.new or part.old
        if path is None or (part.old and part.new and part.old != part.new) or path in changes:
            raise Refused("E_PATCH", "renames and repeated files are not taken")
        text = read(path)
        if (text is None) != (part.old is None):
            raise Refused("E_PATCH", f"{path} {'exists already' if text is not None else 'does not exist'}")
        patched = _apply(text or "", part.hunks, path)
        if part.new is None and patched:
            raise Refused("E_PATCH", f"{path} is not empty after its removal")
        changes[path] = None if part.new is None else patched
    return changes


def _parse(diff: str) -> list[_FileDiff]:
    lines = diff.split("\n")
    if lines[-1] == "":
        lines.pop()
    files: list[_FileDiff] = []
    hunks = at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ "):
            files.append(_FileDiff(_name(line), _name(lines[at + 1])))
            at += 2
        elif match := _HUNK.match(line):
            hunks += 1
            if not files or hunks > MOST_HUNKS:
                raise Refused("E_PATCH", "a hunk without a file, or too many hunks")
            hunk, at = _hunk(lines, at + 1, match)
            files[-1].hunks.append(hunk)
        elif line.startswith(_FORBIDDEN):
            raise Refused("E_PATCH", f"not taken: {line[:40]}")
        else:
            at += 1
    if not files or not all(f.hunks for f in files):
        raise Refused("E_PATCH", "not a unified diff")
    return files


def _name(line: str) -> str | None:
    name = line[4:].split("\t")[0].rstrip("\r")
    if name == "/dev/null":
        return None
    return name[2:] if name.startswith(("a/", "b/")) else name


def _hunk(lines: list[str], at: int, match: re.Match[str]) -> tuple[_Hunk, int]:
    old_left = int(match[2] if match[2] is not None else 1)
    new_left = int(match[4] if match[4] is not None else 1)
    hunk = _Hunk(int(match[1]) - (1 if old_left else 0))
    while old_left > 0 or new_left > 0:
        line = lines[at] if at < len(lines) else "?"
        sign, text = line[:1] or " ", line[1:] + "\n"
        if sign not in " +-" or (sign != "+" and not old_left) or (sign != "-" and not new_left):
            raise Refused("E_PATCH", f"malformed hunk at line {at + 1} of the diff")
        at += 1
        if at < len(lines) and lines[at].startswith("\\"):
            text = text[:-1]
            at += 1
        if sign != "+":
            hunk.old.append(text)
            old_left -= 1
        if sign != "-":
            hunk.new.append(text)
            new_left -= 1
    return hunk, at


def _apply(text: str, hunks: list[_Hunk], path: str) -> str:
    lines = [f"{part}\n" for part in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    if not lines[-1]:
        lines.pop()
    shift = floor = compared = 0
    for hunk in hunks:
        wanted = hunk.start + shift
        size = len(hunk.old)
        place = -1
        for place in _outward(wanted, floor, len(lines) - size):
            compared += 1
            if not size:
                break
            if lines[place] == hunk.old[0]:
                compared += size
                if lines[place : place + size] == hunk.old:
                    break
            if compared > MOST_COMPARED:
                raise Refused("E_PATCH", f"too much work to find the places of the hunks in {path}")
        else:
            place = -1
        if place < 0 or (not size and wanted > len(lines)):
            raise Refused("E_PATCH", f"a hunk does not apply to {path} at line {hunk.start + 1}")
        lines[place : place + size] = hunk.new
        floor = place + len(hunk.new)
        shift = place - hunk.start + len(hunk.new) - size
    return "".join(lines)


def _outward(wanted: int, first: int, last: int) -> Iterator[int]:
    """Places from ``first`` to ``last``, the nearest first, of two as near the earlier."""
    below, above = min(wanted, last), max(wanted + 1, first)
    while below >= first or above <= last:
        if below >= first and (above > last or wanted - below <= above - wanted):
            yield below
            below -= 1
        else:
            yield above
            above += 1
