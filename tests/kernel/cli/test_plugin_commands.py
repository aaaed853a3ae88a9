"""Commands of plugins stand beside the program's own, and are loaded only for their name or for help."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from apex_framework.catalog import Catalog, Owner
from apex_framework.cli.boundary import run
from apex_framework.cli.context import Context
from apex_framework.plugins import LoadReport, PluginRecord, Plugins


def greet_command() -> click.Command:
    @click.command()
    @click.pass_obj
    def greet(context: Context, /) -> None:
        """Say hello."""
        context.say("thinking")
        context.emit({"hello": "world"}, "hello world")

    return greet


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    """Loaded plugins with one command; the list counts how often they were loaded."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    catalog = Catalog()
    catalog.add("command", "greet", greet_command, summary="Say hello.", owner=Owner("greeter"))
    broken = PluginRecord("bad", "bad-dist", "2.0", "BROKEN", "apex_lanes: ValueError: x")
    loads: list[int] = []

    def load_plugins(**_options: object) -> Plugins:
        loads.append(1)
        return Plugins(catalog, LoadReport((broken,)), {})

    monkeypatch.setattr("apex_framework.plugins.load_plugins", load_plugins)
    return loads


def test_a_plugins_command_runs_and_speaks_both_ways(plugins: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["greet"]) == 0
    out, err = capsys.readouterr()
    assert out == "hello world\n"
    assert err.splitlines() == [
        "warning: plugin bad (bad-dist 2.0) is BROKEN and left out: apex_lanes: ValueError: x",
        "thinking",
    ]
    assert run(["greet", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"hello": "world"}
    assert len(plugins) == 2


def test_help_lists_it(plugins: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    assert "greet" in capsys.readouterr().out
    assert len(plugins) == 1


def test_the_programs_own_commands_do_not_need_plugins(plugins: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "schema"]) == 0
    assert run(["--version"]) == 0
    assert plugins == []
