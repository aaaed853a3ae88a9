"""Tests of confinement need a kernel that can confine; without one they are skipped aloud."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from apex_framework.interfaces import Level
from apex_sandboxes.inside import landlock
from apex_sandboxes.landlocked import LandlockSandbox


@pytest.fixture(scope="session")
def strong() -> LandlockSandbox:
    """The landlock sandbox, where it is a strong one."""
    if not landlock.version():
        pytest.skip("this kernel has no Landlock")
    sandbox = LandlockSandbox()
    if sandbox.probe().level < Level.LANDLOCK:
        pytest.skip(f"Landlock does not hold here: {sandbox.probe().lacks}")
    return sandbox


@pytest.fixture(autouse=True)
def tests_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sandboxes of these tests are sent to a process that imports their classes by name."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(Path(__file__).parents[3])])
