"""The ``git`` tool server: the history of a workspace, in a repository that agents cannot reach.

Agents give names of branches and commits, never options; files are read and written through the gate, so what ``fs`` does
not let them change a merge or a check-out does not change either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from apex_framework.errors import GitError
from apex_framework.interfaces import ToolCall, ToolResult, ToolSpec
from apex_framework.ports import Effects, RealEffects

from . import git_changes, git_looks, quota
from .files import Files
from .git_desk import Desk, Desks
from .git_settings import GitSettings
from .refusal import Refused

COST_S = 0.02
"""Declared duration of a git operation."""


def _schema(required: str = "", **properties: str) -> dict[str, Any]:
    kinds = {name: {"type": kind} for name, kind in properties.items()}
    return {"type": "object", "properties": kinds, "required": required.split(), "additionalProperties": False}


TOOLS = (
    ToolSpec("git.status", "The branch, its commit, the base, and files that differ from that commit.", _schema()),
    ToolSpec(
        "git.diff", "Unified diff from one commit (default HEAD) to another (default: the files as they are now).",
        _schema(**{"from": "string", "to": "string", "path": "string"}),
    ),
    ToolSpec(
        "git.log", "Commits, newest first, of a branch and of a path if given. More with skip=next.",
        _schema(revision="string", path="string", count="integer", skip="integer"),
    ),
    ToolSpec(
        "git.show", "A commit with its changes, or with path that file as it is in the commit.",
        _schema(revision="string", path="string"),
    ),
    ToolSpec(
        "git.branch", "List branches; or with name make one at a revision (default HEAD); switch to go over to it.",
        _schema(name="string", revision="string", switch="boolean"), read_only=False,
    ),
    ToolSpec("git.commit", "Commit all files as they are now.", _schema("message", message="string"), read_only=False),
    ToolSpec(
        "git.merge", "Merge a branch into the present one, which must have no uncommitted changes: whole or not at all.",
        _schema("branch", branch="string", message="string"), read_only=False, destructive=True,
    ),
    ToolSpec(
        "git.checkout", "Give a file the content that it has in a revision (default HEAD).",
        _schema("path", path="string", revision="string"), read_only=False, destructive=True, idempotent=True,
    ),
    ToolSpec(
        "git.clone", "Put the files of another repository's commit, with no history, into a folder that does not exist yet."
        " An https address needs the scope network.",
        _schema("source path", source="string", path="string", revision="string"), read_only=False,
    ),
)  # fmt: skip

Work = Callable[[Desk, Files, Mapping[str, Any]], dict[str, Any]]
_LOOKS: Mapping[str, Work] = {
    "git.status": git_looks.status,
    "git.diff": git_looks.diff,
    "git.log": git_looks.log,
    "git.show": git_looks.show,
}
_CHANGES: Mapping[str, Work] = {
    "git.branch": git_changes.branch,
    "git.commit": git_changes.commit,
    "git.merge": git_changes.merge,
    "git.checkout": git_changes.checkout,
}


class GitServer:
    """Tools over ``call.capability.workspace``.

    A workspace that has no repository (``HasGit``) gets one of the server's own at its first call: the files as they are
    then are its base. ``sources`` are folders below which repositories may be cloned from, ``networks`` those that an https
    address may lead to besides the public net; the quota is as of ``fs``, and ``repository_bytes`` bounds by how much the
    repository itself may grow. ``spec`` is the text form of all these. Raises ConfigError.
    """

    tools = TOOLS

    def __init__(
        self,
        *,
        effects: Effects | None = None,
        sources: Sequence[Path | str] = (),
        quota_bytes: int = quota.BYTES,
        quota_files: int = quota.FILES,
        repository_bytes: int = quota.BYTES,
        networks: Sequence[str] = (),
        spec: str = "",
    ) -> None:
        self._effects = effects or RealEffects()
        self._settings = GitSettings.of(
            spec,
            sources,
            networks,
            quota_bytes=quota_bytes,
            quota_files=quota_files,
            repository_bytes=repository_bytes,
        )
        self._quota = quota.Quota(self._settings.quota_bytes, self._settings.quota_files)
        self._desks = Desks(self._settings.repository_bytes)

    async def call(self, call: ToolCall) -> ToolResult:
        """Run one tool; refusals are results."""
        return await self._effects.run(lambda: self._answer(call), cost=lambda _: COST_S)

    async def close(self) -> None:
        """Remove the repositories that the server made; idempotent."""
        self._desks.close()

    def _answer(self, call: ToolCall) -> ToolResult:
        alone = call.tool in _CHANGES or call.tool == "git.clone"
        work = _LOOKS.get(call.tool) or _CHANGES.get(call.tool)
        try:
            if call.tool not in {tool.name for tool in TOOLS}:
                raise Refused("E_TOOL", f"no tool {call.tool!r}")
            with (
                self._desks.desk(call.capability.workspace) as desk,
                desk.files(alone=alone, quota=self._quota) as files,
            ):
                if work is None:
                    network = "network" in call.capability.scopes
                    value = git_changes.clone(files, call.arguments, self._settings, network=network)
                else:
                    if call.tool in _CHANGES:
                        desk.check_room()
                    value = work(desk, files, call.arguments)
            return ToolResult(True, value)
        except Refused as refusal:
            return ToolResult(False, error=refusal.code, detail=refusal.detail)
        except GitError as error:
            return ToolResult(False, error=error.refusal, detail=f"{error.cause}; {error.remedy}".removesuffix("; "))
