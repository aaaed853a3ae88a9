"""What is claimed, and how it will be judged, said before anything is run."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .armfile import Wrong

FIXED = "fixed"
"""The stop rule that looks once, when every planned episode is there."""
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
    "exclusions",
    "hashes",
)
_KINDS = ("infrastructure", "family", "task")


@dataclass(frozen=True)
class PreRegistration:
    """The block ``[prereg]``. ``alpha`` is one-sided; ``claim`` is the smallest lift that is to be shown, as a share."""

    hypothesis: str
    estimand: str
    part: str
    arm: str
    against: tuple[str, ...]
    budget: int = 0
    """Rung that is judged, where its part has several; 0: its only one."""
    alpha: float = 0.025
    claim: float = 0.05
    discordance: float = 0.21
    """Share of tasks that exactly one of two arms solves, assumed for the detectable lift."""
    stop: str = FIXED
    exclusions: tuple[str, ...] = ("infrastructure",)
    """What is left out of the judgement: ``infrastructure``, ``family:NAME``, ``task:ID``."""
    hashes: Mapping[str, str] = field(default_factory=dict)
    """``suite``, ``solver``, ``policy.ARM`` -> first hex digits that must be found when it is registered."""

    @property
    def confidence(self) -> float:
        """Of the two-sided intervals whose ends are the one-sided bounds at ``alpha``."""
        return 1.0 - 2.0 * self.alpha

    def excludes(self, family: str, task_id: str) -> bool:
        """Whether episodes of this task are left out."""
        return f"family:{family}" in self.exclusions or f"task:{task_id}" in self.exclusions

    def to_json(self) -> dict[str, Any]:
        """Plain dict."""
        return {
            key: list(value) if isinstance(value, tuple) else dict(value) if isinstance(value, Mapping) else value
            for key, value in vars(self).items()
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
            "part" if part else "prereg", f"prereg: part {part!r} is not in the plan", f"known: {', '.join(parts)}"
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
    budget = table.get("budget", 0)
    if isinstance(budget, bool) or not isinstance(budget, int):
        raise wrong("budget", f"prereg: budget: tokens are needed, not {budget!r}")
    if (stop := table.get("stop", FIXED)) != FIXED:
        raise wrong("stop", f"prereg: unknown stop rule {stop!r}", f"known: {FIXED} (one look, at the end)")
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
        **{key: float(value) for key, value in numbers.items()},
    )


def check_registration(said: PreRegistration, arms: Sequence[str], budgets: Sequence[int], wrong: Wrong) -> None:
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
