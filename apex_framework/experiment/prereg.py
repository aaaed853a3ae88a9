"""What is claimed, and how it will be judged, said before anything is run."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from ..analysis.resampling import RESAMPLES
from ..analysis.verdict import GO_LIFT
from .armfile import Wrong

FIXED = "fixed"
"""The stop rule that looks once, when every planned episode is there."""
SEQUENTIAL = "sequential"
"""The stop rule that looks at the registered numbers of tasks, and stops when a look decides."""
UNITS = ("task", "cluster")
BEYOND = 10
"""Resamples that must lie beyond a bound: with fewer its place is chance. More resamples would not mend it: so far out a
bootstrap over some hundred tasks is wrong by more than the level itself."""
_KEYS = (
    "hypothesis",
    "estimand",
    "part",
    "budget",
    "arm",
    "against",
    "alpha",
    "claim",
    "discordance",
    "stop",
    "looks",
    "unit",
    "exclusions",
    "hashes",
)
_KINDS = ("infrastructure", "family", "task")


@dataclass(frozen=True)
class PreRegistration:
    """The block ``[prereg]``. ``alpha`` is one-sided; ``claim`` is the lift, as a share, that GO asks for and KILL excludes."""

    hypothesis: str
    estimand: str
    part: str
    arm: str
    against: tuple[str, ...]
    budget: int = 0
    """Rung that is judged, where its part has several; 0: its only one."""
    alpha: float = 0.025
    claim: float = GO_LIFT
    discordance: float = 0.21
    """Share of tasks that exactly one of two arms solves, assumed for the detectable lift."""
    stop: str = FIXED
    exclusions: tuple[str, ...] = ("infrastructure",)
    """What is left out of the judgement: ``infrastructure``, ``family:NAME``, ``task:ID``."""
    hashes: Mapping[str, str] = field(default_factory=dict)
    """``suite``, ``solver``, ``policy.ARM`` -> first hex digits that must be found when it is registered."""
    looks: tuple[int, ...] = ()
    """Of the sequential rule: tasks at which it looks; at the last one all of them are there."""
    unit: str = "task"
    """Of the sequential rule: what it takes as independent and bets on, ``task`` or ``cluster``. ``task`` is what locks and
    results mean that say nothing; a plan that says nothing means ``cluster``."""

    @property
    def sequential(self) -> bool:
        """Whether it may stop before its last task."""
        return self.stop == SEQUENTIAL

    @property
    def confidence(self) -> float:
        """Of the two-sided intervals whose ends are the one-sided bounds at ``alpha``."""
        return 1.0 - 2.0 * self.alpha

    def excludes(self, family: str, task_id: str) -> bool:
        """Whether episodes of this task are left out."""
        return f"family:{family}" in self.exclusions or f"task:{task_id}" in self.exclusions

    def to_json(self) -> dict[str, Any]:
        """Plain dict; without looks where there are none, so that plans registered before there were any keep their digest."""
        return {
            key: list(value) if isinstance(value, tuple) else dict(value) if isinstance(value, Mapping) else value
            for key, value in vars(self).items()
            if self.sequential or key not in ("looks", "unit")
        }


def read_registration(table: Mapping[str, Any], parts: Sequence[str], wrong: Wrong) -> PreRegistration:
    """Check the block by itself. Raises what ``wrong`` makes."""
    for key in table:
        if key not in _KEYS:
            close = difflib.get_close_matches(key, _KEYS, n=1)
            raise wrong(
                key,
                f"prereg cannot say {key!r}",
                f"did you mean {close[0]!r}?" if close else f"known: {', '.join(_KEYS)}",
            )
    for key in ("hypothesis", "estimand", "arm"):
        if not isinstance(table.get(key), str) or not table[key].strip():
            raise wrong("prereg", f"prereg: {key} is needed, as a text", f'{key} = "…"')
    part = table.get("part", parts[0] if len(parts) == 1 else None)
    if part not in parts:
        raise wrong(
            "part" if part else "prereg",
            f"prereg: part {part!r} is not in the plan",
            f"known: {', '.join(parts)}",
            near="prereg",
        )
    against = table.get("against")
    if not isinstance(against, list) or not against or not all(isinstance(name, str) for name in against):
        raise wrong(
            "against", "prereg: against names the arms that it is compared with", 'against = ["static_star", "single"]'
        )
    numbers = {key: table[key] for key in ("alpha", "claim", "discordance") if key in table}
    for key, value in numbers.items():
        most = 0.5 if key == "alpha" else 1.0
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not math.isfinite(value)
            or not 0.0 < value < most
        ):
            one_sided = " (it is one-sided)" if key == "alpha" else ""
            raise wrong(
                key,
                f"prereg: {key} must be between 0 and {most:g}{one_sided}, not {value!r}",
                f"{key} = {0.025 if key == 'alpha' else 0.1}",
            )
    discordance = numbers.get("discordance", PreRegistration.discordance)
    if (claim := numbers.get("claim", PreRegistration.claim)) > discordance:
        raise wrong(
            "claim" if "claim" in numbers else "discordance",
            f"prereg: a lift of {claim:g} cannot be had where the arms differ on {discordance:g} of the tasks",
            "a claim of at most the discordance",
        )
    budget = table.get("budget", 0)
    if isinstance(budget, bool) or not isinstance(budget, int):
        raise wrong("budget", f"prereg: budget: tokens are needed, not {budget!r}")
    stop, looks, unit = _stop_rule(table, wrong)
    if stop == FIXED and numbers.get("alpha", 0.5) * RESAMPLES < BEYOND:
        raise wrong(
            "alpha",
            f"prereg: alpha {numbers['alpha']:g} is finer than the {RESAMPLES:,} resamples of a bound resolve",
            f'alpha = {BEYOND / RESAMPLES:g} or more; or stop = "{SEQUENTIAL}", which resamples nothing',
        )
    exclusions = table.get("exclusions", ["infrastructure"])
    if not isinstance(exclusions, list):
        raise wrong("exclusions", f"prereg: exclusions: a list is needed, not {exclusions!r}")
    for rule in exclusions:
        kind, colon, what = str(rule).partition(":")
        if (
            not isinstance(rule, str)
            or kind not in _KINDS
            or (kind == "infrastructure") == bool(colon)
            or (colon and not what)
        ):
            raise wrong(
                "exclusions", f"prereg: nothing can be excluded by {rule!r}", "infrastructure, family:NAME, task:ID"
            )
    if "infrastructure" not in exclusions:
        raise wrong(
            "exclusions",
            "prereg: episodes that could not be run are always excluded, and counted",
            "name infrastructure, too",
        )
    hashes = table.get("hashes", {})
    if not isinstance(hashes, dict) or not all(isinstance(v, str) and len(v) >= 12 for v in hashes.values()):
        raise wrong(
            "hashes",
            "prereg: hashes: names and at least 12 hex digits are needed",
            'hashes = { suite = "f4434de5b92f" }',
        )
    return PreRegistration(
        table["hypothesis"],
        table["estimand"],
        str(part),
        table["arm"],
        tuple(against),
        budget,
        stop=stop,
        exclusions=tuple(exclusions),
        hashes=hashes,
        looks=looks,
        unit=unit,
        **{key: float(value) for key, value in numbers.items()},
    )


def _stop_rule(table: Mapping[str, Any], wrong: Wrong) -> tuple[str, tuple[int, ...], str]:
    """Rule, looks and unit. Raises what ``wrong`` makes."""
    stop = table.get("stop", FIXED)
    if stop not in (FIXED, SEQUENTIAL):
        raise wrong(
            "stop",
            f"prereg: unknown stop rule {stop!r}",
            f"known: {FIXED} (one look, at the end), {SEQUENTIAL} (at the tasks that looks names)",
        )
    if stop == FIXED:
        if said := next((key for key in ("looks", "unit") if key in table), ""):
            raise wrong(said, f'prereg: {said} does not go with stop = "{FIXED}"', f'stop = "{SEQUENTIAL}"')
        return FIXED, (), UNITS[0]
    looks = table.get("looks")
    if not isinstance(looks, list) or len(looks) < 2 or any(type(n) is not int or n < 1 for n in looks):
        raise wrong(
            "looks" if "looks" in table else "stop",
            f"prereg: looks: at least two numbers of tasks are needed, not {looks!r}",
            "looks = [100, 300, 500]",
        )
    if any(later <= sooner for sooner, later in pairwise(looks)):
        raise wrong("looks", f"prereg: looks do not increase: {', '.join(map(str, looks))}", "looks = [100, 300, 500]")
    if (unit := table.get("unit", UNITS[1])) not in UNITS:
        raise wrong("unit", f"prereg: unknown unit {unit!r}", f"known: {', '.join(UNITS)}")
    return SEQUENTIAL, tuple(looks), str(unit)


def check_looks(said: PreRegistration, limit: int, budgets: Sequence[int], best_static: str, wrong: Wrong) -> None:
    """Check the looks against the part that they are taken at. Raises what ``wrong`` makes."""
    if not said.sequential:
        return
    if said.looks[-1] > limit:
        raise wrong(
            "looks",
            f"prereg: a look at {said.looks[-1]} tasks is beyond the {limit} of part {said.part!r}",
            f"limit = {said.looks[-1]}, or no look after {limit}",
        )
    if said.looks[-1] < limit:
        raise wrong(
            "looks",
            f"prereg: no look is at the {limit} tasks of part {said.part!r}; the last is at {said.looks[-1]}",
            f"end looks with {limit}, or limit = {said.looks[-1]}",
        )
    if len(budgets) > 1:
        raise wrong(
            "stop",
            f"prereg: part {said.part!r} has {len(budgets)} budgets, and looks are taken at one",
            "put the other rungs into a part of their own",
        )
    if not best_static:
        raise wrong(
            "stop",
            f"prereg: a look needs to know the best static topology, and part {said.part!r} names none",
            'best_static = "static_star", as chosen on dev',
        )


def check_registration(
    said: PreRegistration, arms: Sequence[str], budgets: Sequence[int], best_static: str, wrong: Wrong
) -> None:
    """Check the block against its part. Raises what ``wrong`` makes."""
    for key, names in (("arm", (said.arm,)), ("against", said.against)):
        for name in names:
            if name not in arms:
                close = difflib.get_close_matches(name, arms, n=1)
                raise wrong(
                    key,
                    f"prereg: {key} names {name!r}, which is not an arm of part {said.part!r}",
                    f"did you mean {close[0]!r}?" if close else f"known: {', '.join(arms)}",
                    near="hypothesis",
                )
    if best_static and best_static not in said.against:
        raise wrong(
            "against",
            f"prereg: against leaves out {best_static!r}, the best static topology of part {said.part!r}",
            f'against = ["{best_static}", …]; or name no best_static, and all of them are needed',
        )
    if said.arm in said.against:
        raise wrong("against", f"prereg: {said.arm!r} is compared with itself", "leave it out of against")
    if len(set(said.against)) != len(said.against):
        raise wrong("against", "prereg: against names an arm twice", "name each once")
    if said.budget and said.budget not in budgets:
        raise wrong(
            "budget",
            f"prereg: budget {said.budget} is no rung of part {said.part!r}",
            f"known: {', '.join(map(str, budgets))}",
        )
    if not said.budget and len(budgets) > 1:
        raise wrong(
            "prereg",
            f"prereg: part {said.part!r} has {len(budgets)} budgets, and none is named",
            f"budget = {budgets[0]}",
        )
