"""Which environment the tests of a repository's version want: a table of ours, and the user's own entries before it."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final, get_type_hints

from apex_framework.errors import UsageError

from . import official
from .rows import Instance

RUNNERS: Final = ("pytest", "unittest", "command")
RESTORED: Final = "sitecustomize.py"
TIMEOUT_S: Final = 1800.0
"""Of the run that decides, as officially."""
_LIMITS: Final = {
    "memory": 4 * 1024**3,
    "disk": 1024**3,
    "cpu_s": 900,
    "idle_s": 120.0,
}
"""Of a run: whole test files of foreign repositories need more than a small task."""
MOST_LOG: Final = 16 * 1024**2
"""Bytes of what a deciding run prints that are kept, from the beginning on."""


@dataclass(frozen=True, slots=True)
class Environment:
    """One entry of the table; see ``environments.toml`` for what each means."""

    repo: str
    versions: tuple[str, ...] = ("*",)
    python: str = ""
    packages: tuple[str, ...] = ()
    binary_only: bool = True
    runner: str = "pytest"
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    path: tuple[str, ...] = (".",)
    env: tuple[tuple[str, str], ...] = ()
    site: tuple[tuple[str, str], ...] = ()
    parser: str = "parse_log_pytest"

    def fits(self, instance: Instance) -> bool:
        """Whether it is for this instance."""
        return self.repo == instance.repo and ("*" in self.versions or instance.version in self.versions)

    def run_of(self, version: str, tests: Sequence[str], *, deciding: bool) -> dict[str, Any]:
        """``task.run`` for these test files: as agents run them, or, ``deciding``, in one go and with its log kept."""
        run: dict[str, Any] = {
            "runner": self.runner,
            "python": self.python,
            "packages": list(self.packages),
            "binary_only": self.binary_only,
            "env": dict(self.env),
            "site": {
                RESTORED: _restored(),
                **{path.replace("{version}", version): text.replace("{version}", version) for path, text in self.site},
            },
            **_LIMITS,
        }
        if deciding:
            # Officially the clock alone ends a run.
            run |= {"cpu_s": int(TIMEOUT_S) * (os.cpu_count() or 1), "idle_s": TIMEOUT_S}
            run["keep_output"] = MOST_LOG
            run["most_output"] = 4 * MOST_LOG
            # A test process ends without flushing what it printed.
            run["env"] = {**run["env"], "PYTHONUNBUFFERED": "1"}
        if self.runner == "pytest":
            # As the official command prints it, and with output captured as there.
            told = ["-rA", "--capture=fd"] if deciding else []
            run |= {"args": [*self.args, *told], "plugins": list(self.plugins)}
        if self.runner != "command":
            return {**run, "tests": list(tests), "path": list(self.path)}
        names = [django_label(test) if "{labels}" in self.command else test for test in tests]
        if deciding:
            command = [part for word in self.command for part in (names if word in ("{files}", "{labels}") else [word])]
            return {**run, "command": command, "tests": []}
        command = ["{test}" if word in ("{files}", "{labels}") else word for word in self.command]
        return {**run, "command": command, "tests": names}

    @property
    def evaluator(self) -> str:
        """Who judges here: the official parsers (beside our channel, where pytest runs), or our channel alone."""
        return "swebench/native" if official.version() and self.runner != "unittest" else "swebench/native-channel"

    @property
    def digest_parts(self) -> str:
        """All that decides verdicts in it, as text."""
        return json.dumps([asdict(self), _restored(), self.evaluator, official.version()], sort_keys=True)


class Table:
    """The entries of ``more``, a TOML file of the user's, then ours. Raises UsageError that names file and entry."""

    def __init__(self, more: Path | None = None) -> None:
        own = Path(__file__).with_name("environments.toml")
        self._entries = [entry for file in ([more] if more else []) + [own] for entry in _read(file)]

    def find(self, instance: Instance) -> Environment | None:
        """The first that fits."""
        return next((entry for entry in self._entries if entry.fits(instance)), None)


def _read(file: Path) -> list[Environment]:
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{file}: it cannot be read: {error.strerror}", "environments=FILE.toml") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: not TOML: {error}") from None
    entries = table.get("environment")
    if set(table) != {"environment"} or not isinstance(entries, list):
        raise UsageError(f"{file}: entries are tables [[environment]]", "see the page on suites")
    return [_entry(f"{file}: environment {number}", entry) for number, entry in enumerate(entries, 1)]


def _entry(where: str, values: Mapping[str, Any]) -> Environment:
    types, known = get_type_hints(Environment), {field.name for field in fields(Environment)}
    if unknown := sorted(set(values) - known):
        raise UsageError(f"{where}: unknown entry {unknown[0]!r}", f"known: {', '.join(sorted(known))}")
    given: dict[str, Any] = {}
    for name, value in values.items():
        if name in ("env", "site"):
            fine = isinstance(value, Mapping) and all(isinstance(text, str) for text in value.values())
            given[name] = tuple(sorted(value.items())) if fine else None
        elif types[name] in (str, bool):
            fine = isinstance(value, types[name])
            given[name] = value
        else:
            fine = isinstance(value, list) and all(isinstance(text, str) for text in value)
            given[name] = tuple(value) if fine else None
        if not fine:
            raise UsageError(f"{where}: {name!r} has no such value: {value!r:.60}")
    if "repo" not in given:
        raise UsageError(f"{where}: no repo", "repo = 'owner/name'")
    entry = Environment(**given)
    placed = [word for word in entry.command if word in ("{files}", "{labels}")]
    if entry.runner not in RUNNERS or (entry.runner == "command") != (len(placed) == 1):
        raise UsageError(
            f"{where}: runner {entry.runner!r} and its command do not fit",
            f"known: {', '.join(RUNNERS)}; 'command' has one word {{files}} or {{labels}} in its command",
        )
    return entry


def _restored() -> str:
    return Path(__file__).with_name("restored.py").read_text(encoding="utf-8")


def django_label(path: str) -> str:
    """``tests/a/b.py`` as Django's runner wants it: ``a.b``."""
    return path.removeprefix("tests/").removesuffix(".py").replace("/", ".")
