"""Settings: file < environment < flag, each with its origin; a typo gets its place and what was meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from apex_framework.config import Settings, json_schema, load_settings
from apex_framework.errors import ConfigError


def write(folder: Path, text: str, name: str = "apex.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_defaults(tmp_path: Path) -> None:
    loaded = load_settings(directory=tmp_path, environ={})
    assert loaded.settings == Settings()
    assert set(loaded.origins.values()) == {"default"}
    assert loaded.settings.budget == 10_000
    assert loaded.settings.topology_set == ("star", "chain", "flat")


def test_flag_beats_environment_beats_file_and_origins_say_so(tmp_path: Path) -> None:
    path = write(tmp_path, "# mine\nbudget = 1\nseed = 2\nworkers = 3\n")
    loaded = load_settings(
        {"workers": 9, "out": None, "scopes": ()}, directory=tmp_path, environ={"APEX_SEED": "8", "APEX_WORKERS": "8"}
    )
    assert (loaded.settings.budget, loaded.settings.seed, loaded.settings.workers) == (1, 8, 9)
    assert loaded.origins["budget"] == f"{path}:2"
    assert loaded.origins["seed"] == "APEX_SEED"
    assert loaded.origins["workers"] == "--workers"
    assert loaded.origins["out"] == loaded.origins["scopes"] == "default"


def test_the_table_of_a_pyproject_is_read_and_apex_toml_goes_first(tmp_path: Path) -> None:
    project = write(tmp_path, '[project]\nname = "x"\n\n[tool.apex]\nseed = 5\n', "pyproject.toml")
    loaded = load_settings(directory=tmp_path, environ={})
    assert (loaded.settings.seed, loaded.origins["seed"]) == (5, f"{project}:5")
    write(tmp_path, "seed = 6\n")
    assert load_settings(directory=tmp_path, environ={}).settings.seed == 6


def test_a_pyproject_without_the_table_says_nothing(tmp_path: Path) -> None:
    write(tmp_path, '[project]\nname = "x"\n', "pyproject.toml")
    assert load_settings(directory=tmp_path, environ={}).settings == Settings()


def test_yaml_when_it_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, "budget: 7\ntopology_set: [star, flat]\n", "mine.yaml")
    loaded = load_settings(config=path, environ={})
    assert (loaded.settings.budget, loaded.settings.topology_set) == (7, ("star", "flat"))
    assert loaded.origins["topology_set"] == f"{path}:2"


@pytest.mark.parametrize("spelling", ["cooldown", "cooldown_steps", "cooldown_after_switch"])
def test_both_spellings_of_the_specification(tmp_path: Path, spelling: str) -> None:
    write(tmp_path, f"{spelling} = 4\ndwell_min_steps = 6\n")
    settings = load_settings(directory=tmp_path, environ={}).settings
    assert (settings.cooldown, settings.dwell) == (4, 6)
    assert load_settings(directory=tmp_path, environ={f"APEX_{spelling.upper()}": "5"}).settings.cooldown == 5


def test_backends_per_role_add_up_and_a_text_replaces(tmp_path: Path) -> None:
    write(tmp_path, '[backend]\ncoder = "vllm"\ncritic = "ollama"\n')
    environ = {"APEX_BACKEND__CRITIC": "replay"}
    settings = load_settings(directory=tmp_path, environ=environ).settings
    assert settings.backend == {"coder": "vllm", "critic": "replay", "*": "repair"}
    settings = load_settings({"backend": "coder=a,*=b"}, directory=tmp_path, environ=environ).settings
    assert settings.backend == {"coder": "a", "*": "b"}
    assert load_settings({"backend": "a"}, directory=tmp_path, environ={}).settings.backend == {"*": "a"}


def test_lists_in_one_text(tmp_path: Path) -> None:
    environ = {"APEX_TOPOLOGY_SET": "star, flat", "APEX_CONTROLLERS": "bandit_v1 schedule:star,chain,flat"}
    settings = load_settings(directory=tmp_path, environ=environ).settings
    assert settings.topology_set == ("star", "flat")
    assert settings.controllers == ("bandit_v1", "schedule:star,chain,flat")


@pytest.mark.parametrize(
    ("text", "cause", "remedy"),
    [
        ("seed = 1\nbudgt = 3\n", "apex.toml:2: unknown setting 'budgt'", "did you mean 'budget'?"),
        (
            "seed = 1\n\nbudget = 0\n",
            "apex.toml:3: budget: Input should be greater than 0 (got 0)",
            "Tokens per episode.",
        ),
        ('on_busy = "wait"\n', "apex.toml:1: on_busy: Input should be 'drain' or 'migrate'", ""),
        ("seed = \n", "apex.toml:1: Invalid value", ""),
        ("dwell = 1\ndwell_min_steps = 2\n", "apex.toml:2: 'dwell_min_steps' says again what", "keep one of them"),
        ("[zzzz]\na = 1\n", "apex.toml:1: unknown setting 'zzzz'", "see: apex config show"),
        ("topology_set = []\n", "apex.toml:1: topology_set: ", ""),
    ],
)
def test_mistakes_in_a_file_are_told_with_their_line(tmp_path: Path, text: str, cause: str, remedy: str) -> None:
    write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_settings(directory=tmp_path, environ={})
    assert caught.value.cause.startswith(f"{tmp_path}/{cause}")
    assert remedy in caught.value.remedy
    assert "\n" not in caught.value.cause


@pytest.mark.parametrize(("text", "cause"), [("a: [\n", "x.yaml:2: "), ("- 1\n", "x.yaml: settings must be a table")])
def test_mistakes_in_yaml(tmp_path: Path, text: str, cause: str) -> None:
    with pytest.raises(ConfigError, match=cause):
        load_settings(config=write(tmp_path, text, "x.yaml"), environ={})


@pytest.mark.parametrize(
    ("environ", "cause"),
    [
        ({"APEX_BUGDET": "1"}, "the variable APEX_BUGDET is no setting"),
        ({"APEX_BUDGET": "many"}, "APEX_BUDGET: budget: Input should be a valid integer"),
    ],
)
def test_mistakes_in_variables(tmp_path: Path, environ: dict[str, str], cause: str) -> None:
    with pytest.raises(ConfigError, match=cause):
        load_settings(directory=tmp_path, environ=environ)


def test_variables_of_others_are_left_alone(tmp_path: Path) -> None:
    environ = {"APEX_PLUGINS": "a", "APEX_RING_WIDTH": "3", "PATH": "/bin"}
    assert load_settings(directory=tmp_path, environ=environ).settings == Settings()


@pytest.mark.parametrize("flags", [{"budget": -5}, {"workers": 0}, {"split": "all"}])
def test_mistakes_in_flags_name_the_flag(tmp_path: Path, flags: dict[str, Any]) -> None:
    name = next(iter(flags))
    with pytest.raises(ConfigError, match=f"^--{name}: {name}: "):
        load_settings(flags, directory=tmp_path, environ={})


def test_the_schema_describes_every_setting() -> None:
    properties = json_schema()["properties"]
    assert set(properties) == set(Settings.model_fields)
    assert all(p["description"].endswith((".", "repair.")) for p in properties.values())
