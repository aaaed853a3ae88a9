"""One row of the SWE-bench format, its base a commit of its own that knows nothing of the right program."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from apex_framework.errors import SuiteError
from apex_framework.git import Repository

from ..programs.telling import how_it_ends

COLUMNS = (
    "instance_id",
    "repo",
    "base_commit",
    "patch",
    "test_patch",
    "problem_statement",
    "hints_text",
    "created_at",
    "version",
    "FAIL_TO_PASS",
    "PASS_TO_PASS",
    "environment_setup_commit",
)
"""The official names, in their order."""
VERSION = "0"


@dataclass(frozen=True, slots=True)
class Found:
    """A fault that was kept: texts by path, ids of tests."""

    key: str
    faulty: Mapping[str, str]
    tests_without: Mapping[str, str]
    """Test files as agents see them: without the hidden tests."""
    fail_to_pass: Sequence[str]
    pass_to_pass: Sequence[str]
    shown: str
    """A visible test that fails."""
    detail: str


class Writer:
    """Makes rows, and their base commits in a repository of ours. ``commit`` is the right program."""

    def __init__(self, repository: Repository, name: str, commit: str) -> None:
        self._repository, self._name, self._commit = repository, name, commit
        self._when = repository.log(commit, count=1)[0].when

    def row(self, found: Found) -> dict[str, Any]:
        """The row. Raises SuiteError when its patches do not lead back to the right program; GitError."""
        title = f"{self._name.replace('/', '__')}-{hashlib.sha256(found.key.encode()).hexdigest()[:8]}"
        with tempfile.TemporaryDirectory(prefix="apex-synth-") as place:
            folder = Path(place)
            self._repository.check_out(self._commit, folder)
            commits = []
            right = {path: (folder / path).read_bytes() for path in [*found.faulty, *found.tests_without]}
            for texts in ({**found.faulty, **found.tests_without}, found.tests_without, {}):
                for path, data in right.items():
                    (folder / path).write_bytes(texts[path].encode() if path in texts else data)
                commits.append(self._repository.snapshot(folder, title, when=self._when))
        base, solved, whole = commits
        patch, test_patch = self._repository.diff(base, solved), self._repository.diff(solved, whole)
        again = self._repository.apply(test_patch, self._repository.apply(patch, base, title), title)
        if self._repository.changed(again, whole):
            raise SuiteError("its patches do not lead back to the program as it was")
        self._repository.set_branch(f"task/{title}", base)
        values = [
            title,
            self._name,
            base,
            patch,
            test_patch,
            problem_statement(found),
            "",
            datetime.fromtimestamp(self._when, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            VERSION,
            json.dumps(list(found.fail_to_pass)),
            json.dumps(list(found.pass_to_pass)),
            base,
        ]
        return dict(zip(COLUMNS, values, strict=True))


def problem_statement(found: Found) -> str:
    """The issue: a visible test that fails, and how it ends. Never the place of the fault."""
    return (
        f"A test that used to pass fails now: `{found.shown}`\n\nIt ends in:\n\n    {how_it_ends(found.detail)}\n\n"
        "Other uses may be affected, too."
    )
