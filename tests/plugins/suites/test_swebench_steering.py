"""What of a patch native grading leaves as at the base is said in the verdict, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from swebench_world import FILES, World, make_world

from apex_framework.interfaces import Task
from apex_suites.swebench import grading
from apex_suites.swebench.steering import from_base
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
    monkeypatch.setattr(grading, "from_base", lambda *_: ())
    assert "conftest.py" not in detail(suite, world, {"conftest.py": "raise SystemExit(3)"})


NAMES = ("conftest.py", "tox.ini", "a.py", "json.py", "json", "__init__.py", "test_a.py", "test_a.so", "x.pth", "m.pyc")
PARTS = ("tests", "pkg", "src", "json", "test_a", "a.egg-info", "__pycache__")
PATHS = st.builds(
    lambda folders, name: "/".join([*folders, name]),
    st.lists(st.sampled_from(PARTS), max_size=2),
    st.sampled_from(NAMES),
)


def free_of_clashes(names: set[str]) -> dict[str, int]:
    """Files only: no name is a folder of another."""
    return {name: 0 for name in names if not any(other.startswith(f"{name}/") for other in names)}


@given(
    base=st.sets(PATHS, max_size=8).map(free_of_clashes),
    changed=st.sets(PATHS, max_size=8),
    brought=st.sampled_from((("tests/test_a.py",), ("test_a.py", "tests/pkg/test_a.py"), ("pkg/tests/test_a.py",))),
    path=st.sampled_from(((".",), ("src", "."), ("pkg/",))),
    free=st.sampled_from(((), ("tests/conftest.py",), ("*.ini",))),
    gone=st.booleans(),
)
def test_what_is_named_is_what_the_workspaces_leave_as_at_the_base(
    base: dict[str, int],
    changed: set[str],
    brought: tuple[str, ...],
    path: tuple[str, ...],
    free: tuple[str, ...],
    gone: bool,
) -> None:
    after = {name: number for name, number in base.items() if name not in changed}
    if not gone:
        after |= dict.fromkeys(changed, 1)
    after = {name: after[name] for name in free_of_clashes(set(after))}
    changed = {name for name in {*base, *after} if base.get(name) != after.get(name)}
    overlay = dict.fromkeys(brought, 2)
    rules = judging.Rules(path=path, free=free, always=True)
    seen = judging.laid_over(after, base, overlay, None, rules)
    differ = tuple(name for name in sorted(changed) if name not in overlay and seen.get(name) != after.get(name))
    assert from_base(changed, base, brought, path, free) == differ


def test_a_base_as_it_is_names_nothing() -> None:
    assert from_base((), FILES, ("tests/test_pkg.py",), (".",), ()) == ()
