"""Which sandbox a run gets: as strong as its code demands, or a refusal; never a weaker one in silence."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apex_framework.catalog import Catalog, Owner
from apex_framework.cli import boundary
from apex_framework.episode import confining
from apex_framework.episode.arm import Arm
from apex_framework.episode.confining import Demand, choose, confined, confining_of, demand_of
from apex_framework.errors import SandboxError, UnknownNameError
from apex_framework.hookspecs import ApexSpec, hookimpl
from apex_framework.interfaces import Confinement, Level, SandboxStatus, Task
from apex_framework.plugins import load_plugins
from apex_framework.testing.scripted import ScriptedBackend

STRONG = Demand(Level.LANDLOCK, "a stranger's code")
LACKS = ("network", "file reads")


class Fixed:
    """Achieves a level, or cannot be used."""

    def __init__(self, name: str, level: Level | None) -> None:
        self.name, self._level = name, level

    def probe(self) -> SandboxStatus:
        if self._level is None:
            raise SandboxError(f"{self.name} is not installed")
        return SandboxStatus(self._level, LACKS if self._level < Level.NAMESPACES else ())

    def wrap(self, argv: Sequence[str], limits: Confinement) -> list[str]:
        return list(argv)

    def enter(self, limits: Confinement) -> None:
        return None


def catalog_of(levels: Mapping[str, Level | None]) -> Catalog:
    catalog = Catalog()
    for name, level in levels.items():
        catalog.add("sandbox", name, lambda name=name, level=level: Fixed(name, level), owner=Owner("test"))
    return catalog


LEVELS = st.fixed_dictionaries(
    {"plain": st.sampled_from((Level.NONE, Level.RLIMITS))},
    optional={name: st.sampled_from((None, *Level)) for name in ("bwrap", "landlock", "other")},
)


@given(LEVELS, st.sampled_from(list(Level)), st.booleans())
def test_what_is_chosen_is_the_strongest_and_strong_enough_or_refused(
    levels: dict[str, Level | None], demanded: Level, allow: bool
) -> None:
    catalog, demand = catalog_of(levels), Demand(demanded, "code")
    strongest = max(level for level in levels.values() if level is not None)
    try:
        chosen = choose(catalog, "auto", demand, allow_weaker=allow)
    except SandboxError as error:
        assert not allow and (strongest < demanded or demanded <= Level.RLIMITS)
        assert "--allow-weaker-sandbox" in error.remedy and error.exit_status == 3
        return
    assert chosen.status.level == levels[chosen.name]
    assert allow or chosen.status.level >= demanded
    assert chosen.weaker == (chosen.status.level < demanded)
    if demanded > Level.RLIMITS:
        assert chosen.status.level == strongest
    else:
        assert chosen.name == "plain"


def test_a_named_sandbox_is_taken_or_refused_and_never_replaced() -> None:
    catalog = catalog_of({"plain": Level.RLIMITS, "bwrap": None, "landlock": Level.NAMESPACES})
    assert choose(catalog, "landlock", Demand()).name == "landlock"
    with pytest.raises(SandboxError, match="it lacks network, file reads"):
        choose(catalog, "plain", STRONG)
    with pytest.raises(SandboxError, match="bwrap is not installed"):
        choose(catalog, "bwrap", STRONG, allow_weaker=True)
    with pytest.raises(UnknownNameError):
        choose(catalog, "bwarp", STRONG)
    with pytest.raises(SandboxError, match="none is registered"):
        choose(catalog_of({}), "auto", STRONG)


class Models(ApexSpec):
    """A live model beside the embedded solver."""

    @hookimpl
    def apex_llm_backends(self, add: Any) -> None:
        add("live", lambda **_options: ScriptedBackend(["x"]), summary="a live model")
        add("still", lambda **_options: ScriptedBackend("x"), summary="always the same")


OWN = Task("t", "s", "dev", "issue", "c", files={"a.py": ""})
FOREIGN = Task("t", "s", "dev", "issue", "c", repo="https://example.org/r", base_commit="0")


@pytest.mark.parametrize(
    ("backend", "task", "level"),
    [
        ("still", OWN, Level.RLIMITS),
        ("live", OWN, Level.LANDLOCK),
        ("still", FOREIGN, Level.LANDLOCK),
        ("live", FOREIGN, Level.LANDLOCK),
    ],
)
def test_foreign_repositories_and_live_models_demand_a_strong_one(backend: str, task: Task, level: Level) -> None:
    catalog = load_plugins(plugins={"models": Models()}).catalog
    demand = demand_of([Arm("a", backends={"*": backend})], [OWN, task], catalog)
    assert demand.level is level
    assert ("foreign" in demand.reason) == (task is FOREIGN)


def claims(distribution: str, name: str = "solver", *, deterministic: bool = True) -> Level:
    """What is demanded of a backend that a distribution brings, whatever it says of itself."""
    catalog = Catalog()
    answers: Any = "x" if deterministic else ["x"]
    owner = Owner("models", distribution, "1")
    catalog.add("llm_backend", name, lambda **_: ScriptedBackend(answers), owner=owner)
    return demand_of([Arm("a", backends={"*": f"{name}:x"})], [OWN], catalog).level


def test_what_an_installed_backend_says_of_itself_makes_nothing_weaker() -> None:
    for name in ("solver", "repair", "scripted", "replay"):
        assert claims("a-stranger", name) is Level.LANDLOCK
    assert claims("apex-framework", "evil_llm") is claims("apex-framework", "replay") is Level.LANDLOCK
    assert claims("apex-framework", "repair") is claims("apex-framework", "scripted") is Level.RLIMITS
    assert (claims(""), claims("", deterministic=False)) == (Level.RLIMITS, Level.LANDLOCK)


def test_planted_a_demand_that_believes_backends_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confining, "_is_own", lambda catalog, name, options: True)
    assert claims("a-stranger") is Level.RLIMITS


def test_every_backend_of_apex_but_the_solver_and_given_words_demands_a_strong_one() -> None:
    catalog = load_plugins(safe_mode=True).catalog
    own = {n for n in catalog.names("llm_backend") if confining._is_own(catalog, n, {})}
    assert own == {"repair", "scripted"}


def test_the_usual_sandbox_is_not_mentioned_and_any_other_is(monkeypatch: pytest.MonkeyPatch) -> None:
    demands = {"demand": Demand()}
    monkeypatch.setattr(confining, "demand_of", lambda *_: demands["demand"])
    catalog = catalog_of({"plain": Level.RLIMITS, "landlock": Level.NAMESPACES})
    assert confined({"workspace": "x"}, [], [], catalog) == {"workspace": "x"}
    assert confined({"sandbox": "landlock"}, [], [], catalog) == {"sandbox": "landlock"}
    demands["demand"] = STRONG
    strong = confined({}, [], [], catalog)
    assert strong == {"sandbox": "landlock", "sandbox_demand": ["LANDLOCK", STRONG.reason]}
    assert confined(strong, [], [], catalog) == strong  # a resumed run is the same run
    assert not confining_of(strong, catalog).weaker
    weak = confined({"allow_weaker_sandbox": True}, [], [], catalog_of({"plain": Level.RLIMITS}))
    assert (weak["sandbox"], weak["allow_weaker_sandbox"]) == ("plain", True)
    found = confining_of(weak, catalog_of({"plain": Level.RLIMITS}))
    assert found.weaker and found.to_json()["lacks"] == list(LACKS)


def test_a_run_with_a_live_model_is_refused_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["-p", "no:sandboxes", "run", "--backend", "live", "--real-time", "--episodes", "1", "--out", "r"]
    monkeypatch.setattr("apex_framework.plugins.load_plugins", _with(Models()))
    assert boundary.run([*command, "--no-baselines"]) == 3
    told = capsys.readouterr().err
    assert "code that live writes needs a sandbox" in told and "--allow-weaker-sandbox" in told
    assert "Traceback" not in told and not (tmp_path / "r").exists()


def _with(plugin: ApexSpec) -> Any:
    def load(**options: Any) -> Any:
        return load_plugins(**{**options, "plugins": {"models": plugin}})

    return load


def test_the_usual_run_says_what_confined_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert boundary.run(["run", "--episodes", "1", "--no-baselines", "--controller", "single", "--out", "r"]) == 0
    found = json.loads((tmp_path / "r" / "run.json").read_text())["sandbox"]
    assert (found["name"], found["level"], found["demanded"]) == ("plain", "RLIMITS", "RLIMITS")
    assert any("network" in lack for lack in found["lacks"])
    assert "sandbox" not in capsys.readouterr().err
    assert "sandbox" not in json.loads((tmp_path / "r" / "run.json").read_text())["plan"]["settings"]
