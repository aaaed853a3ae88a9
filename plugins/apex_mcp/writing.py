"""The tools that change files: write, patch, delete, move, and several of them as one transaction."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .files import Files, as_bytes
from .gate import MOST_BYTES, Parts, Put
from .patching import apply_diff, apply_edits, edits_from
from .refusal import Refused, argument, only

MOST_STEPS = 1000
MOST_TOTAL = 16 * 1024**2
"""Bytes that one transaction may write."""

Arguments = Mapping[str, Any]


class Draft:
    """Files as they will be: each step sees what those before it did, and nothing is touched until ``save``."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._puts: dict[Parts, Put | None] = {}

    def text(self, path: str) -> str | None:
        """Text of a file as it will be, None where there will be none. Raises Refused."""
        parts = self._files.check(path)
        if parts not in self._puts:
            return self._files.text(path)
        put = self._puts[parts]
        if put is None:
            return None
        return put.data.decode() if put.data is not None else self._files.text("/".join(put.source or parts))

    def write(self, path: str, text: str | None) -> None:
        """A new content; None is no file."""
        parts = self._files.check(path)
        before, data = self._puts.get(parts), None if text is None else as_bytes(text)
        if data is not None and len(data) > MOST_BYTES:
            raise Refused("E_SIZE", f"{parts[-1]} would be larger than {MOST_BYTES:,} bytes")
        self._puts[parts] = None if data is None else Put(data, before.source if before else None)
        if sum(len(p.data) for p in self._puts.values() if p and p.data) > MOST_TOTAL:
            raise Refused("E_SIZE", f"a transaction may not write more than {MOST_TOTAL:,} bytes")

    def patch(self, arguments: Arguments) -> None:
        """Edits or a diff, as ``fs.patch`` takes them."""
        only(arguments, "path", "diff", "edits")
        if ("diff" in arguments) == ("edits" in arguments):
            raise Refused("E_ARG", "give either diff or edits")
        path = argument(arguments, "path", str, "")
        if "edits" in arguments:
            edits = edits_from(argument(arguments, "edits", list), path)
            # One name per file: edits of it under two spellings are edits of one text.
            edits = tuple(replace(edit, path="/".join(self._files.check(edit.path))) for edit in edits)
            texts: Mapping[str, str | None] = apply_edits(edits, self.text)
        else:
            texts = apply_diff(argument(arguments, "diff", str), self.text)
            changed = [self._files.check(p) for p in texts]
            if len(set(changed)) < len(changed) or (path and changed != [self._files.check(path)]):
                raise Refused("E_PATCH", f"the diff is not of {path} alone" if path else "a file is repeated")
        for name, text in texts.items():
            self.write(name, text)

    def delete(self, path: str) -> None:
        """No file any more. Raises Refused where there is none."""
        parts = self._files.check(path)
        if not self._exists(parts):
            raise Refused("E_MISSING", f"no {path}")
        self._puts[parts] = None

    def move(self, path: str, to: str) -> None:
        """The file under another name, which must be free."""
        old, new = self._files.check(path), self._files.check(to)
        if not self._exists(old):
            raise Refused("E_MISSING", f"no {path}")
        if self._exists(new):
            raise Refused("E_EXISTS", f"{to} exists already")
        self._puts[new] = self._puts.get(old) or Put(source=old)
        self._puts[old] = None

    def save(self) -> dict[str, Any]:
        """Make it so, all or nothing; the paths that were written and removed. Raises Refused."""
        puts = {p: put for p, put in self._puts.items() if put is not None or self._files.exists(p)}
        self._files.change(puts)
        return {
            "paths": sorted("/".join(p) for p, put in puts.items() if put is not None),
            "removed": sorted("/".join(p) for p, put in puts.items() if put is None),
        }

    def _exists(self, parts: Parts) -> bool:
        return self._puts[parts] is not None if parts in self._puts else self._files.exists(parts)


def write(files: Files, arguments: Arguments, deadline_s: float) -> dict[str, Any]:
    """``fs.write``."""
    only(arguments, "path", "text")
    draft = Draft(files)
    draft.write(argument(arguments, "path", str), argument(arguments, "text", str))
    return {"paths": draft.save()["paths"]}


def patch(files: Files, arguments: Arguments, deadline_s: float) -> dict[str, Any]:
    """``fs.patch``."""
    draft = Draft(files)
    draft.patch(arguments)
    saved = draft.save()
    return {"paths": sorted(saved["paths"] + saved["removed"])}


def delete(files: Files, arguments: Arguments, deadline_s: float) -> dict[str, Any]:
    """``fs.delete``."""
    only(arguments, "path")
    draft = Draft(files)
    draft.delete(argument(arguments, "path", str))
    return draft.save()


def move(files: Files, arguments: Arguments, deadline_s: float) -> dict[str, Any]:
    """``fs.move``."""
    only(arguments, "path", "to")
    draft = Draft(files)
    draft.move(argument(arguments, "path", str), argument(arguments, "to", str))
    return draft.save()


def transaction(files: Files, arguments: Arguments, deadline_s: float) -> dict[str, Any]:
    """``fs.transaction``."""
    only(arguments, "steps")
    steps = argument(arguments, "steps", list)
    if not 1 <= len(steps) <= MOST_STEPS:
        raise Refused("E_ARG", f"a transaction has 1 to {MOST_STEPS:,} steps")
    draft, until = Draft(files), time.monotonic() + deadline_s
    for number, step in enumerate(steps, 1):
        if time.monotonic() > until:
            raise Refused("E_TIMEOUT", f"step {number} would begin after {deadline_s:g} s; nothing was changed")
        try:
            _step(draft, step)
        except Refused as refused:
            raise Refused(refused.code, f"step {number}: {refused.detail}") from None
    return draft.save()


def _step(draft: Draft, step: object) -> None:
    if not isinstance(step, Mapping):
        raise Refused("E_ARG", "each step is an object with op: write, patch, delete or move")
    op, rest = argument(step, "op", str), {name: value for name, value in step.items() if name != "op"}
    if op == "write":
        only(rest, "path", "text")
        draft.write(argument(rest, "path", str), argument(rest, "text", str))
    elif op == "patch":
        draft.patch(rest)
    elif op == "delete":
        only(rest, "path")
        draft.delete(argument(rest, "path", str))
    elif op == "move":
        only(rest, "path", "to")
        draft.move(argument(rest, "path", str), argument(rest, "to", str))
    else:
        raise Refused("E_ARG", f"no op {op[:40]!r}; known: write, patch, delete, move")
