"""Settings: file < environment < flag, each with its origin; a typo gets its place and what was meant."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import field_validator

from apex_framework.config import Settings, json_schema, load_settings, loading
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


@pytest.mark.parametrize("variable", ["APEX_LLM_BACKEND", "HERMES_BACKEND"])
@pytest.mark.parametrize("name", ["llama_cpp_metal", "hf_cuda", "ollama", "vllm", "openai:my-model"])
def test_a_variable_of_the_specification_names_the_backend(tmp_path: Path, variable: str, name: str) -> None:
    loaded = load_settings(directory=tmp_path, environ={variable: f" {name} "})
    assert loaded.settings.backend == {"*": name}
    assert loaded.origins["backend"] == variable


def test_variables_of_the_specification_give_way_to_file_environment_and_flag(tmp_path: Path) -> None:
    environ = {"HERMES_BACKEND": "ollama"}
    for flags, more, backend, origin in (
        ({"backend": "repair"}, {}, {"*": "repair"}, "--backend"),
        ({"backend": "coder=hf"}, {}, {"coder": "hf", "*": "repair"}, "--backend"),  # a text says it for all
        ({}, {"APEX_BACKEND": "hf"}, {"*": "hf"}, "APEX_BACKEND"),
        ({}, {"APEX_BACKEND__coder": "hf"}, {"coder": "hf", "*": "ollama"}, "HERMES_BACKEND + APEX_BACKEND__coder"),
        ({}, {"APEX_LLM_BACKEND": ""}, {"*": "ollama"}, "HERMES_BACKEND"),
        ({}, {"APEX_LLM_BACKEND": "ollama"}, {"*": "ollama"}, "APEX_LLM_BACKEND"),
    ):
        loaded = load_settings(flags, directory=tmp_path, environ={**environ, **more})
        assert (loaded.settings.backend, loaded.origins["backend"]) == (backend, origin)
    path = write(tmp_path, '[backend]\ncritic = "vllm"\n')
    loaded = load_settings(directory=tmp_path, environ=environ)
    assert loaded.settings.backend == {"*": "ollama", "critic": "vllm"}
    assert loaded.origins["backend"] == f"HERMES_BACKEND + {path}:1"
    write(tmp_path, 'backend = "repair"\n')
    assert load_settings(directory=tmp_path, environ=environ).settings.backend == {"*": "repair"}


def test_two_variables_that_differ_are_an_error_only_where_they_would_decide(tmp_path: Path) -> None:
    environ = {"APEX_LLM_BACKEND": "hf_cuda", "HERMES_BACKEND": "vllm"}
    with pytest.raises(
        ConfigError, match=r"^APEX_LLM_BACKEND=hf_cuda and HERMES_BACKEND=vllm name different"
    ) as caught:
        load_settings(directory=tmp_path, environ=environ)
    assert "--backend" in caught.value.remedy
    assert load_settings({"backend": "repair"}, directory=tmp_path, environ=environ).settings.backend == {"*": "repair"}


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


def test_a_date_that_no_calendar_has_is_a_mistake_in_yaml(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"x\.yaml: not YAML that can be read: month must be in 1\.\.12$"):
        load_settings(config=write(tmp_path, "budget: 2026-99-99", "x.yaml"), environ={})


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


NUMBERS = sorted(
    name
    for name, said in json_schema()["properties"].items()
    if {"integer", "number"} & {one.get("type") for one in (said, *said.get("anyOf", ()))}
)


def check_refused(folder: Path, name: str, ending: str, boolean: str) -> None:
    """A boolean for a number is one line with its place, and not 1 or 0."""
    path = write(folder, f"suite{ending} 'mini'\n{name}{ending} {boolean}\n", "x.yaml" if ending == ":" else "x.toml")
    with pytest.raises(ConfigError) as caught:
        load_settings(config=path, environ={})
    assert caught.value.cause.startswith(f"{path}:2: {name}: a number is needed, not true or false")
    assert "\n" not in str(caught.value)
    assert caught.value.exit_status == 2


@pytest.mark.parametrize("boolean", ["true", "false"])
@pytest.mark.parametrize("ending", [":", " ="], ids=["yaml", "toml"])
@pytest.mark.parametrize("name", NUMBERS)
def test_a_boolean_is_no_number(tmp_path: Path, name: str, ending: str, boolean: str) -> None:
    check_refused(tmp_path, name, ending, boolean)


@pytest.mark.parametrize("text", ["baselines = false\n", "health_pin = true\n", 'baselines = "no"\n'])
def test_a_boolean_is_still_a_boolean(tmp_path: Path, text: str) -> None:
    settings = load_settings(config=write(tmp_path, text), environ={}).settings
    assert settings.baselines is text.startswith("health") and settings.health_pin is text.startswith("health")


@pytest.mark.parametrize("boolean", ["true", "false"])
def test_a_boolean_is_no_number_of_a_roles_tokens(tmp_path: Path, boolean: str) -> None:
    path = write(tmp_path, f"[role_budgets]\ncoder = {boolean}\n")
    with pytest.raises(ConfigError, match=r"role_budgets: .*must be an integer") as caught:
        load_settings(config=path, environ={})
    assert caught.value.cause.startswith(f"{path}:1: ")


def test_a_model_that_takes_true_for_one_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Lax(Settings):
        @field_validator("*", mode="before")
        @classmethod
        def _no_boolean_for_a_number(cls, value: object) -> object:
            return value

    monkeypatch.setattr(loading, "Settings", Lax)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        check_refused(tmp_path, "budget", ":", "true")


@pytest.mark.parametrize(("name", "text"), [("x.yaml", "seed: 1\nbudget: true\n"), ("x.toml", "\nbudget = true\n")])
def test_the_program_says_it_in_one_line(tmp_path: Path, name: str, text: str) -> None:
    path = write(tmp_path, text, name)
    done = subprocess.run(
        [sys.executable, "-m", "apex_framework", "run", "--config", str(path), "--out", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2 and done.stdout == ""
    assert f"{path}:2: budget: a number is needed, not true or false" in done.stderr
    assert "Traceback" not in done.stderr and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "setting", ["allow_weaker_sandbox = true", 'mcp_servers = "servers.json"', "allow-weaker-sandbox = true"]
)
def test_a_file_that_lies_in_the_folder_cannot_give_code_more_rights(tmp_path: Path, setting: str) -> None:
    file = tmp_path / "apex.toml"
    file.write_text(f"budget = 9000\n{setting}\n")
    with pytest.raises(ConfigError, match=rf"{file}:2: .*may not say"):
        load_settings(directory=tmp_path, environ={})
    assert load_settings(config=file, directory=tmp_path, environ={}).settings.budget == 9_000


def test_an_assignment_is_named_as_it_was_typed_and_wins_over_flags() -> None:
    with pytest.raises(ConfigError, match=r"^--set limit: unknown setting 'limit'"):
        load_settings(assignments={"limit": "1"}, environ={})
    found = load_settings({"budget": 5_000}, assignments={"budget": "6000"}, environ={})
    assert (found.settings.budget, found.origins["budget"]) == (6_000, "--set budget")
