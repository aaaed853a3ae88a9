"""Settings: file < environment < flag, into one model, each value with its origin.

The only kernel module that imports pydantic.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PositiveInt, ValidationError

from .errors import ConfigError

ALIASES: dict[str, str] = {
    "cooldown_steps": "cooldown",
    "cooldown_after_switch": "cooldown",
    "dwell_min_steps": "dwell",
    "enable_parallel_prepare": "parallel_prepare",
}
"""Other spellings of settings, which files, variables and flags may use too."""

ENVIRONMENT_PREFIX = "APEX_"


def _list(value: object) -> object:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _controllers(value: object) -> object:
    # A controller's options hold commas ("schedule:star,chain,flat"): in one text, controllers are apart by blanks.
    return value.split() if isinstance(value, str) else value


def _backends(value: object) -> object:
    """``repair`` or ``coder=vllm,*=repair``."""
    if not isinstance(value, str):
        return value
    pairs = [part.partition("=") for part in value.split(",") if part.strip()]
    return {role.strip() if eq else "*": (name if eq else role).strip() for role, eq, name in pairs}


def _with_others(value: dict[str, str]) -> dict[str, str]:
    return value if "*" in value else {**value, "*": "repair"}


Names = Annotated[tuple[str, ...], BeforeValidator(_list)]


class Settings(BaseModel):
    """Everything that can be set, with its default."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    suite: str = Field("mini", description="Suite of tasks; suite/split names both.")
    split: Literal["train", "dev", "test"] = Field("dev", description="Part of the suite that is worked on.")
    episodes: PositiveInt = Field(16, description="Tasks per arm.")
    budget: PositiveInt = Field(10_000, description="Tokens per episode.")
    seed: int = Field(0, ge=0, description="Seed of everything random.")
    workers: PositiveInt = Field(2, description="Processes that run episodes.")
    team: str = Field("swe", description="Who works together.")
    backend: Annotated[dict[str, str], BeforeValidator(_backends), AfterValidator(_with_others)] = Field(
        default_factory=lambda: {"*": "repair"}, description="Backend per role, * for all others: coder=vllm,*=repair."
    )
    topology_set: Names = Field(("star", "chain", "flat"), min_length=1, description="Topologies to choose from.")
    controllers: Annotated[tuple[str, ...], BeforeValidator(_controllers)] = Field(
        ("bandit_v1",), min_length=1, description="One arm each; in one text, apart by blanks."
    )
    baselines: bool = Field(True, description="Also run the static topologies and the single agent.")
    lane: str = Field("fifo", description="Order of service in front of an agent.")
    transport: str = Field("inproc", description="Way of messages between agents.")
    scopes: Names = Field(("episode",), min_length=1, description="Ceilings that every call must respect.")
    policies: Names = Field((), description="Rules that may deny messages, model calls and tool calls, in order.")
    interceptors: Names = Field((), description="Advice around messages and calls, the outermost first.")
    tools: Names = Field(("fs", "test"), description="Tool servers of the agents.")
    workspace: str = Field("local", description="Where tasks are worked on.")
    executor: str = Field("local", description="Where episodes are run.")
    exporters: Names = Field(
        (), description="Ways out for events and metrics; options behind a colon: jsonl:folder=out."
    )
    hist_buckets: Path | None = Field(None, description="File of histogram buckets: metric or unit = upper bounds.")
    dwell: int = Field(2, ge=0, description="Steps that a topology lasts at least.")
    cooldown: int = Field(2, ge=0, description="Steps without a switch after a switch.")
    quiesce_deadline_ms: float = Field(
        50.0, gt=0, allow_inf_nan=False, description="Time that a switch may wait for quiet."
    )
    on_busy: Literal["drain", "migrate"] = Field("migrate", description="At a switch, messages for a busy agent.")
    message_ttl_s: float = Field(60.0, gt=0, allow_inf_nan=False, description="Seconds that a message may wait.")
    handler_deadline_s: float = Field(
        3600.0, gt=0, allow_inf_nan=False, description="Seconds that handling one message may take."
    )
    lane_capacity: PositiveInt = Field(10_000, description="Messages in front of one agent.")
    lane_bytes: PositiveInt | None = Field(None, description="Payload bytes in front of one agent.")
    total_bytes: PositiveInt | None = Field(None, description="Payload bytes in front of all agents together.")
    dedup_cap: int = Field(50_000, ge=0, description="Messages that each agent remembers, to flag repeated ones.")
    strict_pair_fifo: bool = Field(False, description="Nothing overtakes between two agents.")
    throttle: bool = Field(False, description="Senders wait when a lane fills.")
    relief: str = Field("", description="Topology to ask for under sustained pressure; needs throttle.")
    parallel_prepare: bool = Field(True, description="Warm-ups of a switch at once.")
    prevalidate: bool = Field(False, description="Probe a target before switching to it.")
    health_pin: bool = Field(False, description="Pin to chain on evidence of broken promises or a slow controller.")
    candidates: PositiveInt = Field(8, description="Edits per repair answer, the same for all arms.")
    real_time: bool = Field(False, description="The machine's clock instead of virtual time.")
    out: Path | None = Field(None, description="Run folder; by default a new one under runs/.")


@dataclass(frozen=True, slots=True)
class Configuration:
    """Settings in force, and where each value came from."""

    settings: Settings
    origins: Mapping[str, str]
    """Setting -> ``default``, ``path:line``, the variable's name, or ``--flag``."""


@dataclass(frozen=True, slots=True)
class _Source:
    """One layer: values by setting, and for each the place to name in origins and errors."""

    values: dict[str, Any]
    places: dict[str, str]


