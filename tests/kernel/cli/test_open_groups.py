"""What a plugin registers as ``suite.NAME`` is ``apex suite NAME``, and never takes the place of the kernel's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from apex_framework.catalog import Catalog, Owner
from apex_framework.cli.boundary import run
from apex_framework.cli.context import Context
from apex_framework.plugins import LoadReport, Plugins


def count_command() -> click.Command:
    @click.command()
    @click.pass_obj
    def count(context: Context, /) -> None:
        """Count."""
        context.emit({"suites": 2}, "two")

    return count


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Let a plugin register a command under a name."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    catalog = Catalog()
    plugins = Plugins(catalog, LoadReport(()), {})
    monkeypatch.setattr("apex_framework.plugins.load_plugins", lambda **_options: plugins)
    return lambda name: catalog.add("command", name, count_command, summary="Count.", owner=Owner("counter"))


def test_it_stands_in_the_group_and_not_beside_it(
    register: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    register("suite.count")
    assert run(["suite", "count"]) == 0 and run(["suite", "count", "--json"]) == 0
    text, as_json = capsys.readouterr().out.splitlines()
    assert text == "two" and json.loads(as_json) == {"suites": 2}
    assert run(["suite", "--help"]) == 0 and "count" in capsys.readouterr().out
    assert run(["--help"]) == 0 and "suite.count" not in capsys.readouterr().out
    assert run(["suite.count"]) == 2


def test_a_name_of_the_kernels_is_taken(register: Callable[[str], None], capsys: pytest.CaptureFixture[str]) -> None:
    register("suite.list")
    assert run(["suite", "list"]) == 3
    assert "'suite list' is registered by apex and by counter" in capsys.readouterr().err


def test_other_groups_stay_as_they_are(register: Callable[[str], None]) -> None:
    register("config.count")
    assert run(["config", "count"]) == 2
    assert run(["config.count"]) == 0
