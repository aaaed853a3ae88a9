"""An experiment as one file: parts (tasks x arms x seeds x budgets), arms of one's own, and what is registered before."""

from __future__ import annotations

import datetime
import difflib
import json
import math
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from ..budget.settings import SMALLEST_BUDGET
from ..errors import ConfigError
from .armfile import ArmSpec, read_arm
from .folder import BEGUN, DEVIATIONS, LOOKS, RESULT
from .plan import digest_of
from .prereg import SEQUENTIAL, UNITS, PreRegistration, check_looks, check_registration, read_registration

SPLITS = ("train", "dev", "test")
MOST = 100_000
"""Tasks of a part, and seeds."""
_TASKS = ("suite", "limit", "seeds", "seed", "budgets", "families", "best_static")
"""What a part may say, and the file for all of them."""
_FILE = ("name", *_TASKS, "settings", "arm", "part", "prereg")
_LONGEST = 100
"""Characters of a name, which becomes a folder's."""
_SAID_BY_FLAGS = ("workers", "executor", "out", "allow_weaker_sandbox", "mcp_servers", "budgets", "controller_file")
_SAID_BY_PARTS = ("suite", "split", "episodes", "budget", "seed", "controllers", "baselines")


@dataclass(frozen=True)
class Part:
    """Arms on the same tasks and seeds, once per budget."""

    name: str
    arms: tuple[str, ...]
    suite: str
    split: str
    limit: int
    """Tasks that are asked for."""
    seeds: int = 1
    seed: int = 0
    budgets: tuple[int, ...] = (10_000,)
    """Tokens per episode; every one is a run of its own, for a longer run cut short is not the same episode."""
    families: tuple[str, ...] = ()
    """Only tasks of these families, of those that ``limit`` takes; empty: all."""
    best_static: str = ""

    @property
    def folders(self) -> dict[str, int]:
        """Run folder -> its budget."""
        if len(self.budgets) == 1:
            return {self.name: self.budgets[0]}
        return {f"{self.name}@{budget}": budget for budget in self.budgets}

    @property
    def size(self) -> int:
        """Episodes, all budgets together."""
        return len(self.arms) * self.limit * self.seeds * len(self.budgets)

    @property
    def token_bound(self) -> int:
        """The most tokens that it can use."""
        return len(self.arms) * self.limit * self.seeds * sum(self.budgets)


@dataclass(frozen=True)
class PlannedRun:
    """A run folder of a plan."""

    folder: str
    budget: int
    look: Mapping[str, Any] = field(default_factory=dict)
    """Where a part is run from look to look: ``unit``, and the tasks ``from`` and ``to`` in the order of looks."""


