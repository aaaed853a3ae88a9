"""The tools that look: read, search, list, outline. Long answers come in pages."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping
from typing import Any

from .files import Files, as_text, readable
from .gate import MOST_FILES
from .names import split
from .outline import functions_in
from .plans import MOST_BYTES
from .refusal import Refused, argument, only
from .search import MOST_HITS, search

MOST_FUNCTIONS = 5000

Arguments = Mapping[str, Any]


def read(files: Files, arguments: Arguments, deadline_s: float) -> dict[str, Any]:
    """``fs.read``."""
    only(arguments, "path", "start", "end", "limit", "offset", "length")
    path = argument(arguments, "path", str)
    if "offset" in arguments or "length" in arguments:
        return _piece(files, path, arguments)
    text = files.text(path)
    if text is None:
        raise Refused("E_MISSING", f"no {path}")
    lines = text.split("\n")
    total = len(lines) - (lines[-1] == "")
    if not arguments.keys() & {"start", "end", "limit"}:
        return {"path": path, "text": text, "start": 1, "end": total, "lines": total}
    start, end = argument(arguments, "start", int, 1), argument(arguments, "end", int, total)
    limit = argument(arguments, "limit", int, max(total, 1))
    if start < 1 or limit < 1 or (end < start and ("end" in arguments or "limit" not in arguments)):
        raise Refused("E_ARG", "lines are counted from 1, and end is not before start")
    last = min(end, total, start + limit - 1)
    page = {"path": path, "text": "\n".join(lines[start - 1 : last]), "start": start, "end": last, "lines": total}
    if "limit" in arguments and last < min(end, total):
        page["next"] = last + 1
    return page


def _piece(files: Files, path: str, arguments: Arguments) -> dict[str, Any]:
    if arguments.keys() & {"start", "end", "limit"}:
        raise Refused("E_ARG", "give either lines (start, end, limit) or bytes (offset, length)")
    offset, length = argument(arguments, "offset", int, 0), argument(arguments, "length", int, MOST_BYTES)
    if offset < 0 or not 4 <= length <= MOST_BYTES:
        raise Refused("E_ARG", f"offset is 0 or more, length 4 to {MOST_BYTES:,} bytes")
    data, size = files.piece(path, offset, length)
    begin, end = 0, len(data)
    while begin < min(3, end) and offset and data[begin] & 0xC0 == 0x80:
        begin += 1  # the rest of a character that began before
    if offset + end < size:
        end -= _cut_off(data[-4:])
    page = {"path": path, "text": as_text(data[begin:end], split(path)), "offset": offset + begin, "size": size}
    if offset + end < size:
        page["next"] = offset + end
    return page


def _cut_off(tail: bytes) -> int:
    """Bytes at the end that are the beginning of a character only; the next page begins with them."""
    for back, byte in enumerate(reversed(tail), 1):
        if byte & 0xC0 != 0x80:
            needed = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
            return back if back < needed else 0
    return 0


def look(files: Files, arguments: Arguments, deadline_s: float) -> dict[str, Any]:
    """``fs.search``."""
    only(arguments, "regex", "glob", "path", "after")
    regex, wanted = argument(arguments, "regex", str), _glob(arguments)
    path, _, line = argument(arguments, "after", str, "").rpartition(":")
    if "after" in arguments and not (path and line.isascii() and line.isdigit() and len(line) < 10):
        raise Refused("E_ARG", "after is what an earlier answer gave as next")
    below = argument(arguments, "path", str, "")
    paths, more = _from(files, below, path)
    texts, unread = files.some_texts(p for p in paths if wanted(p))
    files.done_reading()
    hits = search(regex, texts, skip={path: int(line or 0)}, wall_s=deadline_s)
    shown = hits[:MOST_HITS]
    found = [{"path": path, "line": line, "text": text} for path, line, text in shown]
    answer: dict[str, Any] = {"hits": found, "partial": bool(len(hits) > MOST_HITS or unread or more)}
    if len(hits) > MOST_HITS:
        answer["next"] = f"{shown[-1][0]}:{shown[-1][1]}"
    elif unread:
        answer["next"] = f"{unread}:0"
    elif more:
        answer["next"] = f"{more}:{10**9 - 1}"
    return answer


def _from(files: Files, below: str, path: str) -> tuple[list[str], str]:
    """Paths from this one on, itself included."""
    paths, more = files.listing(below, path)
    parts, folder = readable(path), readable(below)
    if parts and parts[: len(folder)] == folder:
        try:
            return [path, *paths] if files.exists(parts) else paths, more
        except Refused:
            pass  # a folder: what lies below it is among the paths
    return paths, more


def listing(files: Files, arguments: Arguments, deadline_s: float) -> dict[str, Any]:
    """``fs.list``."""
    only(arguments, "glob", "path", "after", "limit")
    wanted, limit = _glob(arguments), argument(arguments, "limit", int, MOST_FILES)
    if not 1 <= limit <= MOST_FILES:
        raise Refused("E_ARG", f"limit is 1 to {MOST_FILES:,}")
    paths, more = files.listing(argument(arguments, "path", str, ""), argument(arguments, "after", str, ""))
    found = [p for p in paths if wanted(p)]
    if len(found) > limit:
        found, more = found[:limit], found[limit - 1]
    return {"paths": found, "partial": bool(more), **({"next": more} if more else {})}


def outline(files: Files, arguments: Arguments, deadline_s: float) -> dict[str, Any]:
    """``fs.outline``."""
    only(arguments, "path", "after")
    path, more, unread = argument(arguments, "path", str, ""), "", ""
    if path:
        text = files.text(path)
        if text is None:
            raise Refused("E_MISSING", f"no {path}")
        texts = {path: text}
    else:
        paths, more = files.listing("", argument(arguments, "after", str, ""))
        texts, unread = files.some_texts(p for p in paths if p.endswith(".py") and p not in files.test_files)
        files.done_reading()
    found: list[dict[str, Any]] = []
    done = argument(arguments, "after", str, "")
    for p, text in texts.items():
        functions = functions_in(text)
        if found and len(found) + len(functions) > MOST_FUNCTIONS:
            return {"functions": found, "next": done}
        found.extend({"path": p, "name": name, "first": first, "last": last} for name, first, last in functions)
        done = p
    if unread and texts:
        return {"functions": found, "next": done}
    return {"functions": found, **({"next": more} if more else {})}


def _glob(arguments: Arguments) -> Callable[[str], bool]:
    pattern = argument(arguments, "glob", str, "*")
    if len(pattern) > 1024 or "\0" in pattern:
        raise Refused("E_ARG", "the glob is longer than 1,024 characters, or holds a NUL")
    if pattern.startswith("/") or ".." in pattern.split("/"):
        raise Refused("E_PATH", "a glob is of paths below the workspace")
    return lambda path: fnmatch.fnmatchcase(path, pattern)
