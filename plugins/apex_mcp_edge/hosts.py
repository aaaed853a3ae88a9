"""The configuration files of MCP hosts: ours is merged in, what else stands there stays as it is."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from apex_framework.errors import ConfigError, EnvironmentProblem, UsageError

CLIENTS: Final = ("claude", "cursor", "vscode")


def place(client: str) -> tuple[Path, str]:
    """File of a host, and the key that servers stand under.

    Anything else is a file, and looks like one: raises UsageError for a bare word, which is more often a misspelt host.
    """
    if client == "claude":
        if sys.platform == "darwin":
            return Path.home() / "Library/Application Support/Claude/claude_desktop_config.json", "mcpServers"
        base = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
        return base / "Claude/claude_desktop_config.json", "mcpServers"
    if client == "cursor":
        return Path.home() / ".cursor/mcp.json", "mcpServers"
    if client == "vscode":
        return Path(".vscode/mcp.json"), "servers"
    if "/" not in client and os.sep not in client and not client.endswith(".json"):
        raise UsageError(
            f"--client {client}: neither a known host nor a file",
            f"known: {', '.join(CLIENTS)}; a file ends in .json, or has a folder before its name: ./{client}",
        )
    return Path(client), "mcpServers"


def entry(tool: str, root: Path, *options: str, read_only: bool = False) -> dict[str, Any]:
    """How a host starts one of our servers over stdio; ``options`` are more of ``apex mcp serve``."""
    arguments = ["-m", "apex_framework", "mcp", "serve", tool, "--root", str(root)]
    return {"command": sys.executable, "args": [*arguments, *options, *(["--read-only"] if read_only else [])]}


def merged(path: Path, key: str, servers: Mapping[str, Mapping[str, Any]], *, force: bool) -> str:
    """The file's new text. Raises ConfigError when it is broken or holds another server of the same name."""
    whole = _read(path)
    held = whole.setdefault(key, {})
    if not isinstance(held, dict):
        raise ConfigError(f"{path}: {key} is a {type(held).__name__}, not an object", "repair the file first")
    for name, server in servers.items():
        if not force and name in held and held[name] != server:
            raise ConfigError(f"{path} has another server {name!r}", "--force replaces it, --name gives another name")
        held[name] = dict(server)
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def replace(path: Path, text: str) -> None:
    """Give a file a new content at once or not at all; a link stays a link. Raises EnvironmentProblem."""
    target = Path(os.path.realpath(path))
    temporary = ""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
        fd, temporary = tempfile.mkstemp(prefix=".apex-", dir=target.parent)
        with open(fd, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        if temporary and os.path.exists(temporary):
            os.unlink(temporary)
        raise EnvironmentProblem(f"{path} cannot be written: {error.strerror or error}") from error


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    if not text.strip():
        return {}
    try:
        whole = json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not plain JSON: {error}", "repair it first; nothing was written") from error
    if not isinstance(whole, dict):
        raise ConfigError(f"{path} holds a {type(whole).__name__}, not an object", "nothing was written")
    return whole


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object, none of whose names stands there twice: writing it back would drop one of them."""
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} stands there twice in one object")
    return found
