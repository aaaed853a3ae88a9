"""Training a controller: rounds of episodes under one fixed policy, updates at the barrier in plan order.

Neither the number of workers nor their speed changes what is learned: every episode of a round meets the policy as
it was when the round began, and the updates of a round are applied in the order of the plan.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..analysis.checkpoint import checkpoint_lists
from ..catalog import Catalog
from ..episode.arm import Arm
from ..episode.budgeting import TOO_LITTLE
from ..errors import BudgetStoreError, ConfigError, ExecutorError, GlobalBudgetSpentError, RuntimeFault
from ..interfaces import (
    Checkpoint,
    Controller,
    EpisodeContext,
    EpisodeJob,
    EpisodeResult,
    Executor,
    Trainable,
    Transition,
)
from ..ports import rng
from .run import Work

UNTRAINED = "none"
"""Value of a controller's option ``policy`` that declines the shipped one."""


@dataclass(frozen=True)
class Training:
    """What to train, on what, for how long."""

    arm: Arm
    """The controller that learns, with its options; the rest of the setting is the same for all episodes."""
    tasks: tuple[str, ...]
    episodes: int
    seed: int = 0
    round: int = 16
    """Episodes that share one policy."""
    warm_start: int = 0
    """First episodes in which ``teacher`` acts and the controller only learns from it."""
    teacher: str = "phase_heuristic"
    run: Mapping[str, Any] = field(default_factory=dict)
    """Settings of every job, as in a plan."""

    def __post_init__(self) -> None:
        if self.episodes < 1 or self.round < 1 or not self.tasks:
            raise ConfigError("training needs at least one task, one episode and one episode per round")


@dataclass(frozen=True)
class Round:
    """One point of the learning curve; shares and means are over the round's episodes."""

    round: int
    episodes: int
    """Episodes so far."""
    teacher: bool
    """Whether any episode of the round was acted by the teacher."""
    success: float
    tokens: float
    denied: float
    """Share of episodes with a refused call."""
    switches: float
    infrastructure: int
    reward: Mapping[str, float]
    """Mean of every part of the reward per episode, where the controller tells them."""


