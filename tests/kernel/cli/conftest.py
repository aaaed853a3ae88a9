"""The program's commands over stand-ins."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from fake_plans import PlanTerminal, World, plan
from fake_world import FakeWorld, Terminal


@pytest.fixture
def fake_episodes(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The stand-ins, importable here and in worker processes."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "experiment"))
    import fake_episodes

    return fake_episodes


@pytest.fixture
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where the commands of this test work."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def apex(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, own_folder: Path, fake_episodes: ModuleType
) -> Terminal:
    """A terminal in a folder of its own."""
    return Terminal(capsys, monkeypatch, FakeWorld(fake_episodes.work))


@pytest.fixture
def planned(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, own_folder: Path, fake_episodes: ModuleType
) -> PlanTerminal:
    """A terminal with a plan."""
    plan("")
    return PlanTerminal(capsys, monkeypatch, World(fake_episodes.work))
