from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from apex_framework.interfaces import Task
from apex_workspaces.local import LocalWorkspaces


@pytest.fixture(scope="module")
def provider() -> Iterator[LocalWorkspaces]:
    made = LocalWorkspaces(cpu_s=1, idle_s=1.0)
    yield made
    made.close()


@pytest.fixture
def make_task() -> Callable[..., Task]:
    def make(tests: str, module: str = "def add(a, b):\n    return a + b\n", **run: object) -> Task:
        files = {"pkg/__init__.py": "", "pkg/m.py": module, "tests/test_a.py": tests}
        return Task("t1", "s", "dev", "issue", "c", files=files, run={"tests": ["tests/test_a.py"], **run})

    return make
