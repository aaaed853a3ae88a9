"""Runs the git program so that nothing a repository holds can run code, prompt, or reach out.

Configuration comes from nowhere but here: no system, user or repository file of anybody else's. The repository's folder
is ours and lies outside what agents may write, so hooks, filters, aliases and drivers are never configured in it; and git
is never started in a repository that others wrote (see ``source``).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..errors import GitError
from .process import Outcome, converse

MOST_OUTPUT: Final = 64 * 1024**2
"""Bytes that one command may print."""

_CONFIG: Final = {
    "advice.detachedHead": "false",
    "attr.tree": "refs/apex/none",
    "core.alternateRefsCommand": "false",
    "core.askPass": "false",
    "core.attributesFile": os.devnull,
    "core.bigFileThreshold": "100m",
    "core.commitGraph": "false",
    "core.excludesFile": os.devnull,
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.packedGitLimit": "1g",
    "core.protectNTFS": "false",
    "core.sshCommand": "false",
    "core.untrackedCache": "false",
    "credential.helper": "",
    "credential.interactive": "false",
    "diff.external": "",
    "fetch.recurseSubmodules": "false",
    "gc.auto": "0",
    "gpg.program": "false",
    "http.followRedirects": "false",
    "init.defaultBranch": "main",
    "init.templateDir": "",
    "log.showSignature": "false",
    "maintenance.auto": "false",
    "protocol.version": "2",
    "submodule.recurse": "false",
    "transfer.bundleURI": "false",
}
_FOR_THE_NETWORK: Final = ("https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")


@dataclass(frozen=True, slots=True)
class GitLimits:
    """What one command may take: seconds by the clock, bytes printed, bytes of address space (where the system can)."""

    seconds: float = 120.0
    output: int = MOST_OUTPUT
    memory: int = 8 * 1024**3


def run_git(
    git_dir: Path,
    arguments: Sequence[str],
    *,
    stdin: bytes | None = None,
    protocols: str = "",
    pin: str = "",
    index: Path | None = None,
    objects: Path | None = None,
    limits: GitLimits | None = None,
    ok: Sequence[int] = (0,),
) -> bytes:
    """What a command prints. ``protocols``: those that it may speak, separated by colons, none when empty.

    ``git_dir`` must be a repository that this framework made. ``index`` is a private index file, ``objects`` a folder whose
    objects may be read besides. ``pin`` is ``HOST:PORT:ADDRESS[,ADDRESS]``: where that host is, whatever a resolver says.
    Blocking. Raises GitError: ``E_LIMIT`` when it takes too long or prints too much, ``E_GIT`` when it fails.
    """
    limits = limits or GitLimits()
    command = [_program(), "--literal-pathspecs", "--no-replace-objects", "--no-pager"]
    for name, value in _CONFIG.items():
        command += ["-c", f"{name}={value}"]
    if pin:
        command += ["-c", f"http.curloptResolve={pin}"]
    environment = _environment(git_dir, protocols, index, objects)
    done = converse([*command, *arguments], environment, stdin or b"", limits.seconds, limits.output, limits.memory)
    if done.why == "output":
        raise GitError("E_LIMIT", f"git printed more than {limits.output:,} bytes")
    if done.why == "time":
        raise GitError("E_LIMIT", f"git took longer than {limits.seconds:g} s")
    if done.status not in ok:
        raise GitError("E_GIT", _told(done))
    return done.output


def _search_path() -> str:
    """The search path without what depends on the folder that one stands in: that may be the one being worked on."""
    found = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(part for part in found if os.path.isabs(part))


def _program() -> str:
    program = shutil.which("git", path=_search_path())
    if program is None:
        raise GitError("E_GIT", "there is no git program", "install git")
    return program


def _environment(git_dir: Path, protocols: str, index: Path | None, objects: Path | None) -> Mapping[str, str]:
    found = {
        "PATH": _search_path(),
        "HOME": os.devnull,
        "XDG_CONFIG_HOME": os.devnull,
        "LC_ALL": "C",
        "TZ": "UTC",
        "GIT_DIR": str(git_dir.absolute()),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_ALLOW_PROTOCOL": protocols or "none",
        "GIT_PROTOCOL_FROM_USER": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "false",
        "SSH_ASKPASS": "false",
        "GIT_SSH_COMMAND": "false",
        "GIT_EDITOR": "false",
        "GIT_AUTHOR_NAME": "apex",
        "GIT_AUTHOR_EMAIL": "apex@localhost",
        "GIT_COMMITTER_NAME": "apex",
        "GIT_COMMITTER_EMAIL": "apex@localhost",
    }
    if "https" in protocols.split(":"):
        found |= {name: os.environ[name] for name in _FOR_THE_NETWORK if name in os.environ}
    if index is not None:
        found["GIT_INDEX_FILE"] = str(index)
    if objects is not None:
        found["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = str(objects)
    return found


def _told(done: Outcome) -> str:
    """The line that says what is wrong, without anything that moves a cursor."""
    text = done.complaint.decode("utf-8", "replace")
    lines = [line for line in text.splitlines() if line.startswith(("fatal:", "error:"))] or text.splitlines()
    told = "".join(c if c.isprintable() else "?" for c in (lines[0] if lines else ""))[:300]
    return told or f"git ended with status {done.status}"
