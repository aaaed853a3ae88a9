"""What would make every episode fail is found while the run is planned, and a plugin cannot hang the plan."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from apex_framework.analysis import read_run
from apex_framework.episode.arm import Arm
from apex_framework.errors import ConfigError, PluginError, SuiteError
from apex_framework.experiment import foresight
from apex_framework.experiment.arms import with_policy
from apex_framework.experiment.artifacts import RunFolder
from apex_framework.experiment.plan import Plan
from apex_framework.experiment.planfile import Part, PlanFile
from apex_framework.experiment.planning import check_exclusions, check_families, make_plan
from apex_framework.experiment.prereg import PreRegistration
from apex_framework.experiment.registration import hashes_of
from apex_framework.hookspecs import ApexSpec, hookimpl
from apex_framework.interfaces import EpisodeContext, Roster, Routes, Task
from apex_framework.plugins import load_plugins
from apex_framework.testing.scripted import ScriptedBackend

ARM = Arm("a", controller="static", topologies=("star",), backends={"*": "scripted"})


class Suite:
    """One task."""

    name, digest = "one", "d1"

    def __init__(self, **_options: object) -> None: ...

    def tasks(self, split: str) -> list[Task]:
        return [Task("t", "one", split, "broken", cluster="c")]

    def workspaces(self) -> SimpleNamespace:
        return SimpleNamespace(close=lambda: None)

    def grade(self, task: Task, workspace: object) -> None: ...


class Modest(Suite):
    """Says something, in whatever form, of what it does not show."""

    def __init__(self, caveats: object, **_options: object) -> None:
        self.caveats = caveats


class Noted(Suite):
    """Says something, in whatever form, of its splits."""

    def __init__(self, notes: Any, **_options: object) -> None:
        self.notes = lambda split: notes


class Odd(Suite):
    """Tasks and a digest, whatever they are."""

    def __init__(self, ids: Any = ("t",), digest: Any = "d1", **_options: object) -> None:
        self._ids, self.digest = ids, digest

    def tasks(self, split: str) -> list[Task]:
        return [Task(name, "one", split, "broken", cluster="c") for name in self._ids[: {"dev": 9}[split]]]


class Shape:
    """A topology made from a function of the roster."""

    def __init__(self, name: str, edges: Any) -> None:
        self.name, self._edges = name, edges

    def routes(self, roster: Roster) -> Routes:
        return Routes(self._edges(roster))


class Moody:
    """A controller that does something when an episode begins."""

    name = "moody"

    def __init__(self, act: Any) -> None:
        self._act = act

    def begin(self, episode: EpisodeContext) -> None:
        self._act()

    def decide(self, observation: object) -> None: ...

    def learn(self, transition: object) -> None: ...


def hang() -> None:
    while True:
        time.sleep(0.01)


class World(ApexSpec):
    """Plugins that would spoil every episode."""

    @hookimpl
    def apex_suites(self, add: Any) -> None:
        add("one", Suite)
        add("modest", lambda **_: Modest(("They are riddles.",)))
        add("boastful", lambda **_: Modest("They are riddles."))
        add("noted", lambda **_: Noted(("2 of 3 tasks are left out: mend them",)))
        add("noting", lambda **_: Noted("2 of 3"))
        add("doubled", lambda **_: Odd(("a", "b", "c", "b")))
        add("odd", lambda **_: Odd())
        add("nameless", lambda **_: Odd(digest=""))
        add("undigested", lambda **_: Odd(digest=None))

    @hookimpl
    def apex_topologies(self, add: Any) -> None:
        add("strange", lambda: Shape("strange", lambda roster: {roster.ids[0]: ("nobody",)}))
        add("broken", lambda: Shape("broken", lambda roster: 1 / 0))
        add("endless", lambda: Shape("endless", lambda roster: hang()))

    @hookimpl
    def apex_controllers(self, add: Any) -> None:
        add("hanging", lambda: Moody(hang))
        add("raising", lambda: Moody(lambda: {}["x"]))
        add("unmade", hang)

    @hookimpl
    def apex_llm_backends(self, add: Any) -> None:
        add("live", lambda **_: ScriptedBackend(["one"]))


def planned(arm: Arm, suite: str = "one", **options: Any) -> Plan:
    plugins = load_plugins(plugins={"world": World()})
    return make_plan(plugins, [arm], suite=suite, split="dev", limit=1, **options)


def test_what_a_suite_says_of_itself_is_told_by_the_run_and_decides_nothing(tmp_path: Path) -> None:
    plan, silent = planned(ARM, "modest"), planned(ARM)
    assert (plan.caveats, silent.caveats) == (("They are riddles.",), ())
    assert replace(plan, caveats=()).digest == plan.digest
    RunFolder.create(tmp_path / "r", plan).close()
    (tmp_path / "r" / "episodes.jsonl").touch()
    assert read_run(tmp_path / "r").caveats == plan.caveats
    with pytest.raises(PluginError, match="suite 'boastful' of plugin world fails: TypeError: its caveats"):
        planned(ARM, "boastful")


def test_two_tasks_of_one_id_are_found_before_an_episode_is_run() -> None:
    with pytest.raises(SuiteError, match="suite 'doubled' has several tasks 'b' in split 'dev'"):
        planned(ARM, "doubled")


@pytest.mark.parametrize("check", [check_families, check_exclusions])
def test_a_suite_that_cannot_make_its_tasks_is_named_whoever_asks(check: Any) -> None:
    plugins = load_plugins(plugins={"world": World()})
    broken = "suite 'odd' of plugin world fails: KeyError: 'test'"
    with pytest.raises(PluginError, match=broken):
        make_plan(plugins, [ARM], suite="odd", split="test", limit=1)
    part = Part("main", ("a",), "odd", "test", 1, families=("clear",))
    said = PreRegistration("h", "e", "main", "a", ("b",), exclusions=("family:clear",))
    with pytest.raises(PluginError, match=broken):
        check(plugins.catalog, part, *((said,) if check is check_exclusions else ()))


@pytest.mark.parametrize(
    ("suite", "words"), [("nameless", "it has no digest of its tasks"), ("undigested", "its digest is None")]
)
def test_a_suite_without_a_digest_is_neither_planned_nor_registered(suite: str, words: str) -> None:
    with pytest.raises(PluginError, match=f"suite '{suite}' of plugin world fails: .*: {words}"):
        planned(ARM, suite)
    plan = PlanFile(Path("p.toml"), "p", (Part("main", ("a",), suite, "dev", 1),))
    with pytest.raises(PluginError, match=words):
        hashes_of(plan, [], load_plugins(plugins={"world": World()}).catalog)


def test_what_a_suite_says_of_a_split_is_told_once_for_all_runs_of_a_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for _command in range(2):
        plugins = load_plugins(plugins={"world": World()})
        for seed in range(3):
            make_plan(plugins, [ARM], suite="noted", split="dev", limit=1, seed=seed)
        assert capsys.readouterr().err == "2 of 3 tasks are left out: mend them\n"
    with pytest.raises(PluginError, match="suite 'noting' of plugin world fails: TypeError: its notes"):
        planned(ARM, "noting")


def test_scopes_must_have_their_parents() -> None:
    with pytest.raises(ConfigError, match="episode"):
        planned(replace(ARM, scopes=("role",)))
    assert planned(replace(ARM, scopes=("episode", "role"))).size == 1


def test_every_topology_must_fit_the_team() -> None:
    with pytest.raises(ConfigError, match="topology 'strange' does not fit team 'swe'"):
        planned(replace(ARM, topologies=("star", "strange")))
    with pytest.raises(PluginError, match="topology 'broken' of plugin world fails: ZeroDivisionError"):
        planned(replace(ARM, topologies=("star", "broken")))


def test_a_team_of_one_and_free_messages_need_no_routes() -> None:
    odd = replace(ARM, topologies=("star", "strange"))
    assert planned(replace(odd, team="single")).size == 1
    assert planned(replace(odd, free_messages=True)).size == 1


def test_an_impossible_team_size_is_a_setting() -> None:
    with pytest.raises(ConfigError, match="not 99"):
        planned(replace(ARM, team_size=99))


def test_virtual_time_needs_deterministic_backends() -> None:
    live = replace(ARM, backends={"coder": "live", "*": "scripted"})
    with pytest.raises(ConfigError, match="backend live is not deterministic: add --real-time"):
        planned(live)
    assert planned(live, real_time=True, settings={"allow_weaker_sandbox": True}).real_time


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"controller": "hanging"}, "controller 'hanging'"),
        ({"controller": "unmade"}, "controller 'unmade'"),
        ({"topologies": ("star", "endless")}, "topology 'endless'"),
    ],
)
def test_a_plugin_that_hangs_is_named(changes: dict[str, Any], what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foresight, "PATIENCE_S", 0.2)
    with pytest.raises(PluginError, match=f"{what} of plugin world hangs") as caught:
        planned(replace(ARM, **changes))
    assert caught.value.remedy.endswith("-p no:world")
    if changes.get("controller") == "unmade":
        with pytest.raises(PluginError, match="hangs"):
            with_policy([replace(ARM, **changes)], load_plugins(plugins={"world": World()}).catalog, "p.npz")


def test_a_controller_that_cannot_begin_is_named() -> None:
    with pytest.raises(PluginError, match="controller 'raising' of plugin world fails: KeyError"):
        planned(replace(ARM, controller="raising"))
