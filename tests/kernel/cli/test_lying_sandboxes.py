"""A sandbox that says more than it does is found by the run itself: a few attempts to get out, before there is a folder."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from apex_framework.cli import boundary, trying
from apex_framework.hookspecs import ApexSpec, hookimpl
from apex_framework.interfaces import Confinement, Level, SandboxStatus
from apex_framework.plugins import load_plugins
from apex_framework.testing.probes import HOLDING, LIMITING

ONE = ["run", "--episodes", "1", "--no-baselines", "--controller", "single", "--out", "r"]
WITHOUT_PLUGIN = 4
"""How a run ends that has begun: the processes of its episodes know nothing of a plugin that this one was given."""


class Boaster:
    """The plain sandbox, which limits amounts and says of itself what it was told to say."""

    def __init__(self, level: Level = Level.NAMESPACES, **_: Any) -> None:
        self.name, self._level = f"boaster-{level.name.lower()}", level
        self._plain = load_plugins().catalog.make("sandbox", "plain")

    def probe(self) -> SandboxStatus:
        return SandboxStatus(self._level, (), ("everything",))

    def wrap(self, argv: Sequence[str], limits: Confinement) -> list[str]:
        wrapped: list[str] = self._plain.wrap(argv, limits)
        return wrapped

    def enter(self, limits: Confinement) -> None:
        self._plain.enter(limits)


class Nothing(Boaster):
    """Says that it limits amounts, and does nothing at all."""

    def wrap(self, argv: Sequence[str], limits: Confinement) -> list[str]:
        return list(argv)

    def enter(self, limits: Confinement) -> None:
        return None


class Broken(Boaster):
    """Nothing can be started in it."""

    def wrap(self, argv: Sequence[str], limits: Confinement) -> list[str]:
        return [sys.executable, "-c", "raise SystemExit(7)"]


class HalfWay(Boaster):
    """Holds what it wraps, and not what enters it."""

    def wrap(self, argv: Sequence[str], limits: Confinement) -> list[str]:
        wrapped: list[str] = load_plugins().catalog.make("sandbox", "landlock").wrap(argv, limits)
        return wrapped


class Liars(ApexSpec):
    @hookimpl
    def apex_sandboxes(self, add: Any) -> None:
        add("boaster", lambda **_: Boaster())
        add("modest", lambda **_: Boaster(Level.RLIMITS))
        add("nothing", lambda **_: Nothing(Level.RLIMITS))
        add("broken", lambda **_: Broken())
        add("half-way", lambda **_: HalfWay())


@pytest.fixture
def apex(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to run in, with these sandboxes among the plugins."""
    load = load_plugins
    monkeypatch.chdir(tmp_path)
    # Where a process that is entered finds these classes; last, so that what is installed is what is tried.
    monkeypatch.setattr(sys, "path", [*sys.path, str(Path(__file__).parents[3])])
    monkeypatch.setattr(
        "apex_framework.plugins.load_plugins", lambda **options: load(**{**options, "plugins": {"liars": Liars()}})
    )
    return tmp_path


def landlock_holds() -> bool:
    level: Level = load_plugins().catalog.make("sandbox", "landlock").probe().level
    return level >= Level.LANDLOCK


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("boaster", f"says that it achieves NAMESPACES here, and lets out: {', '.join(HOLDING)}"),
        ("nothing", "says that it achieves RLIMITS here, and lets out: "),
        ("broken", "nothing runs in it here"),
    ],
)
def test_a_run_refuses_a_sandbox_that_lies_also_where_a_weaker_one_is_allowed(
    apex: Path, capsys: pytest.CaptureFixture[str], name: str, said: str
) -> None:
    assert boundary.run([*ONE, "--sandbox", name, "--allow-weaker-sandbox"]) == 3
    told = capsys.readouterr().err
    assert said in told and "Traceback" not in told
    assert [line.startswith("error[") for line in told.splitlines()].count(True) == 1
    assert not (apex / "r").exists()


def test_what_a_run_tried_is_in_its_record(apex: Path) -> None:
    assert boundary.run([*ONE, "--sandbox", "modest"]) == WITHOUT_PLUGIN
    assert json.loads((apex / "r" / "run.json").read_text())["sandbox"]["tried"] == list(LIMITING)


@pytest.mark.slow
def test_one_that_holds_what_it_says_is_taken_and_one_that_does_so_half_is_not(
    apex: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not landlock_holds():
        pytest.skip("no landlock on this machine")
    assert boundary.run([*ONE, "--sandbox", "half-way"]) == 3
    assert "read_canary" in capsys.readouterr().err
    assert boundary.run([*ONE, "--sandbox", "landlock"]) == 0
    assert json.loads((apex / "r" / "run.json").read_text())["sandbox"]["tried"] == [*HOLDING, *LIMITING]


def test_planted_a_run_that_believes_its_sandbox_shows(apex: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trying, "_stopped", lambda catalog, name, level: ())
    assert boundary.run([*ONE, "--sandbox", "boaster"]) == WITHOUT_PLUGIN
    assert json.loads((apex / "r" / "run.json").read_text())["sandbox"]["level"] == "NAMESPACES"
