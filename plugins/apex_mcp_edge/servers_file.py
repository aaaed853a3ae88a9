"""The operator's file of outside MCP servers: the ``mcpServers`` JSON that hosts use, read strictly."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from apex_framework.errors import ConfigError

from .hosts import once
from .keys import check_keys, nearest

NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}")
OWN: Final = frozenset({"fs", "git", "test", "resource"})
"""Names of our own servers: nobody else's tools may look like them."""
TIMEOUT_S: Final = 60.0
START_S: Final = 20.0
FILE_BYTES: Final = 1024**2
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_OURS: Final = ("inward", "pin", "read_only", "start_s", "timeout_s", "tools")


@dataclass(frozen=True, slots=True)
class OutsideServer:
    """One outside server, as its operator describes it."""

    name: str
    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """All of the environment that it gets, but for PATH."""
    cwd: Path | None = None
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = TIMEOUT_S
    start_s: float = START_S
    tools: frozenset[str] | None = None
    """Its tools that are taken; None: all."""
    read_only: frozenset[str] = frozenset()
    """Its tools of which the operator, not the server, says that they change nothing."""
    inward: bool = False
    """True when the operator says that its effects stay in itself: they are then not on disk before they are made."""
    pin: str = ""
    """What its tools must hash to; empty: to what they are at the start."""


def read_servers(path: Path) -> tuple[OutsideServer, ...]:
    """The servers of a file, in its order. Raises ConfigError, which names the file and the server."""
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > FILE_BYTES:
            raise ConfigError(f"mcp_servers: {path} is no file of at most {FILE_BYTES:,} bytes")
        text = path.read_text(encoding="utf-8")
        if facts.st_mode & stat.S_IWOTH:
            raise ConfigError(f"mcp_servers: everybody can write to {path}", f"chmod o-w {path}")
        whole = json.loads(text, object_pairs_hook=once)
    except OSError as error:
        raise ConfigError(
            f"mcp_servers: {path} cannot be read: {error.strerror or error}", "name an mcpServers file that is there"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"mcp_servers: {path} is not plain JSON: {error}") from error
    servers = whole.get("mcpServers") if isinstance(whole, dict) else None
    if not isinstance(servers, dict):
        raise ConfigError(f"mcp_servers: {path} has no object mcpServers", '{"mcpServers": {"NAME": {"command": ...}}}')
    found = [_server(path, name, given) for name, given in servers.items() if not _disabled(given)]
    if not found:
        raise ConfigError(f"mcp_servers: {path} names no server")
    return tuple(found)


def _disabled(given: object) -> bool:
    return isinstance(given, dict) and given.get("disabled") is True


def _server(path: Path, name: str, given: object) -> OutsideServer:
    where = f"mcp_servers: {path}: server {name[:40]!r}"
    if not NAME.fullmatch(name):
        raise ConfigError(f"{where}: a name is small letters, digits, '_' and '-', at most 32")
    if name in OWN:
        raise ConfigError(f"{where} has the name of one of our own (E_DUP)", "give it another")
    if not isinstance(given, dict):
        raise ConfigError(f"{where} is a {type(given).__name__}, not an object")
    check_keys(where, given)
    ours = _ours(where, given.get("apex", {}))
    if ("command" in given) == ("url" in given):
        raise ConfigError(f"{where} needs either a command or a url")
    if "url" in given:
        headers = _texts(where, "headers", given.get("headers", {}))
        return OutsideServer(name, url=_url(where, given["url"]), headers=headers, **ours)
    folder = Path(_text(where, "cwd", given["cwd"])) if "cwd" in given else path.absolute().parent
    if not folder.is_dir():
        raise ConfigError(f"{where}: cwd {str(folder)!r} is no folder")
    env = {"PATH": os.environ.get("PATH", os.defpath), **_texts(where, "env", given.get("env", {}))}
    return OutsideServer(name, argv=_argv(where, given, folder, env["PATH"]), env=env, cwd=folder, **ours)


def _argv(where: str, given: Mapping[str, Any], folder: Path, search: str) -> tuple[str, ...]:
    command = _text(where, "command", given["command"])
    arguments = given.get("args", [])
    if not isinstance(arguments, list):
        raise ConfigError(f"{where}: args is a {type(arguments).__name__}, not a list")
    rest = [_text(where, f"args[{i}]", a, empty=True) for i, a in enumerate(arguments)]
    program = str(folder / command) if "/" in command else command
    found = shutil.which(program, path=search)
    if found is None:
        # No shell ever sees it, so what looks like a shell's line is the name of a program that is not there.
        raise ConfigError(
            f"{where}: no program {command[:80]!r}", "command is one program; its arguments stand in args"
        )
    return (found, *rest)


def _ours(where: str, given: object) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise ConfigError(f"{where}: apex is a {type(given).__name__}, not an object")
    if unknown := sorted(set(given) - set(_OURS)):
        raise ConfigError(f"{where}: apex has no setting {unknown[0][:40]!r}", nearest(unknown[0], _OURS))
    made: dict[str, Any] = {}
    for name in ("timeout_s", "start_s"):
        if name in given:
            seconds = given[name]
            if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
                raise ConfigError(f"{where}: apex.{name} is {seconds!r}, not a number of seconds above 0")
            made[name] = float(seconds)
    for name in ("tools", "read_only"):
        if name in given:
            if not isinstance(given[name], list) or not all(isinstance(t, str) for t in given[name]):
                raise ConfigError(f"{where}: apex.{name} is not a list of tool names")
            made[name] = frozenset(given[name])
    if "inward" in given:
        if not isinstance(given["inward"], bool):
            raise ConfigError(f"{where}: apex.inward is not true or false")
        made["inward"] = given["inward"]
    if "pin" in given:
        made["pin"] = _text(where, "apex.pin", given["pin"])
    return made


def _url(where: str, given: object) -> str:
    url = _text(where, "url", given)
    parts = urlsplit(url)
    local = parts.hostname in ("127.0.0.1", "localhost", "::1")
    if parts.scheme != "https" and not (parts.scheme == "http" and local):
        raise ConfigError(f"{where}: a url begins with https://, or with http:// on this machine")
    if not parts.hostname or parts.username or parts.password:
        raise ConfigError(f"{where}: a url has a host and no password; a token belongs into headers")
    return url


def _texts(where: str, what: str, given: object) -> dict[str, str]:
    if not isinstance(given, dict):
        raise ConfigError(f"{where}: {what} is a {type(given).__name__}, not an object")
    return {name: _expanded(where, f"{what}.{name}", value) for name, value in given.items()}


def _expanded(where: str, what: str, given: object) -> str:
    def known(match: re.Match[str]) -> str:
        value = os.environ.get(match[1])
        if value is None:
            raise ConfigError(f"{where}: {what} wants ${{{match[1]}}}, which is not set")
        return value

    return _VARIABLE.sub(known, _text(where, what, given, empty=True))


def _text(where: str, what: str, given: object, *, empty: bool = False) -> str:
    if not isinstance(given, str) or "\0" in given or not (given or empty):
        raise ConfigError(f"{where}: {what} is not a text")
    return given