def load_settings(
    flags: Mapping[str, Any] | None = None,
    *,
    config: Path | None = None,
    directory: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Configuration:
    """Settings from a file, the environment and flags; the later wins. Flags that are None or empty tuples are unset.

    The file is ``config`` (TOML or YAML), else ``apex.toml`` in ``directory`` (the current one), else the table
    ``[tool.apex]`` of its ``pyproject.toml``. A table (of backends) adds to the table below it. Raises ConfigError, with the place and what was meant.
    """
    layers = [
        _from_file(config, directory or Path.cwd()),
        _from_environment(os.environ if environ is None else environ),
        _from_flags(flags or {}),
    ]
    values: dict[str, Any] = {}
    origins = dict.fromkeys(Settings.model_fields, "default")
    for layer in layers:
        for name, value in layer.values.items():
            below = _backends(values.get(name))
            values[name] = {**below, **value} if isinstance(value, dict) and isinstance(below, dict) else value
        origins |= layer.places
    try:
        return Configuration(Settings.model_validate(values), origins)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        allowed = Settings.model_fields[name].description or ""
        raise ConfigError(f"{origins[name]}: {name}: {first['msg']} (got {values.get(name)!r})", allowed) from None


def read_table(path: Path) -> dict[str, tuple[str, Any]]:
    """Name -> (``path:line``, value) of a file in TOML or YAML. Raises ConfigError for one that cannot be read."""
    data, text = _read(path)
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: a table of names and values is needed")
    return {str(key): (f"{path}:{_line(text, str(key), ())}", value) for key, value in data.items()}


def json_schema() -> dict[str, Any]:
    """JSON schema of a configuration file."""
    return Settings.model_json_schema()


def _canonical(name: str) -> str:
    name = name.replace("-", "_")
    return ALIASES.get(name, name)


def _layer(found: Mapping[str, tuple[str, Any]]) -> _Source:
    """Values by written name -> (place, value). Raises ConfigError for unknown names and for one said twice."""
    source = _Source({}, {})
    for written, (place, value) in found.items():
        name = _canonical(written)
        if name not in Settings.model_fields:
            raise ConfigError(f"{place}: unknown setting {written!r}", meant(written))
        if name in source.values:
            raise ConfigError(f"{place}: {written!r} says again what {source.places[name]} says", "keep one of them")
        source.values[name] = value
        source.places[name] = place
    return source


def meant(name: str) -> str:
    """``did you mean …``, or where to read what can be set."""
    close = difflib.get_close_matches(name, [*Settings.model_fields, *ALIASES], n=1)
    return f"did you mean {close[0]!r}?" if close else "see: apex config show"


def _from_flags(flags: Mapping[str, Any]) -> _Source:
    given = {k: v for k, v in flags.items() if v is not None and v != ()}
    return _layer({k: (f"--{k.replace('_', '-')}", v) for k, v in given.items()})


def _from_environment(environ: Mapping[str, str]) -> _Source:
    """``APEX_BUDGET=5000``; ``APEX_BACKEND__coder=vllm`` sets one key of a table. Others of the prefix are ignored.

    A variable that nearly is a setting is a typo, and an error.
    """
    known = {ENVIRONMENT_PREFIX + name.upper(): name for name in [*Settings.model_fields, *ALIASES]}
    found: dict[str, tuple[str, Any]] = {}
    for variable in sorted(environ):
        base, _, key = variable.partition("__")
        if base in known:
            value: Any = environ[variable]
            if key:
                table = _backends(found.get(known[base], ("", {}))[1])
                value = {**(table if isinstance(table, dict) else {}), key.lower(): value}
            found[known[base]] = (variable, value)
        elif base.startswith(ENVIRONMENT_PREFIX) and (close := difflib.get_close_matches(base, known, 1, 0.9)):
            raise ConfigError(f"the variable {variable} is no setting", f"did you mean {close[0]}?")
    return _layer(found)


def _from_file(config: Path | None, directory: Path) -> _Source:
    path, table = _find(config, directory)
    if path is None:
        return _Source({}, {})
    data, text = _read(path)
    for key in table:
        data = data.get(key, {})
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: settings must be a table of names and values")
    return _layer({str(k): (f"{path}:{_line(text, str(k), table)}", v) for k, v in data.items()})


def _read(path: Path) -> tuple[Any, str]:
    """What a file holds, and its text. Raises ConfigError."""
    try:
        text = path.read_text(encoding="utf-8")
        return _parse(path, text), text
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text") from error


def _find(config: Path | None, directory: Path) -> tuple[Path | None, tuple[str, ...]]:
    if config is not None:
        return config, ("tool", "apex") if config.name == "pyproject.toml" else ()
    if (directory / "apex.toml").is_file():
        return directory / "apex.toml", ()
    project = directory / "pyproject.toml"
    return (project, ("tool", "apex")) if project.is_file() else (None, ())


def _parse(path: Path, text: str) -> Any:
    if path.suffix in {".yaml", ".yml"}:
        import yaml

        try:
            return yaml.safe_load(text) or {}
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            place = f"{path}:{mark.line + 1}" if mark else str(path)
            raise ConfigError(f"{place}: {getattr(error, 'problem', None) or 'not YAML'}") from error
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        raise ConfigError(f"{path}{':' + line[1] if line else ''}: {error}") from error


def _line(text: str, key: str, table: tuple[str, ...]) -> int:
    """1-based line on which a key of a table is set or begins as a table of its own."""
    prefix = ".".join(table)
    current = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\s*([^\[\]]+?)\s*\]", line):
            current = header[1]
            if current.split(".")[: len(table) + 1] == [*table, key]:
                return number
        elif current == prefix and re.match(rf"""\s*["']?{re.escape(key)}["']?\s*[=:.]""", line):
            return number
    return 1
