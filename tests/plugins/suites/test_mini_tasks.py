"""Tasks: made again they are the same; what agents see tells nothing that decides; faults are seen by both kinds of tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from apex_framework.errors import SuiteError, UsageError
from apex_framework.interfaces import Task
from apex_framework.testing import check_suite
from apex_suites.mini.cases import HIDDEN, VISIBLE
from apex_suites.mini.generation import Generator
from apex_suites.mini.plan import OUTSIDE, SIZES, WEIGHTS, cap, slots
from apex_suites.mini.sources import build
from apex_suites.mini.suite import SALTS, MiniSuite
from apex_workspaces.local import LocalWorkspaces

AGAIN = """
import json, sys
from dataclasses import asdict
from apex_suites.mini.suite import MiniSuite
suite = MiniSuite(limit=3, cache_dir=sys.argv[1], progress=lambda done, wanted: None)
print(json.dumps([suite.digest, [asdict(t) for t in suite.tasks("dev")]], default=str))
"""


def originals_of(task: Task) -> dict[str, str]:
    """The task's repository without its fault."""
    source = next(s for s in Generator("dev", SALTS["dev"]).table if s.name == task.cluster)
    repository = build(source)
    assert repository is not None
    return dict(repository.files)


def test_another_process_makes_the_same_tasks_and_fewer_are_the_first_of_more(suite: MiniSuite, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AGAIN, str(tmp_path / "cache")],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONHASHSEED": "99"},
    )
    digest, tasks = json.loads(done.stdout)
    assert digest == suite.digest
    assert tasks == json.loads(json.dumps([asdict(t) for t in suite.tasks("dev")[:3]], default=str))


def test_the_suite_keeps_its_contract(make_suite: Callable[[], MiniSuite]) -> None:
    check_suite(make_suite)


def test_faults_are_seen_and_originals_pass(suite: MiniSuite) -> None:
    provider = suite.workspaces()
    try:
        for task in suite.tasks("dev")[:10]:
            workspace = provider.create(task)
            verdict = suite.grade(task, workspace)
            assert not verdict.success and not verdict.visible_passed and not verdict.infrastructure_error
            for path, text in originals_of(task).items():
                (workspace.root / path).write_text(text, encoding="utf-8")
            verdict = suite.grade(task, workspace)
            assert verdict.success and verdict.visible_passed, f"{task.id}: {verdict.detail}"
            workspace.dispose()
    finally:
        provider.close()


def test_changing_the_visible_tests_does_not_help(suite: MiniSuite) -> None:
    provider = suite.workspaces()
    try:
        task = suite.tasks("dev")[0]
        workspace = provider.create(task)
        (workspace.root / VISIBLE).write_text("", encoding="utf-8")
        assert not suite.grade(task, workspace).success
    finally:
        provider.close()


def test_a_broken_workspace_is_no_failure_of_the_team(suite: MiniSuite) -> None:
    provider = LocalWorkspaces()
    workspace = provider.create(suite.tasks("dev")[0])
    provider.close()
    verdict = suite.grade(suite.tasks("dev")[0], workspace)
    assert verdict.infrastructure_error and not verdict.success


def test_agents_see_neither_hidden_tests_nor_originals(suite: MiniSuite) -> None:
    for task in suite.tasks("dev"):
        draft = suite._drafts["dev"][task.id]
        seen = "\n".join([task.id, task.issue, *task.files.values(), *task.visible_tests, json.dumps(dict(task.run))])
        tests = [part.partition("\n")[2].strip() for part in draft.hidden.split("    def test_")[1:]]
        assert HIDDEN not in task.files and len(tests) == len(draft.hidden_ids)
        assert not [test for test in tests if test in seen]
        for path, start, end, _ in draft.edits:
            original = originals_of(task)[path].encode()[start:end].decode()
            assert task.files[path] != originals_of(task)[path]
            assert original == "" or original not in task.issue or len(original) < 12
        for site in task.meta["sites"]:
            assert site["function"] not in task.issue or not site["function"].startswith("_")
        for hidden in ("operator", "vocabulary", "original"):
            assert hidden not in task.run


