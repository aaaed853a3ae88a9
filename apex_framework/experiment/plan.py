"""What a run will do, fixed and hashed before its first episode."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..episode.arm import Arm
from ..errors import ArtifactError, ConfigError, PlanChangedError
from ..interfaces import EpisodeJob, Task
from ..ports import derive_seed, rng

UNTRAINED = "untrained"
"""Stands in ``Plan.policies`` for a controller that can learn and has not."""

PLACES = ("data", "repos")
"""Options of suites that say where files lie; the suite's digest vouches for what is in them, wherever that is."""

Key = tuple[str, str, int]
"""Names an episode within a run: arm, task, seed."""


def canonical_json(value: Any) -> str:
    """JSON text that is the same for equal values: sorted keys, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest_of(value: Any) -> str:
    """sha256 of the canonical JSON, in hex. Names of files that are no UTF-8 have one too."""
    return _sha256(canonical_json(value))


def shortened(text: str) -> str:
    """Itself; of a long one the beginning, and a digest that tells it from others that begin so."""
    return text if len(text) <= 60 else f"{text[:40]}… ({_sha256(text)[:8]})"


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class PlannedTask:
    """A task as far as plans and statistics need it."""

    id: str
    cluster: str = ""
    family: str = ""


@dataclass(frozen=True)
class Plan:
    """Arms x tasks x seeds, and everything that decides what comes out of them."""

    suite: str
    split: str
    suite_digest: str
    tasks: tuple[PlannedTask, ...]
    arms: tuple[Arm, ...]
    limit: int | None = None
    """Tasks that were asked for; None for all of the split."""
    seeds: tuple[int, ...] = (0,)
    seed: int = 0
    """The run's seed: order of arms, and first of ``seeds``."""
    level: str = "L2"
    """Rung of the claim ladder: L0 to L4."""
    real_time: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings that every job carries: plugins left out, safe mode."""
    policies: Mapping[str, str] = field(default_factory=dict)
    """Arm -> digest of the trained policy that it uses, or ``untrained``."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Distribution -> version of everything that takes part."""
    places: Mapping[str, str] = field(default_factory=dict)
    """Where the files of ``PLACES`` lie now, if elsewhere than when the run was begun. No part of ``to_json`` either."""
    caveats: tuple[str, ...] = ()
    """What the suite says that results on its tasks do not show. Decides nothing, so it is no part of ``to_json``."""

    def __post_init__(self) -> None:
        if not (self.tasks and self.arms and self.seeds):
            raise ConfigError("a plan needs at least one task, one arm and one seed")
        names = [arm.name for arm in self.arms]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ConfigError(f"two arms are called {sorted(twice)[0]!r}", "give each arm a name of its own")

    @property
    def digest(self) -> str:
        """sha256 of the plan; equal plans give equal episodes."""
        return digest_of(self.to_json())

    @property
    def run_id(self) -> str:
        """Short name of the run, from its digest."""
        return self.digest[:12]

    @property
    def size(self) -> int:
        """Number of episodes."""
        return len(self.arms) * len(self.tasks) * len(self.seeds)

    @property
    def token_bound(self) -> int:
        """The most tokens that the run can use."""
        return sum(arm.budget for arm in self.arms) * len(self.tasks) * len(self.seeds)

    def keys(self) -> list[Key]:
        """All episodes in plan order: the arms of one task and seed are adjacent, in an order drawn per task and seed."""
        keys: list[Key] = []
        for task in self.tasks:
            for seed in self.seeds:
                names = [arm.name for arm in self.arms]
                rng("arm-order", self.seed, task.id, seed).shuffle(names)
                keys += [(name, task.id, seed) for name in names]
        return keys

    def jobs(self) -> Iterator[EpisodeJob]:
        """One job per episode in plan order."""
        arms = {arm.name: arm.to_json() for arm in self.arms}
        run = {
            "run_id": self.run_id,
            "suite": self.suite,
            "split": self.split,
            "suite_digest": self.suite_digest,
            "limit": self.limit,
            "real_time": self.real_time,
            "policies": dict(self.policies),
            **self.settings,
            **({"suite_options": {**self.settings.get("suite_options", {}), **self.places}} if self.places else {}),
        }
        for index, (arm, task_id, seed) in enumerate(self.keys()):
            yield EpisodeJob(index, arms[arm], task_id, seed, run)

    def to_json(self) -> dict[str, Any]:
        """Plain dict; the inverse of ``from_json``."""
        return {
            "suite": self.suite,
            "split": self.split,
            "suite_digest": self.suite_digest,
            "limit": self.limit,
            "tasks": [[task.id, task.cluster, task.family] for task in self.tasks],
            "arms": [arm.to_json() for arm in self.arms],
            "seeds": list(self.seeds),
            "seed": self.seed,
            "level": self.level,
            "real_time": self.real_time,
            "settings": dict(self.settings),
            "policies": dict(self.policies),
            "versions": dict(self.versions),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Plan:
        """Read a plan back. Raises ArtifactError when it is not one."""
        try:
            values = dict(data)
            values["tasks"] = tuple(PlannedTask(*task) for task in data["tasks"])
            values["arms"] = tuple(Arm.from_json(arm) for arm in data["arms"])
            values["seeds"] = tuple(data["seeds"])
            return cls(**values)
        except (KeyError, TypeError, ConfigError) as error:
            raise ArtifactError(f"not a plan of this version: {error}", "start a new run") from error

    def require_same(self, other: Plan) -> None:
        """Raises PlanChangedError that names what differs between this (written) plan and another (asked for).

        Files that lie elsewhere are no difference: other ones have another ``suite_digest``.
        """
        mine, theirs = _anywhere(self.to_json()), _anywhere(other.to_json())
        changed = [
            f"{key}: {shortened(canonical_json(mine[key]))} -> {shortened(canonical_json(theirs[key]))}"
            for key in mine
            if mine[key] != theirs[key]
        ]
        if changed:
            raise PlanChangedError(
                "the run was planned otherwise: " + "; ".join(changed),
                "start a new run with another --out, or go back to the old settings",
            )


def places_of(settings: Mapping[str, Any]) -> dict[str, str]:
    """Option of the suite -> where its files lie, of those that are said."""
    options = settings.get("suite_options") or {}
    return {name: str(options[name]) for name in PLACES if options.get(name)}


def _anywhere(plan: dict[str, Any]) -> dict[str, Any]:
    """The plan without the places of files, but with whether they were said at all."""
    if not places_of(plan["settings"]):
        return plan
    options = {**plan["settings"]["suite_options"], **dict.fromkeys(places_of(plan["settings"]), "…")}
    return {**plan, "settings": {**plan["settings"], "suite_options": options}}


def looks_once(settings: Mapping[str, Any]) -> bool:
    """Whether a run is of a registered plan that looks when all episodes are there: before that nobody sees successes."""
    experiment = settings.get("experiment")
    return isinstance(experiment, Mapping) and bool(experiment.get("registered")) and not settings.get("look")


def choose_tasks(tasks: Sequence[Task], limit: int | None) -> tuple[PlannedTask, ...]:
    """A fixed simple random sample of a split, in the suite's order: a smaller one is part of every larger one.

    It depends on nothing but the tasks' names, so that runs with other seeds meet the same tasks.
    """
    chosen = sorted(tasks, key=lambda task: derive_seed("sample", task.id))[:limit]
    ids = {task.id for task in chosen}
    return tuple(PlannedTask(task.id, task.cluster, task.family) for task in tasks if task.id in ids)


def in_order_of_looks(tasks: Sequence[PlannedTask], unit: str) -> tuple[PlannedTask, ...]:
    """The order in which tasks are run from look to look: drawn from their names alone, whatever the suite's order.

    By ``task`` the first n are what ``choose_tasks`` takes of them with a limit of n. By ``cluster`` the clusters are
    drawn, and the tasks of each stay together, so that at a look nearly all clusters that were begun are complete.
    """

    def place(task: PlannedTask) -> tuple[Any, ...]:
        own = derive_seed("sample", task.id)
        cluster = task.cluster or task.id
        return (derive_seed("look", cluster), cluster, own) if unit == "cluster" else (own,)

    return tuple(sorted(tasks, key=place))
