"""A cluster of two nodes on this machine, for real: what dies there costs itself only, and all else is as on ``local``."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from apex_ray.executor import RayExecutor
from ray.cluster_utils import Cluster

from apex_framework import EpisodeJob, EpisodeResult, infrastructure_failure, load_plugins
from apex_framework.episode.arm import Arm
from apex_framework.episode.episode import run_episode
from apex_framework.errors import ExecutorError
from apex_framework.experiment.artifacts import RunFolder
from apex_framework.experiment.plan import Plan
from apex_framework.experiment.planning import make_plan
from apex_framework.experiment.run import Runner
from apex_framework.testing import check_executor

pytestmark = pytest.mark.usefixtures("cluster")
Jobs = Callable[..., list[EpisodeJob]]


def require_each_once(results: list[EpisodeResult], jobs: list[EpisodeJob]) -> None:
    assert sorted(result.index for result in results) == [job.index for job in jobs]


def wait_until(holds: Callable[[], bool]) -> None:
    patience = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < patience, "it never came to that"
        time.sleep(0.05)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_it_keeps_the_contract_of_executors() -> None:
    check_executor(RayExecutor)


def test_what_dies_once_is_tried_again_and_what_dies_twice_has_failed(episodes: ModuleType, jobs: Jobs) -> None:
    planned = jobs("once", "a", "twice", "b", "actor", "c")
    results = list(RayExecutor().run(planned, episodes.dying, workers=2))
    require_each_once(results, planned)
    failed = [result.record for result in results if result.record["status"] == "infrastructure"]
    assert [(row["task_id"], row["reason"]) for row in failed] == [("twice", "its worker died twice (status 9)")]


def test_a_retry_that_doubles_a_result_is_caught(episodes: ModuleType, jobs: Jobs) -> None:
    class Doubling(RayExecutor):
        """Tells of the first death at once, and tries again all the same."""

        def _collect(self, flights: Any, crew: Any, again: Any) -> Iterator[EpisodeResult]:
            before = len(again)
            yield from super()._collect(flights, crew, again)
            for job, _ in list(again)[before:]:
                yield infrastructure_failure(job, "its worker died")

    planned = jobs("once", "a")
    with pytest.raises(AssertionError):
        require_each_once(list(Doubling().run(planned, episodes.dying, workers=1)), planned)


def test_a_hanging_episode_is_ended_and_its_actor_with_it(episodes: ModuleType, jobs: Jobs, tmp_path: Path) -> None:
    planned = jobs("endless", "a", "b")
    results = list(RayExecutor("limit_s=8").run(planned, episodes.endless, workers=1))
    require_each_once(results, planned)
    assert [r.record["reason"] for r in results if r.record["status"] == "infrastructure"] == ["took more than 8 s"]
    wait_until(lambda: not any(alive(int(pid)) for pid in (tmp_path / "0.pid").read_text().split()))
    assert (tmp_path / "0.clean").exists()


def test_closing_ends_all_of_it_and_takes_no_further_job(episodes: ModuleType, jobs: Jobs, tmp_path: Path) -> None:
    taken = []

    def source() -> Iterator[EpisodeJob]:
        for job in jobs("a", "endless", "endless", "endless"):
            taken.append(job.index)
            yield job

    results = RayExecutor().run(source(), episodes.endless, workers=2)
    assert next(results).index == 0
    wait_until(lambda: (tmp_path / "1.pid").exists())
    results.close()  # type: ignore[attr-defined]  # it is a generator
    assert taken in ([0, 1], [0, 1, 2])
    for name in tmp_path.glob("*.pid"):
        wait_until(lambda name=name: not any(alive(int(pid)) for pid in name.read_text().split()))  # type: ignore[misc]  # mypy knows no type of a lambda's default
        assert name.with_suffix(".clean").exists()


def test_workers_have_the_drivers_folder_and_only_what_was_sent(
    episodes: ModuleType, jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"APEX_SEEN": "1", "APEX_SEEN_KEY": "s1", "SENT_TOKEN": "s2", "KEPT_TOKEN": "s3"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    (result,) = RayExecutor("env=SENT_TOKEN").run(jobs("a"), episodes.telling, workers=1)
    there = result.record["environment"]
    assert (there["APEX_SEEN"], there["SENT_TOKEN"], there["PYTHONHASHSEED"]) == ("1", "s2", "0")
    assert not {"APEX_SEEN_KEY", "KEPT_TOKEN"} & there.keys()
    assert not [name for name in there if name.startswith("RAY_")]
    assert result.record["folder"] == os.path.realpath(tmp_path)


def test_a_node_with_other_versions_is_refused(
    episodes: ModuleType, jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here_only = tmp_path / "apex_here-1.0.dist-info"
    here_only.mkdir()
    (here_only / "METADATA").write_text("Metadata-Version: 2.1\nName: apex-here\nVersion: 1.0\n")
    (here_only / "entry_points.txt").write_text("[apex_framework]\nhere = apex_here\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ExecutorError, match=r"has apex-here \(none\), this machine 1\.0"):
        list(RayExecutor().run(jobs("a"), episodes.echo, workers=1))


def test_a_ceiling_that_a_node_cannot_see_is_refused(episodes: ModuleType, jobs: Jobs, tmp_path: Path) -> None:
    store = str(tmp_path / "gone" / "budget.sqlite3")
    with pytest.raises(ExecutorError, match="cannot be kept on node"):
        list(RayExecutor().run(jobs("a", budgets={"run": 500, "run_store": store}), episodes.echo, workers=1))


def test_a_cluster_without_room_is_told(episodes: ModuleType, jobs: Jobs) -> None:
    with pytest.raises(ExecutorError, match=r"no room for a worker within 1 s \(2 CPUs in all\)"):
        list(RayExecutor("cpus=64,start_s=1").run(jobs("a"), episodes.echo, workers=1))


def test_a_run_outlives_a_killed_node_and_its_files_are_those_of_local(tmp_path: Path, cluster: Cluster) -> None:
    plugins = load_plugins()
    arms = [Arm("static_star", topologies=("star",)), Arm("bandit_v1", controller="bandit_v1")]
    plan = make_plan(plugins, arms, suite="mini", split="dev", limit=3)
    if len(cluster.list_all_nodes()) < 2:  # this test was here before, and is tried again
        cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20)
    victim = next(node for node in cluster.list_all_nodes() if not node.head)
    done: list[EpisodeResult] = []

    def kill_the_node(result: EpisodeResult) -> None:
        done.append(result)
        if len(done) == 2:
            cluster.remove_node(victim, allow_graceful=False)

    ours = carried_out(tmp_path / "ray", plan, RayExecutor(), kill_the_node)
    assert len(done) == plan.size
    theirs = carried_out(tmp_path / "local", plan, plugins.catalog.make("executor", "local"), lambda result: None)
    assert ours == theirs


def carried_out(
    path: Path, plan: Plan, executor: Any, on_result: Callable[[EpisodeResult], None]
) -> dict[str, list[dict[str, Any]]]:
    """Every line that a finished run left, wall times aside."""
    with RunFolder.create(path, plan) as folder:
        outcome = Runner(folder, executor, run_episode, workers=2, on_result=on_result).run()
    assert outcome.complete and not outcome.infrastructure
    files = sorted(
        file for file in path.rglob("*") if file.suffix in (".jsonl", ".diff") and "metrics" not in str(file)
    )
    assert len(files) > 2 * plan.size  # three of each episode, and those of the run
    return {
        str(file.relative_to(path)): [without_times(line) for line in file.read_text().splitlines()] for file in files
    }


def without_times(line: str) -> Any:
    try:
        row = json.loads(line)
    except ValueError:
        return line
    return {k: v for k, v in row.items() if not k.endswith("_ms")} if isinstance(row, dict) else row