def test_repositories_are_small_and_tests_are_enough(suite: MiniSuite) -> None:
    for task in suite.tasks("dev"):
        draft = suite._drafts["dev"][task.id]
        assert "README.md" in task.files and VISIBLE in task.files
        assert len(task.files) <= 12 and sum(map(len, task.files.values())) < 200_000
        assert 4 <= len(draft.visible_ids) <= 9 < len(draft.hidden_ids) <= 30
        assert 1 <= task.meta["failing_visible"] <= 3
        assert not set(draft.visible_ids) & set(draft.hidden_ids)


def test_the_plan_holds_its_weights_in_every_block() -> None:
    weights = sum(WEIGHTS.values())
    plan = [slot for slot, _ in zip(slots("test", "salt"), range(10 * weights), strict=False)]
    assert Counter(s.family for s in plan) == {family: 10 * n for family, n in WEIGHTS.items()}
    assert sum(not s.in_vocabulary for s in plan) == 10 * OUTSIDE >= 0.3 * len(plan)
    assert cap("test") <= 0.05 * SIZES["test"]


def test_a_small_part_is_mixed(suite: MiniSuite) -> None:
    tasks = suite.tasks("dev")
    assert set(WEIGHTS) == {t.family for t in tasks}
    assert len({t.cluster for t in tasks}) >= 14
    assert sum(not t.meta["in_vocabulary"] for t in tasks) / len(tasks) >= 0.25


def test_what_is_cached_is_read_back_and_damage_is_noticed(suite: MiniSuite, cache_dir: Path, tmp_path: Path) -> None:
    (file,) = cache_dir.glob("dev-*.jsonl.gz")
    (tmp_path / file.name).write_bytes(file.read_bytes())

    def never(done: int, wanted: int) -> None:
        raise AssertionError("the cache was not used")

    again = MiniSuite(limit=4, cache_dir=tmp_path, progress=never)
    assert again.tasks("dev") == suite.tasks("dev")[:4]
    (tmp_path / file.name).write_bytes(file.read_bytes()[:-100])
    told: list[int] = []
    repaired = MiniSuite(limit=1, cache_dir=tmp_path, progress=lambda done, wanted: told.append(done))
    assert repaired.tasks("dev") == suite.tasks("dev")[:1] and told == [1]


def test_wrong_requests_say_what_is_wrong(suite: MiniSuite) -> None:
    with pytest.raises(UsageError, match="no split"):
        suite.tasks("holdout")
    with pytest.raises(UsageError, match="limit"):
        MiniSuite(limit=0)
    with pytest.raises(SuiteError, match="workspace provider"):
        MiniSuite().workspaces()


@pytest.mark.slow(seconds=100)
@pytest.mark.timeout(900)
@pytest.mark.parametrize("split", [pytest.param("train", marks=pytest.mark.rest), "test"])
def test_a_whole_split_keeps_its_promises(split: str, tmp_path: Path) -> None:
    suite = MiniSuite(workspaces=LocalWorkspaces, cache_dir=tmp_path, progress=lambda done, wanted: None)
    tasks = suite.tasks(split)
    assert len(tasks) == SIZES[split] and suite.missing[split] == ()
    clusters, families = Counter(t.cluster for t in tasks), Counter(t.family for t in tasks)
    if split == "test":
        assert len(clusters) >= 40 and max(clusters.values()) <= 0.05 * len(tasks)
    for family, weight in WEIGHTS.items():
        assert abs(families[family] / len(tasks) - weight / sum(WEIGHTS.values())) < 0.02
    assert sum(not t.meta["in_vocabulary"] for t in tasks) / len(tasks) >= 0.3
    provider = suite.workspaces()
    try:
        for task in tasks[::10]:
            verdict = suite.grade(task, provider.create(task))
            assert not verdict.success and not verdict.infrastructure_error, f"{task.id}: {verdict}"
    finally:
        provider.close()