class Trainer:
    """Trains by ``rounds()``; afterwards ``checkpoint`` is the learned state."""

    def __init__(
        self, training: Training, catalog: Catalog, executor: Executor, work: Work, *, workers: int = 1
    ) -> None:
        """Raises ConfigError when the controller cannot be trained."""
        arm = training.arm
        if not isinstance(catalog.make("controller", arm.controller, **arm.controller_options), Trainable):
            raise ConfigError(f"controller {arm.controller!r} cannot be trained", "bandit_v1 can")
        learner: Controller = catalog.make(
            "controller", arm.controller, **{"policy": UNTRAINED, **arm.controller_options}
        )
        assert isinstance(learner, Trainable)
        self._training = training
        self._learner: Controller = learner
        self._state: Trainable = learner
        self._executor = executor
        self._work = work
        self._workers = workers
        self._learner.begin(self._context("untrained", training.seed))

    @property
    def checkpoint(self) -> Checkpoint:
        """The state as learned so far."""
        return self._state.save()

    def rounds(self) -> Iterator[Round]:
        """Train, one round per item. Raises RuntimeFault when no episode of a round could be run.

        And GlobalBudgetSpentError when a ceiling that episodes share cut one short, for such an episode teaches nothing;
        BudgetStoreError when it did because it could not be asked; ExecutorError when a job was not answered once.
        """
        with contextlib.ExitStack() as stack:
            if isinstance(self._executor, contextlib.AbstractContextManager):
                stack.enter_context(self._executor)
            for number, keys in enumerate(self._schedule()):
                learned = checkpoint_lists(self.checkpoint)
                jobs = [self._job(index, task, seed, learned) for index, task, seed in keys]
                results = sorted(
                    self._executor.run(iter(jobs), self._work, workers=self._workers), key=lambda result: result.index
                )
                if [result.index for result in results] != [job.index for job in jobs]:
                    raise ExecutorError(
                        f"executor {self._executor.name!r} did not answer each of the {len(jobs)} jobs of round {number} once",
                        "train with --executor local, and tell the executor's author",
                    )
                yield self._learn(number, results)

    def _schedule(self) -> Iterator[list[tuple[int, str, int]]]:
        """Rounds of (index, task, seed); every pass over the tasks has an order and a seed of its own."""
        t = self._training
        order: list[tuple[int, str, int]] = []
        lap = 0
        while len(order) < t.episodes:
            tasks = list(t.tasks)
            rng("train-order", t.seed, lap).shuffle(tasks)
            order += [(len(order) + i, task, t.seed * 1_000 + lap) for i, task in enumerate(tasks)]
            lap += 1
        for start in range(0, t.episodes, t.round):
            yield order[start : min(start + t.round, t.episodes)]

    def _job(self, index: int, task: str, seed: int, learned: Mapping[str, Any]) -> EpisodeJob:
        """The job carries the policy itself: a worker may be on another machine, which sees no file of this one."""
        t = self._training
        run = {**t.run, "explore": True, "transitions": True}
        if index < t.warm_start:
            arm = replace(t.arm, controller=t.teacher, controller_options={})
        else:
            arm = replace(t.arm, controller_options={**t.arm.controller_options, "policy": UNTRAINED})
            run["learned"] = learned
        return EpisodeJob(index, arm.to_json(), task, seed, run)

    def _learn(self, number: int, results: Sequence[EpisodeResult]) -> Round:
        for result in results:
            if denied_by := result.record.get("denied_by"):
                raise _cut_short(denied_by, number)
        infrastructure = [r for r in results if r.record["status"] == "infrastructure"]
        if len(infrastructure) == len(results):
            raise RuntimeFault(f"no episode of round {number} could be run: {infrastructure[0].record['reason']}")
        reward: dict[str, float] = {}
        for result in results:
            context = self._context(f"train/{result.index}", int(result.record["seed"]))
            self._learner.begin(context)
            for transition in result.transitions:
                for name, part in self._parts(transition, context).items():
                    reward[name] = reward.get(name, 0.0) + part
                self._learner.learn(transition)
        records = [r.record for r in results if r not in infrastructure]
        count = len(records)
        return Round(
            round=number,
            episodes=results[-1].index + 1,
            teacher=results[0].index < self._training.warm_start,
            success=sum(bool(r["success"]) for r in records) / count,
            tokens=sum(int(r["tokens"]) for r in records) / count,
            denied=sum(bool(r["denied"]) for r in records) / count,
            switches=sum(int(r["switches"]) for r in records) / count,
            infrastructure=len(infrastructure),
            reward={name: total / count for name, total in sorted(reward.items())},
        )

    def _parts(self, transition: Transition, context: EpisodeContext) -> Mapping[str, float]:
        tell = getattr(self._learner, "reward_parts", None)
        parts: Mapping[str, float] = tell(transition, context) if tell else {}
        return parts

    def _context(self, episode: str, seed: int) -> EpisodeContext:
        arm = self._training.arm
        return EpisodeContext(episode, seed, arm.topologies, arm.budget, arm.dwell, frozen=False)


def _cut_short(denied_by: Mapping[str, str], number: int) -> GlobalBudgetSpentError | BudgetStoreError:
    """Why an episode of a round was cut short, by scope -> reason."""
    for name, reason in denied_by.items():
        if reason != TOO_LITTLE:
            word = reason.removeprefix("policy:")
            return BudgetStoreError(
                f"the budget of the {name} could not be asked ({word}) in round {number}",
                "see the log; nothing was written",
                reason=word,
            )
    return GlobalBudgetSpentError(
        f"the global budget is spent: the ceiling of the {' and '.join(denied_by)} cut an episode of round {number} short",
        "raise it, or train when it opens again; nothing was written",
    )
