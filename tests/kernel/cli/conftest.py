"""The program's commands over stand-ins."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from fake_world import FakeWorld, Terminal


@pytest.fixture
def apex(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Terminal:
    """A terminal in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "experiment"))
    import fake_episodes

    return Terminal(capsys, monkeypatch, FakeWorld(fake_episodes.work))
