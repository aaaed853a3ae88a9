"""Bench ``git``: rows of the common form, each of ours beside plain git."""

from __future__ import annotations

import shutil
from types import SimpleNamespace

import pytest

from apex_framework.benches import git


def test_rows_name_a_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("git") is None:
        pytest.skip("there is no git program")
    monkeypatch.setattr(git, "FILES", 40)
    monkeypatch.setattr(git, "COMMITS", 2)
    rows = list(git.run(SimpleNamespace(n=1)))
    cases = {"clone", "check-out", "commit", "diff"}
    assert {(r["case"], r["contender"]) for r in rows if r["metric"] == "median"} == {
        (case, contender) for case in cases for contender in ("apex", "git")
    }
    assert {r["case"] for r in rows if r["metric"] == "ratio to git"} == cases
