"""What of a patch native grading leaves as at the base is said in the verdict, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from swebench_world import World, make_world

from apex_framework.interfaces import Task
from apex_suites.swebench.suite import SweBenchSuite
from apex_workspaces import judging
from apex_workspaces.checkout import CheckoutWorkspace, CheckoutWorkspaces

ADDED = "--- /dev/null\n+++ b/{}\n@@ -0,0 +1 @@\n+{}\n"


class Checkouts(CheckoutWorkspaces):
    """Tests run in the Python that runs these: nothing is installed, and no name is restored."""

    def create(self, task: Task) -> CheckoutWorkspace:
        return super().create(replace(task, run={k: v for k, v in task.run.items() if k != "site"}))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path, runner="pytest")


@pytest.fixture
def suite(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SweBenchSuite]:
    monkeypatch.setattr("apex_suites.swebench.official.version", lambda: "")
    provider = Checkouts()
    yield SweBenchSuite(workspaces=lambda preferred: provider, cache_dir=tmp_path / "checks", **world.options)
    provider.close()


def detail(suite: SweBenchSuite, world: World, more: dict[str, str]) -> str:
    patch = world.patches["gold"] + "".join(ADDED.format(name, text) for name, text in more.items())
    verdict = suite.grade_patch(suite.candidates("dev")[0], patch)
    assert verdict.success, verdict
    return verdict.detail


def test_files_that_steer_tests_and_were_left_out_are_named(suite: SweBenchSuite, world: World) -> None:
    counts = "FAIL_TO_PASS 1/1, PASS_TO_PASS 1/1"
    assert detail(suite, world, {"more.py": "x = 1"}) == counts
    told = f"{counts}; left as at the base, because they steer tests: "
    assert detail(suite, world, {"conftest.py": "raise SystemExit(3)", "more.py": "x = 1"}) == f"{told}conftest.py"
    assert detail(suite, world, {"tox.ini": "[pytest]"}) == f"{told}tox.ini"
    many = {f"{name}/conftest.py": "x = 1" for name in "abcdefg"}
    assert detail(suite, world, many) == told + ", ".join(list(many)[:5]) + " and 2 more"


def test_planted_a_grader_that_does_not_look_says_nothing(
    suite: SweBenchSuite, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "left_out", lambda *_: ())
    assert "conftest.py" not in detail(suite, world, {"conftest.py": "raise SystemExit(3)"})
