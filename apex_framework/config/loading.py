"""Where settings come from: file < environment < flag, into one model, each value with its origin."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from .. import specified
from ..errors import ConfigError
from .settings import CEILINGS, Settings, backend_table

ALIASES: dict[str, str] = {
    "cooldown_steps": "cooldown",
    "cooldown_after_switch": "cooldown",
    "dwell_min_steps": "dwell",
    "enable_parallel_prepare": "parallel_prepare",
}
"""Other spellings of settings, which files, variables and flags may use too."""

ENVIRONMENT_PREFIX = "APEX_"

PERSONAL = frozenset({"allow_weaker_sandbox", "mcp_servers"})
"""Settings that give code more rights: a configuration file of the current folder, which may be a stranger's, cannot say them."""

BACKEND_VARIABLES = ("APEX_LLM_BACKEND", "HERMES_BACKEND")
"""Variables of the specification: the backend of the roles for which neither a file, APEX_BACKEND nor a flag names one."""


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
    assignments: Mapping[str, str] | None = None,
    config: Path | None = None,
    directory: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Configuration:
    """Settings from a file, the environment, flags and ``--set``; the later wins. Flags that are None or () are unset.

    The file is ``config`` (TOML or YAML), else ``apex.toml`` in ``directory`` (the current one), else the table
    ``[tool.apex]`` of its ``pyproject.toml``. A table (of backends) adds to the table below it, a text replaces it.
    Below the file is what BACKEND_VARIABLES say, which must agree. Raises ConfigError, with the place and what was meant.
    """
    layers = [
        _from_file(config, directory or Path.cwd()),
        _from_environment(os.environ if environ is None else environ),
        _from_flags(flags or {}),
        _layer({k: (f"--set {k}", v) for k, v in (assignments or {}).items()}),
    ]
    if not any(_names_all(layer.values.get("backend")) for layer in layers):
        layers.insert(0, _from_backend_variables(os.environ if environ is None else environ))
    layers[:0] = [*_specified(layers)]
    values: dict[str, Any] = {}
    origins = dict.fromkeys(Settings.model_fields, "default")
    for layer in layers:
        for name, value in layer.values.items():
            below = backend_table(values.get(name))
            if isinstance(value, dict) and isinstance(below, dict):
                values[name] = {**below, **value}
                origins[name] += f" + {layer.places[name]}"
            else:
                values[name] = value
                origins[name] = layer.places[name]
    for name in CEILINGS & set(values):
        if values[name] is None:
            raise ConfigError(f"{origins[name]}: {name}: null is no ceiling", "leave it out where nothing is bounded")
    try:
        return Configuration(Settings.model_validate(values), origins)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        allowed = Settings.model_fields[name].description or ""
        raise ConfigError(
            f"{origins[name]}: {name}: {first['msg'].removeprefix('Value error, ')} (got {values.get(name)!r})", allowed
        ) from None


def file_in_force(config: Path | None = None, directory: Path | None = None) -> Path | None:
    """The file that ``load_settings`` would read; None where there is none."""
    return _find(config, directory or Path.cwd())[0]


def read_table(path: Path) -> dict[str, tuple[str, Any]]:
    """Name -> (``path:line``, value) of a file in TOML or YAML. Raises ConfigError for one that cannot be read."""
    data, text = _read(path)
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: a table of names and values is needed")
    return {str(key): (f"{path}:{_line(text, str(key), ())}", value) for key, value in data.items()}


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
                table = backend_table(found.get(known[base], ("", {}))[1])
                value = {**(table if isinstance(table, dict) else {}), key.lower(): value}
            found[known[base]] = (variable, value)
        elif base.startswith(ENVIRONMENT_PREFIX) and (close := difflib.get_close_matches(base, known, 1, 0.9)):
            raise ConfigError(f"the variable {variable} is no setting", f"did you mean {close[0]}?")
    return _layer(found)


def _names_all(backend: object) -> bool:
    """Whether a layer leaves no role to the layers below it: a text replaces them, a table adds to them."""
    return isinstance(backend, str) or (isinstance(backend, dict) and "*" in backend)


def _from_backend_variables(environ: Mapping[str, str]) -> _Source:
    given = {variable: environ[variable].strip() for variable in BACKEND_VARIABLES if environ.get(variable, "").strip()}
    if len(set(given.values())) > 1:
        both = " and ".join(f"{variable}={value}" for variable, value in given.items())
        raise ConfigError(f"{both} name different backends", "unset one of them, or name the backend: --backend NAME")
    return _layer({"backend": next(iter(given.items()))} if given else {})


def _specified(layers: Sequence[_Source]) -> Iterator[_Source]:
    """What the specification's files say that these layers name: below all of them."""
    for setting, parse in (("budgets", specified.budgets), ("controller_file", specified.controller)):
        named = [layer for layer in layers if layer.values.get(setting) is not None]
        if named:
            path, said = Path(str(named[-1].values[setting])), named[-1].places[setting]
            if path.suffix not in {".yaml", ".yml", ".toml"}:
                raise ConfigError(f"{said}: {setting}: {path} is no .yaml, .yml or .toml")
            data, text = _read(path)
            yield _layer(parse(data, lambda *keys: f"{path}:{_nested(text, keys)}"))  # noqa: B023 - called here


def _from_file(config: Path | None, directory: Path) -> _Source:
    path, table = _find(config, directory)
    if path is None:
        return _Source({}, {})
    data, text = _read(path)
    for key in table:
        data = data.get(key, {})
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: settings must be a table of names and values")
    if config is None and (weaker := next((str(k) for k in data if _canonical(str(k)) in PERSONAL), "")):
        place = f"{path}:{_line(text, weaker, table)}"
        raise ConfigError(
            f"{place}: a file that happens to lie here may not say {weaker!r}", "give the flag, or --config"
        )
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
        except (ValueError, RecursionError) as error:  # a date that no calendar has; brackets in brackets
            raise ConfigError(f"{path}: not YAML that can be read: {error}") from error
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            place = f"{path}:{mark.line + 1}" if mark else str(path)
            raise ConfigError(f"{place}: {getattr(error, 'problem', None) or 'not YAML'}") from error
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ConfigError(f"{path}: not TOML that can be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        raise ConfigError(f"{path}{':' + line[1] if line else ''}: {error}") from error


def _nested(text: str, keys: Sequence[object]) -> int:
    """1-based line of a key within keys, in YAML or TOML: each searched from the line of the one before."""
    lines, at = text.splitlines(), 0
    for key in keys:
        pattern = re.compile(rf"""\s*\[?\s*["']?{re.escape(str(key))}["']?\s*[\]=:.]""")
        at = next((number for number in range(at, len(lines)) if pattern.match(lines[number])), at)
    return at + 1


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