@dataclass(frozen=True)
class PlanFile:
    """A plan as it was read; equal plans have equal digests, however they are laid out."""

    path: Path
    name: str
    parts: tuple[Part, ...]
    arms: Mapping[str, ArmSpec] = field(default_factory=dict)
    """Arms that the file defines by name."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    prereg: PreRegistration | None = None

    def to_json(self) -> dict[str, Any]:
        """All that the file says, path aside."""
        return {
            "name": self.name,
            "parts": [{key: _plain(value) for key, value in asdict(part).items()} for part in self.parts],
            "arms": {name: spec.to_json() for name, spec in self.arms.items()},
            "settings": dict(self.settings),
            "prereg": None if self.prereg is None else self.prereg.to_json(),
        }

    @property
    def digest(self) -> str:
        """sha256 of what the file says."""
        return digest_of(self.to_json())

    @property
    def primary(self) -> Part | None:
        """The part that the registered claim is about."""
        return None if self.prereg is None else next(p for p in self.parts if p.name == self.prereg.part)

    def looked_at(self, part: Part) -> bool:
        """Whether a part is run from look to look."""
        return self.prereg is not None and self.prereg.sequential and part.name == self.prereg.part

    def runs(self, part: Part) -> tuple[PlannedRun, ...]:
        """Run folders of a part: one per budget; one per look where it may stop at each."""
        if self.prereg is None or not self.looked_at(part):
            return tuple(PlannedRun(folder, budget) for folder, budget in part.folders.items())
        spans = enumerate(pairwise((0, *self.prereg.looks)), 1)
        return tuple(
            PlannedRun(
                f"{part.name}@look{number}", part.budgets[0], {"unit": self.prereg.unit, "from": begin, "to": end}
            )
            for number, (begin, end) in spans
        )


def read_plan_file(path: Path) -> PlanFile:
    """Read and check a plan. Raises ConfigError that names file, line, and what was meant."""
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors begin UTF-8 with a mark
        data = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(
            f"cannot read {path}: {error.strerror}", "name a plan file: apex experiment PLAN.toml"
        ) from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text", "save it as UTF-8") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        line = re.search(r"at line (\d+)", str(error))
        raise ConfigError(f"{path}{':' + line[1] if line else ''}: {error}", "correct the TOML") from None
    return _Reader(path, text).read(data)


class _Reader:
    """Checks values and says where a wrong one stands."""

    def __init__(self, path: Path, text: str) -> None:
        self._path, self._lines = path, text.splitlines()
        self._row: Mapping[str, Any] = {}
        self._begin = 0
        """The part that is being read, and the line on which it begins."""

    def read(self, data: Mapping[str, Any]) -> PlanFile:
        self._known(data, _FILE, "the plan")
        for table in ("settings", "arm"):
            self._plain_values(data.get(table, {}), table)
        if not data.get("part"):
            raise ConfigError(f"{self._path}: there is no [[part]]", "a part says which arms meet which tasks")
        arms = {name: read_arm(name, table, self._wrong) for name, table in self._table(data, "arm").items()}
        rows = data["part"]
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise self._wrong("part", "parts are tables: [[part]]")
        shared = {k: data[k] for k in _TASKS if k in data}
        heads = [i for i, line in enumerate(self._lines) if re.match(r"\s*\[\[\s*part\s*\]\]", line)]
        parts = []
        for index, row in enumerate(rows):
            self._row, self._begin = row, heads[index] if len(heads) == len(rows) else 0
            parts.append(self._part({**shared, **row}, index))
        self._row, self._begin = {}, 0
        names = [part.name for part in parts]
        if twice := [name for name in names if names.count(name) > 1]:
            raise self._wrong("name", f"two parts are called {twice[0]!r}", near=twice[0])
        used = {name for part in parts for name in part.arms}
        if unused := sorted(arms.keys() - used):
            raise self._wrong(
                f"arm.{unused[0]}", f"arm {unused[0]!r} is in no part", "name it in a part, or leave it out"
            )
        settings = self._table(data, "settings")
        for key in settings:
            if key in _SAID_BY_FLAGS:
                raise self._wrong(key, f"a plan cannot say {key!r}", "it belongs to the machine: give it as an option")
            if key in _SAID_BY_PARTS:
                raise self._wrong(key, f"{key!r} is no setting of a plan", f"a part says {', '.join(_TASKS)} and arms")
        name = data.get("name", self._path.stem)
        if not isinstance(name, str) or not re.fullmatch(r"[\w.-]+", name):
            raise self._wrong("name", f"name: letters, digits, '_', '-' and '.' are needed, not {name!r}")
        self._not_too_long(name)
        prereg = None
        if "prereg" in data:
            said = self._table(data, "prereg")
            prereg = read_registration(said, [part.name for part in parts], self._wrong)
            if prereg.sequential and "unit" not in said and (unit := self._registered_unit()):
                prereg = replace(prereg, unit=unit)
        plan = PlanFile(self._path, name, tuple(parts), arms, settings, prereg)
        if prereg is not None and plan.primary is not None:
            part = plan.primary
            check_registration(prereg, part.arms, part.budgets, part.best_static, self._wrong)
            check_looks(prereg, part.limit, part.budgets, part.best_static, self._wrong)
        return plan

    def _registered_unit(self) -> str:
        """What a plan that names no unit meant when it was registered: its default was another one once. Empty without a lock."""
        try:
            said = json.loads(self._path.with_suffix(".lock.json").read_bytes())["plan"]["prereg"]
            unit = said.get("unit", PreRegistration.unit) if said["stop"] == SEQUENTIAL else ""
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return ""  # whoever needs the lock says what is wrong with it
        return unit if unit in UNITS else ""

    def _part(self, row: Mapping[str, Any], index: int) -> Part:
        self._known(row, ("name", "arms", *_TASKS), "a part")
        name = row.get("name", f"part{index + 1}")
        if not isinstance(name, str) or not re.fullmatch(r"[\w.-]+", name) or name.strip(".") == "":
            raise self._wrong("name", f"name: letters, digits, '_', '-' and '.' are needed, not {name!r}")
        self._not_too_long(name)
        if name.lower() in (RESULT, BEGUN, DEVIATIONS, LOOKS):  # they lie beside the run folders, which parts name
            raise self._wrong("name", f"name: {name!r} is a file of the experiment's folder", "name the part otherwise")
        arms = self._names(row, "arms")
        if not arms:
            raise self._wrong("arms", f"part {name!r} has no arms", 'arms = ["bandit_v1", "static_star", …]', near=name)
        suite, _, split = str(row.get("suite", "")).partition("/")
        if not suite or split not in SPLITS:
            raise self._wrong(
                "suite", f"suite: SUITE/SPLIT is needed, not {row.get('suite')!r}", 'e.g. suite = "mini/dev"'
            )
        if "limit" not in row:
            raise self._wrong("name", f"part {name!r} says no limit", "limit = 100: tasks per arm", near=name)
        budgets = row.get("budgets", (10_000,))
        budgets = (budgets,) if isinstance(budgets, int) else tuple(budgets) if isinstance(budgets, list) else budgets
        if not isinstance(budgets, tuple) or not budgets or any(not _count(b, 1) for b in budgets):
            raise self._wrong(
                "budgets", f"budgets: tokens per episode are needed, not {row.get('budgets')!r}", "budgets = [10000]"
            )
        if len(set(budgets)) != len(budgets):
            raise self._wrong("budgets", "budgets: a rung is there twice", "name each budget once")
        if any(later < sooner for sooner, later in pairwise(budgets)):
            ladder = ", ".join(map(str, sorted(budgets)))
            raise self._wrong("budgets", "budgets: the rungs do not increase", f"budgets = [{ladder}]")
        if budgets[0] < SMALLEST_BUDGET:
            raise self._wrong(
                "budgets", f"budgets: {budgets[0]} tokens cannot pay for one call", f"at least {SMALLEST_BUDGET}"
            )
        best = row.get("best_static", "")
        if best and best not in arms:
            raise self._wrong(
                "best_static", f"best_static {best!r} is not an arm of part {name!r}", _meant(str(best), arms)
            )
        return Part(
            name,
            arms,
            suite,
            split,
            self._number(row, "limit", 1, most=MOST),
            self._number(row, "seeds", 1, 1, most=MOST),
            self._number(row, "seed", 0, 0),
            budgets,
            self._names(row, "families"),
            str(best),
        )

    def _names(self, row: Mapping[str, Any], key: str) -> tuple[str, ...]:
        value = row.get(key, [])
        if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
            raise self._wrong(key, f"{key}: a list of names is needed, not {value!r}")
        if twice := [name for name in value if value.count(name) > 1]:
            raise self._wrong(key, f"{key}: {twice[0]!r} is there twice")
        return tuple(value)

    def _number(
        self, row: Mapping[str, Any], key: str, least: int, default: int | None = None, *, most: int | None = None
    ) -> int:
        value = row.get(key, default)
        if not _count(value, least):
            raise self._wrong(key, f"{key}: a whole number of at least {least} is needed, not {value!r}")
        assert isinstance(value, int)
        if most is not None and value > most:
            raise self._wrong(key, f"{key}: {value:,} is too many", f"at most {most:,}")
        return value

    def _not_too_long(self, name: str) -> None:
        if len(name) > _LONGEST:
            raise self._wrong("name", f"name: {len(name)} characters are too many", f"at most {_LONGEST}")

    def _plain_values(self, value: Any, key: str) -> None:
        """Raises ConfigError for what would be in no run's JSON."""
        if isinstance(value, Mapping):
            for name, inner in value.items():
                self._plain_values(inner, name)
        elif isinstance(value, list):
            for inner in value:
                self._plain_values(inner, key)
        elif isinstance(value, datetime.date | datetime.time):
            raise self._wrong(key, f"{key}: a date or time is no value of a plan", f'as a text: "{value}"')
        elif isinstance(value, float) and not math.isfinite(value):
            raise self._wrong(key, f"{key}: a finite number is needed, not {value}")

    def _table(self, data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
        value = data.get(key, {})
        if not isinstance(value, dict):
            raise self._wrong(key, f"{key}: a table is needed: [{key}]")
        return value

    def _known(self, row: Mapping[str, Any], known: Sequence[str], what: str) -> None:
        for key in row:
            if key not in known:
                raise self._wrong(key, f"{what} cannot say {key!r}", _meant(key, known))

    def _wrong(self, key: str, cause: str, remedy: str = "", *, near: str = "") -> ConfigError:
        """An error with the line on which a key stands; of several such lines, the first after ``near``, or of the part."""
        head, _, last = key.rpartition(".")
        pattern = re.compile(
            rf"""\s*(\[+\s*)?(["']?{re.escape(head)}["']?\s*\.\s*)?["']?{re.escape(last)}["']?\s*[\]=.]"""
        )
        after = re.compile(rf"""["'.\[]{re.escape(near)}["'\]]""")
        begin = self._begin if last in self._row else 0
        begin = next((i for i, line in enumerate(self._lines) if i >= begin and near and after.search(line)), begin)
        order = [*range(begin, len(self._lines)), *range(begin)]
        found = next((i + 1 for i in order if pattern.match(self._lines[i])), None)
        return ConfigError(f"{self._path}{f':{found}' if found else ''}: {cause}", remedy or "see docs/experiments.md")


def _count(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _meant(name: str, known: Iterable[str]) -> str:
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
