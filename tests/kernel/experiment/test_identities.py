"""Which model answers stands in run.json, outside the plan, and a run is not gone on with by another one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from apex_framework.episode.arm import Arm
from apex_framework.errors import BackendError, PlanChangedError, PluginError
from apex_framework.experiment import resume
from apex_framework.experiment.artifacts import RunFolder, read_plan
from apex_framework.experiment.identities import DECISIVE, identify, require_same_models
from apex_framework.experiment.planning import make_plan
from apex_framework.experiment.resume import reopen_same
from apex_framework.hookspecs import ApexSpec, hookimpl
from apex_framework.interfaces import ModelIdentity, Task
from apex_framework.plugins import Plugins, load_plugins
from apex_framework.testing.scripted import ScriptedBackend

ARM = Arm("a", controller="static", topologies=("star",), backends={"coder": "named", "*": "scripted"})


class Named(ScriptedBackend):
    """Says which model it is, or why it cannot."""

    closed = 0

    def __init__(self, identity: ModelIdentity | Exception) -> None:
        super().__init__(model_id="named")
        self._identity = identity

    async def identity(self) -> ModelIdentity:
        if isinstance(self._identity, Exception):
            raise self._identity
        return self._identity

    async def close(self) -> None:
        Named.closed += 1


class Suite:
    """One task."""

    name, digest = "one", "d1"

    def __init__(self, **_options: object) -> None: ...

    def tasks(self, split: str) -> list[Task]:
        return [Task("t", "one", split, "broken", cluster="c")]

    def workspaces(self) -> SimpleNamespace:
        return SimpleNamespace(close=lambda: None)

    def grade(self, task: Task, workspace: object) -> None: ...


class World(ApexSpec):
    """A suite, and a backend whose model can be exchanged."""

    def __init__(self) -> None:
        self.identity: ModelIdentity | Exception = ModelIdentity("m", "sha256:" + "a" * 64, quantisation="Q4_K_M")

    @hookimpl
    def apex_suites(self, add: Any) -> None:
        add("one", Suite)

    @hookimpl
    def apex_llm_backends(self, add: Any) -> None:
        add("named", lambda **_: Named(self.identity))


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def plugins(world: World) -> Plugins:
    return load_plugins(plugins={"world": world})


def test_what_is_known_is_written_and_the_plan_knows_nothing_of_it(
    world: World, plugins: Plugins, tmp_path: Path
) -> None:
    plan = make_plan(plugins, [ARM, replace(ARM, name="b")], suite="one", split="dev", limit=1)
    models = identify(plan.arms, plugins.catalog)
    assert models == {
        "named": {
            "model_id": "m",
            "determinism": "exact",
            "model_digest": "sha256:" + "a" * 64,
            "quantisation": "Q4_K_M",
        },
        "scripted": {"model_id": "scripted", "determinism": "exact"},
    }
    assert Named.closed == 1, "each is asked once, and closed"
    RunFolder.create(tmp_path / "r", plan, models=models).close()
    assert json.loads((tmp_path / "r" / "run.json").read_text())["models"] == models
    assert read_plan(tmp_path / "r").digest == plan.digest


def test_what_cannot_be_found_out_is_said_and_what_is_broken_is_named(world: World, plugins: Plugins) -> None:
    world.identity = BackendError("the server does not tell")
    assert identify([ARM], plugins.catalog)["named"]["unknown"] == "the server does not tell"
    world.identity = KeyError("digest")
    with pytest.raises(PluginError, match="llm_backend 'named' of plugin world fails: KeyError"):
        identify([ARM], plugins.catalog)


def begun(path: Path, plugins: Plugins) -> Path:
    plan = make_plan(plugins, [ARM], suite="one", split="dev", limit=1)
    RunFolder.create(path, plan, models=identify(plan.arms, plugins.catalog)).close()
    return path


def test_another_model_does_not_go_on_with_a_run(world: World, plugins: Plugins, tmp_path: Path) -> None:
    run = begun(tmp_path / "r", plugins)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    reopen_same(run, plugins).close()
    world.identity = ModelIdentity("m", "sha256:" + "b" * 64, quantisation="Q4_K_M")
    with pytest.raises(PlanChangedError) as caught:
        reopen_same(run, plugins)
    assert str(caught.value).startswith(
        "another model answers for backend named than when the run was begun: model_digest sha256:aaaa"
    )
    assert "\n" not in str(caught.value) and caught.value.exit_status == 2
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_a_run_gone_on_with_by_whoever_answers_is_noticed(
    world: World, plugins: Plugins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted bug: nobody compares."""
    run = begun(tmp_path / "r", plugins)
    world.identity = ModelIdentity("m", "sha256:" + "b" * 64)
    monkeypatch.setattr(resume, "require_same_models", lambda written, find: None)
    reopen_same(run, plugins).close()


@pytest.mark.parametrize("part", DECISIVE)
@pytest.mark.parametrize(
    ("old", "new", "same"), [("x", "x", True), ("x", "", True), ("", "x", True), ("x", "y", False)]
)
def test_only_what_is_known_both_times_can_differ(part: str, old: str, new: str, same: bool) -> None:
    written = {"named": {"model_id": "m", **({part: old} if old else {})}, "gone": {"model_digest": "z"}}
    now = {"named": {"model_id": "m", **({part: new} if new else {})}}
    if same:
        require_same_models(written, lambda: now)
    else:
        with pytest.raises(PlanChangedError, match=f"{part} x -> y"):
            require_same_models(written, lambda: now)


@pytest.mark.parametrize("written", [None, {}, [], "x", {"named": 3}, {"named": {"model_id": "m"}}])
def test_runs_of_which_nothing_is_known_are_not_asked_about(written: object) -> None:
    def find() -> Any:
        raise AssertionError("there is nothing to compare")

    require_same_models(written, find)
