"""Plans of changes that are under way, each sealed: what task code writes into a workspace is never taken for one.

The seal is made with a key outside every workspace, in the user's state folder, which a strong sandbox does not show to
what it confines. It binds a plan to its workspace and its staging folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import logging
import os
import secrets
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from .beneath import FILE
from .names import Parts, split
from .refusal import Refused

MOST_BYTES = 1024 * 1024
"""Size of the largest file whose content the tools read or write."""
PLAN = "plan.json"
KEY_BYTES = 32

_log = logging.getLogger(__name__)


class Damaged(Exception):
    """A plan that is not ours, not of this folder, or not whole."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of a change."""

    parts: Parts
    old: bool
    """There was a file, and a link to it is staged as ``old-N``."""
    new: bool
    """There will be one, staged as ``new-N``."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a change does: its files, and folders that it makes, outer ones first."""

    entries: tuple[Entry, ...] = ()
    made: tuple[Parts, ...] = ()

    def sealed(self, place: str) -> bytes:
        """As it is written down. ``place`` names workspace and staging folder."""
        rows = [["/".join(e.parts), e.old, e.new] for e in self.entries]
        body = json.dumps({"entries": rows, "made": ["/".join(p) for p in self.made]})
        return json.dumps({"plan": body, "seal": _seal(place, body)}).encode()


def read_plan(stage: int, place: str) -> Plan:
    """The plan in a staging folder; an empty one where there is none: nothing had been changed then. Raises Damaged."""
    try:
        with os.fdopen(os.open(PLAN, FILE, dir_fd=stage), "rb") as file:
            told = json.loads(file.read(2 * MOST_BYTES))
        body, seal = told["plan"], told["seal"]
        if not hmac.compare_digest(str(seal).encode(), _seal(place, body).encode()):
            raise Damaged("its seal is not ours")
        plan = json.loads(body)
        entries = tuple(Entry(split(path), old is True, new is True) for path, old, new in plan["entries"])
        made = tuple(split(path) for path in plan["made"])
    except FileNotFoundError:
        return Plan()
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, Refused) as error:
        raise Damaged(f"it cannot be read: {type(error).__name__}") from None
    return Plan(tuple(e for e in entries if e.parts), tuple(p for p in made if p))


def _seal(place: str, body: str) -> str:
    return hmac.new(_key(), f"{place}\0{body}".encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


@lru_cache(maxsize=1)
def _key() -> bytes:
    """The user's key, made at its first use. Without a folder for it, one of this process alone, which is said."""
    from platformdirs import user_state_path

    path = user_state_path("apex-framework", appauthor=False) / "changes.key"
    try:
        if (found := _read(path)) is None:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            part = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
            fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                with os.fdopen(fd, "wb") as file:
                    file.write(secrets.token_bytes(KEY_BYTES))
                with contextlib.suppress(FileExistsError):  # another process was first: its key is the key
                    os.link(part, path)
            finally:
                part.unlink()
            found = _read(path)
    except OSError as error:
        found, why = None, str(error.strerror)
    else:
        why = "it is not a key"
    if found is None:
        _log.warning("%s: %s; a change that is cut short by a kill will not be taken back later", path, why)
        return secrets.token_bytes(KEY_BYTES)
    return found


def _read(path: Path) -> bytes | None:
    """The key; None where there is none. Raises OSError for a file that is none."""
    try:
        fd = os.open(path, FILE)
    except FileNotFoundError:
        return None
    with os.fdopen(fd, "rb") as file:
        data = file.read(KEY_BYTES + 1)
        info = os.fstat(fd)
    if len(data) != KEY_BYTES or info.st_uid != os.geteuid() or info.st_mode & 0o077:
        raise OSError(0, "it is not a key of this user alone")
    return data
