"""The command in a run folder makes the same run elsewhere: what files and variables said, it says itself."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from apex_framework.cli.again import command_again, differing
from apex_framework.cli.boundary import run
from apex_framework.config import Settings, load_settings


def ran(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(sys, "argv", ["apex", *arguments])
    assert run(arguments) == 0
    facts: dict[str, Any] = json.loads(Path("q/run.json").read_text())
    return facts


def test_a_run_by_file_and_variable_is_the_same_run_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    (here / "apex.toml").write_text("budget = 8000\nepisodes = 1\nbaselines = false\n")
    (here / "more.toml").write_text('budget = 7000\nepisodes = 1\nbaselines = false\ntopology_set = ["star", "flat"]\n')
    for files in ([], ["--config", "more.toml"]):
        monkeypatch.chdir(here)
        monkeypatch.setenv("APEX_WORKERS", "1")
        first = ran(["run", "--no-report", "--out", "q", "--seed", "5", *files], monkeypatch)
        (here / "q").rename(here / f"q{len(files)}")
        assert (
            first["settings"]["workers"] == "1" and "--seed 5" in first["again"] and "more.toml" not in first["again"]
        )
        assert "--set seed" not in first["again"] and "--set workers=1" in first["again"]
        monkeypatch.chdir(there)
        monkeypatch.delenv("APEX_WORKERS")
        second = ran(shlex.split(first["again"])[1:], monkeypatch)
        assert second["digest"] == first["digest"]
        (there / "q").rename(there / f"q{len(files)}")


def test_every_setting_that_differs_is_a_text_that_is_read_back(tmp_path: Path) -> None:
    said = {"backend": "coder=vllm", "scopes": ("episode", "run"), "real_time": True, "controllers": ("a:b,c", "d")}
    settings = Settings.model_validate(said)
    texts = differing(settings)
    assert texts["controllers"] == "a:b,c d" and texts["real_time"] == "true" and set(texts) == set(said)
    assert load_settings(assignments=texts, directory=tmp_path, environ={}).settings == settings


def in_context(name: str, settings: Settings, words: list[str], **params: Any) -> str:
    with click.Context(click.Command(name), info_name=name) as context:
        context.params.update(params)
        return command_again(settings, words, "q/config.toml")


def test_what_a_text_cannot_say_is_left_to_the_file_of_the_run() -> None:
    settings = Settings.model_validate({"interceptors": ("cache:a=1,b=2",), "budget": 9})
    assert (
        in_context("run", settings, ["run", "--config", "x"], config_file=Path("x"))
        == "apex run --config q/config.toml"
    )
    assert in_context("experiment", settings, ["experiment", "p.toml"]) == ""


def test_flags_are_not_said_twice() -> None:
    settings = Settings.model_validate(
        {"suite": "humaneval", "split": "test", "suite_options": {"data": "d", "x": "y"}}
    )
    words = ["run", "--suite", "humaneval/test", "--data", "d"]
    again = in_context("run", settings, words, suite="humaneval/test", data=Path("d"))
    assert again == "apex run --suite humaneval/test --data d --set suite_options=x=y"
    assert (
        in_context("run", Settings.model_validate({}), ["run", "--out", "q"], out=Path("q"), assignments=())
        == "apex run --out q"
    )
