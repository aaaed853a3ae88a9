"""Guard 4: solver, agents and tasks are those that the shipped policy was trained with."""

from __future__ import annotations

import json
from pathlib import Path

import freeze
import pytest


def test_solver_agents_and_tasks_are_frozen_since_training() -> None:
    if not freeze.policies():
        pytest.skip(f"no trained policy is shipped in {freeze.POLICIES.relative_to(freeze.ROOT)} yet")
    assert freeze.FROZEN.is_file(), "a policy is shipped without frozen.json: python tests/guards/freeze.py"
    frozen = json.loads(freeze.FROZEN.read_text())
    found = freeze.hashes()
    changed = sorted(p for p in frozen["files"].keys() | found.keys() if frozen["files"].get(p) != found.get(p))
    assert changed == [], "changed since the policy was trained: train again, then python tests/guards/freeze.py"
    assert frozen["digest"] == freeze.digest(found)


def test_every_part_is_there_and_a_change_of_any_file_is_seen() -> None:
    found = freeze.hashes()
    for part in ("apex_repair/repair.py", "apex_repair/vocabulary.txt", "apex_agents/coder.py", "apex_suites/mini/suite.py",
                 "apex_suites/mini/tables/dev.toml"):  # fmt: skip
        assert part in found
        assert freeze.digest({**found, part: "0"}) != freeze.digest(found)


def test_freezing_writes_a_file_that_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freeze, "ROOT", tmp_path)
    monkeypatch.setattr(freeze, "FROZEN", tmp_path / "frozen.json")
    freeze.main()
    assert json.loads((tmp_path / "frozen.json").read_text())["files"] == freeze.hashes()
