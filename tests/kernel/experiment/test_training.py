"""Training: updates at the barrier, in plan order, whatever the workers; the teacher acts first."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from types import ModuleType

import pytest

from apex_executors.local import LocalExecutor
from apex_framework.analysis import checkpoint_bytes, checkpoint_digest
from apex_framework.catalog import Catalog
from apex_framework.episode.arm import Arm
from apex_framework.errors import ConfigError, ExecutorError, RuntimeFault
from apex_framework.experiment.run import Work
from apex_framework.experiment.train import Round, Trainer, Training
from apex_framework.interfaces import Checkpoint, EpisodeJob, EpisodeResult
from apex_framework.plugins import load_plugins
from apex_framework.testing.broken.executor import Sound, TakesFour, TellsTwice

TRAINING = Training(
    arm=Arm("bandit_v1", controller="bandit_v1"), tasks=("a", "b", "c", "d", "e"), episodes=12, round=5, warm_start=5
)


class Silent(Sound):
    """Answers nothing."""

    def run(self, jobs: Iterable[EpisodeJob], work: Work, *, workers: int) -> Iterator[EpisodeResult]:
        return iter(())


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_plugins().catalog


def trained(training: Training, catalog: Catalog, work: ModuleType, workers: int = 1) -> tuple[bytes, list[Round]]:
    trainer = Trainer(training, catalog, LocalExecutor(), work.taught, workers=workers)
    rounds = list(trainer.rounds())
    return checkpoint_bytes(trainer.checkpoint), rounds


def test_the_same_seed_gives_the_same_bytes_with_one_and_two_workers(
    catalog: Catalog, fake_episodes: ModuleType
) -> None:
    one, curve = trained(TRAINING, catalog, fake_episodes)
    two, other = trained(TRAINING, catalog, fake_episodes, workers=2)
    assert one == two
    assert curve == other
    assert [r.episodes for r in curve] == [5, 10, 12]
    assert [r.teacher for r in curve] == [True, False, False]
    assert set(curve[0].reward) >= {"tokens", "terminal"}
    assert trained(replace(TRAINING, seed=1), catalog, fake_episodes)[0] != one


def test_every_pass_over_the_tasks_has_an_order_and_a_seed_of_its_own(
    catalog: Catalog, fake_episodes: ModuleType
) -> None:
    trainer = Trainer(replace(TRAINING, episodes=10), catalog, LocalExecutor(), fake_episodes.taught)
    keys = [(task, seed) for round_ in trainer._schedule() for _, task, seed in round_]
    assert sorted(task for task, _ in keys[:5]) == sorted(task for task, _ in keys[5:]) == list("abcde")
    assert {seed for _, seed in keys[:5]} == {0}
    assert {seed for _, seed in keys[5:]} == {1}


def test_what_cannot_learn_is_refused(catalog: Catalog, fake_episodes: ModuleType) -> None:
    training = replace(TRAINING, arm=Arm("static", controller="static"))
    with pytest.raises(ConfigError, match="cannot be trained"):
        Trainer(training, catalog, LocalExecutor(), fake_episodes.taught)


def test_a_round_without_a_single_episode_is_an_error(catalog: Catalog, fake_episodes: ModuleType) -> None:
    trainer = Trainer(TRAINING, catalog, LocalExecutor(), fake_episodes.raising)
    with pytest.raises(RuntimeFault, match="no luck"):
        next(trainer.rounds())


def test_a_job_carries_its_policy_and_names_no_file_of_this_machine(
    catalog: Catalog, fake_episodes: ModuleType
) -> None:
    jobs: list[EpisodeJob] = []

    class Told(LocalExecutor):
        def run(self, todo: Iterable[EpisodeJob], work: Work, *, workers: int) -> Iterator[EpisodeResult]:
            todo = list(todo)
            jobs.extend(todo)
            return super().run(todo, work, workers=workers)

    trainer = Trainer(TRAINING, catalog, Told(), fake_episodes.taught)
    policies = [trainer.checkpoint]
    policies += [trainer.checkpoint for _ in trainer.rounds()]
    assert ["learned" in job.run for job in jobs] == [False] * 5 + [True] * 7  # the teacher acts first
    carried = [Checkpoint(**job.run["learned"]) for job in jobs[5:]]
    known = [checkpoint_digest(policies[1])] * 5 + [checkpoint_digest(policies[2])] * 2
    assert [checkpoint_digest(one) for one in carried] == known
    assert {job.arm["controller_options"]["policy"] for job in jobs[5:]} == {"none"}
    json.dumps([[job.arm, job.run] for job in jobs])


@pytest.mark.parametrize("executor", [TakesFour, TellsTwice, Silent])
def test_an_executor_that_does_not_answer_each_job_once_is_named(
    catalog: Catalog, fake_episodes: ModuleType, executor: type[Sound]
) -> None:
    trainer = Trainer(TRAINING, catalog, executor(), fake_episodes.taught)
    with pytest.raises(ExecutorError, match="executor 'sound' did not answer each of the 5 jobs of round 0 once"):
        next(trainer.rounds())
