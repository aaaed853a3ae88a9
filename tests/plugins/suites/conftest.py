"""A small part of the dev split, made once."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from apex_suites.mini.suite import MiniSuite
from apex_workspaces.local import LocalWorkspaces

sys.path.insert(0, str(Path(__file__).parent))  # swebench_world stands beside the tests

LIMIT = 20


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all workers: what one of them made, the next ones read."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return tmp_path_factory.mktemp("mini-cache")
    shared = tmp_path_factory.getbasetemp().parent / "mini-cache"
    shared.mkdir(exist_ok=True)
    return shared


@pytest.fixture(scope="session")
def make_suite(cache_dir: Path) -> Callable[[], MiniSuite]:
    return lambda: MiniSuite(
        workspaces=LocalWorkspaces, limit=LIMIT, cache_dir=cache_dir, progress=lambda done, wanted: None
    )


@pytest.fixture(scope="session")
def suite(make_suite: Callable[[], MiniSuite]) -> MiniSuite:
    made = make_suite()
    made.tasks("dev")
    return made
