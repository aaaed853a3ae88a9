"""An arm that a plan defines: another one, and what differs from it."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ..episode.arm import Arm
from ..errors import ConfigError
from .arms import MANAGER, SINGLE, STATIC, arm_named

Wrong = Callable[..., ConfigError]
"""Makes an error of a key, a cause and a remedy: ``wrong("limit", "limit: …", "…")``."""

_OF_THE_PART = {"suite", "split", "limit", "episodes", "seeds", "seed", "tasks", "families", "best_static"}
"""What all arms of a part share: differences in it would compare tasks, not arms."""
_SHORT = {"options": "controller_options", "backend": "backends"}
_DEFAULTS = {f.name: getattr(Arm("x"), f.name) for f in fields(Arm)}
_INTEGERS = ("team_size", "lane_bytes", "total_bytes")
"""Fields that are unset by default."""


@dataclass(frozen=True)
class ArmSpec:
    """``like`` names an arm as everywhere; ``changes`` are fields of ``Arm``."""

    name: str
    like: str
    changes: Mapping[str, Any] = field(default_factory=dict)

    def arm(self, base: Arm) -> Arm:
        """The arm, other settings as in ``base``."""
        made = arm_named(self.like, base)
        return replace(made, **{**self.changes, "name": self.name})

    def to_json(self) -> dict[str, Any]:
        """Plain dict."""
        return {"like": self.like, **{k: list(v) if isinstance(v, tuple) else v for k, v in self.changes.items()}}


def read_arm(name: str, table: object, wrong: Wrong) -> ArmSpec:
    """Check an arm's table. Raises what ``wrong`` makes."""
    if not isinstance(table, dict):
        raise wrong(f"arm.{name}", f"arm {name!r}: a table is needed: [arm.{name}]")
    changes: dict[str, Any] = {}
    like = table.get("like", name)
    if not isinstance(like, str) or not like:
        raise wrong("like", f"arm {name!r}: like names another arm, not {like!r}", near=name)
    if like != name and (name in (SINGLE, MANAGER) or name.startswith(STATIC)):
        raise wrong(
            "like",
            f"arm {name!r} is a baseline's name, and would be another arm",
            "give it a name of its own",
            near=name,
        )
    for key, value in table.items():
        if key == "like":
            continue
        full = _SHORT.get(key, key)
        if full in _OF_THE_PART:
            raise wrong(
                key,
                f"arm {name!r} says {key!r}: the arms of a part meet the same tasks",
                "say it in the part",
                near=name,
            )
        if full == "budget":
            raise wrong(
                key,
                f"arm {name!r} says a budget: the arms of a part have the same",
                "a part's budgets say it",
                near=name,
            )
        if full not in _DEFAULTS or full == "name":
            known = sorted({*_DEFAULTS, *_SHORT, "like"} - {"name", "budget"})
            close = difflib.get_close_matches(key, known, n=1)
            meant = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
            raise wrong(key, f"arm {name!r} cannot say {key!r}", meant, near=name)
        if full in changes:
            raise wrong(key, f"arm {name!r} says {full!r} twice", "keep one of them", near=name)
        changes[full] = _value(name, key, full, value, wrong)
    return ArmSpec(name, like, changes)


def _value(name: str, key: str, full: str, value: Any, wrong: Wrong) -> Any:
    default = _DEFAULTS[full]
    kind, said = "", isinstance(value, bool)
    if full in _INTEGERS or (isinstance(default, int) and not isinstance(default, bool)):
        least, needed = (1, "a whole number above 0") if full == "team_size" else (0, "a whole number of 0 or more")
        kind = "" if isinstance(value, int) and not said and value >= least else needed
    elif isinstance(default, bool):
        kind = "" if said else "true or false"
    elif isinstance(default, float):
        kind = "" if isinstance(value, int | float) and not said and 0 < value < math.inf else "a finite number above 0"
        value = float(value) if not kind else value
    elif isinstance(default, tuple):
        names = isinstance(value, list) and all(isinstance(v, str) for v in value)
        kind = "" if names and (value or full != "topologies") else "a list of names"
        value = tuple(value) if not kind else value
    elif isinstance(default, Mapping):
        if full == "backends" and isinstance(value, str):
            value = {"*": value}
        kind = "" if isinstance(value, dict) else "a table"
    elif not isinstance(value, str):
        kind = "a text"
    if kind:
        raise wrong(key, f"arm {name!r}: {key}: {kind} is needed, not {value!r}", near=name)
    return value
