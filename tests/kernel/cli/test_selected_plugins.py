"""Plugins of every kind can be chosen by setting, a stranger's like ours."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from apex_framework.catalog import Catalog, Owner
from apex_framework.cli.context import Context
from apex_framework.cli.options import base_arm, plugin_settings
from apex_framework.config import load_settings
from apex_framework.episode.workshop import Workshop
from apex_framework.plugins import load_plugins
from apex_framework.testing.scripted import ScriptedBackend


def test_settings_reach_the_arm_and_the_jobs(tmp_path: Path) -> None:
    chosen = {
        "APEX_POLICIES": "careful,strict",
        "APEX_INTERCEPTORS": "cache",
        "APEX_TOOLS": "fs,test,web",
        "APEX_WORKSPACE": "remote",
        "APEX_EXECUTOR": "cluster",
        "APEX_EXPORTERS": "log",
    }
    settings = load_settings(directory=tmp_path, environ=chosen).settings
    arm = base_arm(settings)
    assert (arm.policies, arm.interceptors, arm.tools) == (("careful", "strict"), ("cache",), ("fs", "test", "web"))
    assert plugin_settings(Context(), settings) == {"workspace": "remote", "exporters": ["log"]}
    assert settings.executor == "cluster"  # where episodes are run is no part of a plan


def test_usual_plugins_are_not_written_into_a_plan(tmp_path: Path) -> None:
    assert plugin_settings(Context(), load_settings(directory=tmp_path, environ={}).settings) == {}
    limits = load_settings({"idle_s": "0", "warm_calls": "2", "call_deadline_s": "60"}, directory=tmp_path, environ={})
    assert plugin_settings(Context(), limits.settings) == {"idle_s": 0.0, "warm_calls": 2}


def test_a_workshop_closes_its_backends(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []

    class Noted(ScriptedBackend):
        async def close(self) -> None:
            await asyncio.sleep(0)
            closed.append("yes")

    plugins = load_plugins()
    catalog: Catalog = plugins.catalog
    catalog.add("llm_backend", "noted", lambda: Noted("hello"), owner=Owner("here"))
    shop = Workshop(plugins, "mini", "dev", 1)
    assert shop.backend("noted", {}) is shop.backend("noted", {})
    shop.close()
    shop.close()
    assert closed == ["yes"]


def test_a_cassette_is_named_behind_a_colon(tmp_path: Path) -> None:
    catalog = load_plugins().catalog
    cassette = tmp_path / "answers.jsonl"
    recorder = catalog.make("llm_backend", "replay", path=cassette, inner=ScriptedBackend("hello"))
    asyncio.run(recorder.close())
    assert catalog.make("llm_backend", f"replay:{cassette}").capabilities == ScriptedBackend("hello").capabilities
