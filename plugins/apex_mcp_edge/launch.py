"""Putting a served folder together: workspace, capability, door, transport."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from apex_framework import ToolService
from apex_framework.errors import ConfigError, EnvironmentProblem, UsageError, WorkspaceError
from apex_framework.interfaces import Capability, Policy, ToolServer, Workspace
from apex_framework.ports import SystemClock

from .folder import Folder, TestedFolder

LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
LEAST_TOKEN: Final = 16

Make = Callable[..., Any]
"""``catalog.make``: kind, name and options to a new object."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What is served: tool servers by name, over one folder."""

    tools: tuple[str, ...]
    root: Path
    read_only: bool = False
    policies: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    workspace: str = "local"
    runner: str = "unittest"


def checked_root(root: str | None) -> Path:
    """The folder to serve. Raises UsageError: there is no default, and it must be there."""
    if not root:
        raise UsageError("no folder is given", "--root DIR says which folder may be read and changed")
    path = Path(os.path.realpath(root))
    if not path.is_dir():
        said = "not a folder" if path.exists() else "no such folder"
        raise UsageError(f"--root {root}: {said}", "name the folder of a project that is there")
    if path == Path(path.anchor):
        raise UsageError(f"--root {root}: the whole machine is not offered", "name a folder below it")
    return path


def tested(make: Make, root: Path, name: str, runner: str) -> TestedFolder:
    """A folder whose tests can be run. Raises UsageError for a runner that the workspaces do not know, WorkspaceError."""
    folder = TestedFolder(root, make("workspace", name), runner)
    try:
        folder.check()
    except WorkspaceError as error:
        folder.close()
        usual = TestedFolder(root, make("workspace", name))
        try:
            usual.check()  # where that fails, too, it is not the runner
        finally:
            usual.close()
        raise UsageError(f"--runner {runner}: {error.cause}", error.remedy) from error
    return folder


def door(make: Make, offer: Offer) -> tuple[ToolService, Capability]:
    """The door to the offered tools, and a capability for what the offer allows. Raises ApexError."""
    servers: dict[str, ToolServer] = {name: make("tool", name) for name in dict.fromkeys(offer.tools)}
    policies: list[Policy] = [make("policy", name) for name in offer.policies]
    service = ToolService(servers, clock=SystemClock(), policies=policies)
    own = {spec.name for server in servers.values() for spec in server.tools}
    allowed = frozenset(s.name for s in service.specs if s.name in own and (s.read_only or not offer.read_only))
    workspace: Workspace = Folder(offer.root)
    if "test" in offer.tools:
        workspace = tested(make, offer.root, offer.workspace, offer.runner)
    return service, Capability(workspace, allowed, "mcp", "host", frozenset(offer.scopes))


def address(text: str, *, remote: bool) -> tuple[str, int]:
    """Host and port of ``HOST:PORT``. Raises UsageError, also for a host that is not this machine unless said."""
    host, colon, port = text.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not colon or not port.isdigit() or int(port) > 65_535:
        raise UsageError(f"--http {text}: not HOST:PORT", "for example --http 127.0.0.1:8765; port 0 takes a free one")
    if host not in LOOPBACK and not remote:
        raise UsageError(f"--http {text}: {host} is reached from outside", "--allow-remote says that this is meant")
    return host, int(port)


def token_of(file: Path | None) -> str:
    """The token that a host must show: the file's, or a new one. Raises ConfigError, EnvironmentProblem."""
    if file is None:
        return secrets.token_urlsafe(32)
    try:
        facts = file.stat()
        token = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise EnvironmentProblem(
            f"--token-file {file} cannot be read: {getattr(error, 'strerror', None) or 'not ASCII text'}",
            "write a token into it, or leave --token-file out: one is made and shown",
        ) from error
    if stat.S_IMODE(facts.st_mode) & 0o077:
        raise EnvironmentProblem(f"--token-file {file} can be read by others", f"chmod 600 {file}")
    if len(token) < LEAST_TOKEN or not token.isprintable() or " " in token:
        raise ConfigError(
            f"--token-file {file}: no token of {LEAST_TOKEN} or more characters without blanks",
            "python -c 'import secrets; print(secrets.token_urlsafe(32))' makes one",
        )
    return token
