"""Files beside a test that decides (configuration, plugins, modules of the same name) do not make a failing one pass."""

from __future__ import annotations

import importlib._bootstrap_external as bytecode
import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apex_framework.errors import WorkspaceError
from apex_framework.interfaces import RunsTests, Task, TestReport, WorkspaceProvider
from apex_workspaces import judging
from apex_workspaces.checkout import CheckoutWorkspaces
from apex_workspaces.local import LocalWorkspaces

CODE = "def add(a, b):\n    return a + b\n"
BAD = "import unittest\nfrom pkg.m import add\n\nclass T(unittest.TestCase):\n    def test_bad(self):\n        self.assertEqual(add(1, 2), 4)\n"
GOOD = "import unittest\nclass T(unittest.TestCase):\n    def test_bad(self):\n        pass\n"
HIDDEN = "tests/test_hidden.py"
RUNNERS = {
    "pytest": {"runner": "pytest", "tests": ["tests"]},
    "unittest": {"runner": "unittest", "tests": ["tests/test_a.py"]},
    "command": {"runner": "command", "command": ["{python}", "-m", "pytest", "-q", HIDDEN]},
}
IDS = {"pytest": f"{HIDDEN}::T::test_bad", "unittest": f"{HIDDEN}::T.test_bad", "command": "command"}
ZERO = "import os\nos._exit(0)\n"
PATCH = "import pkg.m\npkg.m.add = lambda a, b: a + b + 1\n"
BYTECODE = importlib.util.cache_from_source(HIDDEN)
FORGED = bytes(bytecode._code_to_hash_pyc(compile(GOOD, HIDDEN, "exec"), bytes(8), False))  # type: ignore[attr-defined]  # private, as attackers are

STEERING: dict[str, dict[str, str | bytes]] = {
    "conftest.py replaces the function under test": {
        "conftest.py": "import pytest\n@pytest.fixture(autouse=True)\ndef mend(monkeypatch):\n    monkeypatch.setattr('tests.test_hidden.add', lambda a, b: 4)\n"
    },
    "conftest.py replaces the test": {
        "tests/conftest.py": "def pytest_collection_modifyitems(items):\n    for item in items: item.obj = lambda: None\n"
    },
    "conftest.py ends the process": {"conftest.py": ZERO},
    "pytest.ini loads a plugin": {"pytest.ini": "[pytest]\naddopts = -p evil\npythonpath = .\n", "evil.py": ZERO},
    "pytest.ini collects only": {"pytest.ini": "[pytest]\naddopts = --collect-only\n"},
    ".pytest.ini": {".pytest.ini": "[pytest]\naddopts = --collect-only\n"},
    "pyproject.toml": {"pyproject.toml": "[tool.pytest.ini_options]\naddopts = '--collect-only'\n"},
    "tox.ini": {"tox.ini": "[pytest]\naddopts = --collect-only\n"},
    "setup.cfg": {"setup.cfg": "[tool:pytest]\naddopts = --collect-only\n"},
    "a configuration beside the tests": {"tests/pytest.ini": "[pytest]\naddopts = --collect-only\n"},
    "pytest_plugins of a conftest.py": {"conftest.py": "pytest_plugins = ['evil']\n", "evil.py": ZERO},
    "modules called as those that test": {
        f"{name}.py": ZERO
        for name in ("pytest", "_pytest", "pluggy", "json", "unittest", "os", "doctest", "pdb", "iniconfig")
    },
    "packages called as those that test": {
        f"{name}/__init__.py": ZERO for name in ("pytest", "_pytest", "pluggy", "json", "unittest")
    },
    "sitecustomize.py": {"sitecustomize.py": ZERO, "usercustomize.py": ZERO, "tests/sitecustomize.py": ZERO},
    "a .pth file": {"evil.pth": "import os; os._exit(0)\n", "tests/evil.pth": "import os; os._exit(0)\n"},
    "entry points in metadata": {
        "evil.py": ZERO,
        "evil-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: evil\nVersion: 1\n",
        "evil-1.dist-info/entry_points.txt": "[pytest11]\nevil = evil\n",
        "evil.egg-info/PKG-INFO": "Metadata-Version: 2.1\nName: evil\nVersion: 1\n",
        "evil.egg-info/entry_points.txt": "[pytest11]\nevil = evil\n",
    },
    "files of variables": {
        ".env": "PYTHONSTARTUP=evil.py\nPYTEST_PLUGINS=evil\nPYTEST_ADDOPTS=--collect-only\n",
        "pyvenv.cfg": "home = /nonexistent\n",
        "evil.py": ZERO,
    },
    "a package in the place of the test": {"tests/test_hidden/__init__.py": GOOD + f"__file__ = __file__[:-{len('/__init__.py')}] + '.py'\n"},
    "the package of the tests looks elsewhere": {
        "tests/__init__.py": "import os\n__path__ = [os.path.join(os.path.dirname(__file__), 'other')]\n",
        "tests/other/test_hidden.py": GOOD,
    },
    "the package of the tests replaces the code": {"tests/__init__.py": PATCH},
    "byte code in the place of the test": {BYTECODE: FORGED, "tests/test_hidden.pyc": FORGED},
    "a file in the place of the folder": {"tests": "nothing"},
}  # fmt: skip


def together(attempts: dict[str, dict[str, str | bytes]]) -> list[dict[str, str | bytes]]:
    """The attempts in as few workspaces as they fit into: no path twice with other contents, none below a file.

    The guard judges paths one by one, so what it lets through by itself it lets through in company, too.
    """
    laid: list[dict[str, str | bytes]] = []
    for files in attempts.values():
        for group in laid:
            if all(group.get(path, content) == content for path, content in files.items()) and not any(
                one.startswith(f"{other}/") or other.startswith(f"{one}/") for one in files for other in group
            ):
                group.update(files)
                break
        else:
            laid.append(dict(files))
    return laid


TOGETHER = together(STEERING)


@pytest.fixture(scope="module")
def provider() -> Iterator[CheckoutWorkspaces]:
    made = CheckoutWorkspaces()
    yield made
    made.close()


def task(runner: str = "pytest", **run: object) -> Task:
    files = {"pkg/__init__.py": "", "pkg/m.py": CODE, "tests/__init__.py": "", "tests/test_a.py": "import unittest\n"}
    return Task("t", "s", "dev", "i", "c", files=files, run={**RUNNERS[runner], **run})


def judge(
    provider: WorkspaceProvider, made: Task, written: dict[str, str | bytes], tests: str, test: str = ""
) -> TestReport:
    workspace = provider.create(made)
    try:
        for path, content in written.items():
            place = workspace.root / path
            if place.is_dir():
                for inner in place.iterdir():
                    inner.unlink()
                place.rmdir()
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content if isinstance(content, bytes) else content.encode())
        assert isinstance(workspace, RunsTests)
        return workspace.run_tests([test or IDS[str(made.run["runner"])]], timeout_s=60.0, overlay={HIDDEN: tests})
    finally:
        workspace.dispose()


def test_every_attempt_is_made() -> None:
    made = [item for written in TOGETHER for item in written.items()]
    assert all(item in made for files in STEERING.values() for item in files.items())


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize(
    "written", [pytest.param(w, id=str(n), marks=[pytest.mark.slow] if n else []) for n, w in enumerate(TOGETHER)]
)
def test_what_was_written_beside_it_does_not_make_a_failing_test_pass(
    provider: CheckoutWorkspaces, runner: str, written: dict[str, str | bytes]
) -> None:
    (outcome,) = judge(provider, task(runner), written, BAD).outcomes
    assert outcome.status == "failed", outcome
    assert "3 != 4" in outcome.detail or runner == "command"


@pytest.mark.slow
@pytest.mark.parametrize("runner", RUNNERS)
def test_a_solution_passes_with_all_of_it_lying_about(provider: CheckoutWorkspaces, runner: str) -> None:
    written = {path: content for files in STEERING.values() for path, content in files.items() if path != "tests"}
    written["pkg/m.py"] = CODE.replace("a + b", "a + b + 1")
    (outcome,) = judge(provider, task(runner), written, BAD).outcomes
    assert outcome.status == "passed", outcome


@pytest.mark.parametrize(
    "name", ["a file in the place of the folder", "sitecustomize.py", "modules called as those that test"]
)
def test_local_workspaces_judge_in_the_same_way(name: str) -> None:
    made = LocalWorkspaces()
    try:
        of_files = Task(
            "t", "s", "dev", "i", "c", files=task().files, run={"runner": "unittest", "tests": ["tests/test_a.py"]}
        )
        report = judge(made, of_files, STEERING[name], BAD)
        assert report.outcomes[0].status == "failed", report
        assert set(report.left_out) >= STEERING[name].keys() - {"tests/test_a.py"}
    finally:
        made.close()


@pytest.mark.slow
@pytest.mark.parametrize("runner", RUNNERS)
def test_without_the_guard_it_would(provider: CheckoutWorkspaces, monkeypatch: pytest.MonkeyPatch, runner: str) -> None:
    """The same attempts where what steers tests is taken as it is."""
    monkeypatch.setattr(judging, "judged", lambda present, *_, **__: dict(present))
    name = {"pytest": "conftest.py replaces the test", "unittest": "the package of the tests replaces the code"}
    written = STEERING[name.get(runner, "modules called as those that test")]
    (outcome,) = judge(provider, task(runner), written, BAD).outcomes
    assert outcome.status == "passed", outcome


def test_a_task_says_what_more_is_fixed_and_what_is_free(provider: CheckoutWorkspaces) -> None:
    tests = "from tests.kit import wanted\nimport unittest\nclass T(unittest.TestCase):\n    def test_bad(self):\n        self.assertEqual(wanted(), 4)\n"
    helper: dict[str, str | bytes] = {"tests/kit.py": "def wanted():\n    return 4\n"}
    steered: dict[str, str | bytes] = {"conftest.py": "import pytest\n", "types.py": "X = 1\n"}
    assert judge(provider, task("unittest"), helper, tests).passed == 1
    assert judge(provider, task("unittest", fixed=["tests/*"]), helper, tests).passed == 0
    reads = tests.replace(
        "from tests.kit import wanted\n",
        "import os\ndef wanted():\n    return 4 if os.path.exists('conftest.py') else 3\n",
    )
    assert judge(provider, task("unittest"), steered, reads).passed == 0
    assert judge(provider, task("unittest", free=["conftest.py"]), steered, reads).passed == 1


@pytest.mark.parametrize("make", [LocalWorkspaces, CheckoutWorkspaces])
@pytest.mark.parametrize("run", [{"fixed": "tests/*"}, {"free": [1]}])
def test_patterns_are_lists_of_texts(make: Callable[[], WorkspaceProvider], run: dict[str, object]) -> None:
    made = make()
    try:
        with pytest.raises(WorkspaceError, match="has no such value"):
            made.create(Task("t", "s", "dev", "i", "c", files=task().files, run={"runner": "unittest", **run}))
    finally:
        made.close()


def test_an_agents_own_runs_see_its_own_files(provider: CheckoutWorkspaces) -> None:
    workspace = provider.create(task())
    (workspace.root / "conftest.py").write_text("import pytest\n@pytest.fixture\ndef four():\n    return 4\n")
    (workspace.root / "tests/test_a.py").write_text("def test_own(four):\n    assert four == 4\n")
    assert workspace.run_tests(["tests/test_a.py::test_own"]).passed == 1
    assert workspace.run_tests(overlay={"pkg/m.py": CODE}).passed == 1
    workspace.dispose()


PATHS = st.lists(
    st.sampled_from(
        ["pkg", "tests", "conftest.py", "json.py", "m.py", "tox.ini", "__init__.py", "x.egg-info", "test_a"]
    ),
    min_size=1,
    max_size=3,
).map("/".join)
TREES = st.dictionaries(PATHS, st.integers(0, 3), max_size=8).map(
    lambda found: {
        path: item for path, item in found.items() if not any(other.startswith(f"{path}/") for other in found)
    }
)


@given(present=TREES, base=TREES, overlay=st.sets(st.sampled_from(["tests/test_a.py", "test_a.py"])))
def test_judged_is_settled_and_restores_the_base(
    present: dict[str, int], base: dict[str, int], overlay: set[str]
) -> None:
    made = judging.judged(present, base, overlay, judging.Rules())
    assert judging.judged(made, base, overlay, judging.Rules()) == made
    for path, item in made.items():
        assert base.get(path) == item or present.get(path) == item
    assert judging.judged(base, base, overlay, judging.Rules()) == base
    for path in base:
        if path.rpartition("/")[2] in ("conftest.py", "tox.ini"):
            assert made[path] == base[path]
    assert not any(path.rpartition("/")[2] in ("conftest.py", "tox.ini") for path in made.keys() - base.keys())


@given(
    present=TREES, base=TREES, brought=st.dictionaries(st.sampled_from(["tests/test_a.py", "test_a.py"]), st.just(9))
)
def test_what_was_left_out_is_all_that_a_run_did_not_see_as_it_is(
    present: dict[str, int], base: dict[str, int], brought: dict[str, int]
) -> None:
    seen = judging.laid_over(present, base, brought, None, judging.Rules(always=True))
    left_out = judging.left_out(present, seen, brought)
    assert {**present, **{name: base.get(name) for name in left_out}, **brought}.items() >= seen.items()
    assert all(present.get(name) != seen.get(name) and name not in brought for name in left_out)


def test_a_workspace_that_is_as_its_task_is_judged_as_it_is(tmp_path: Path) -> None:
    files = {"pyproject.toml": 1, "conftest.py": 2, "pkg/types.py": 3, "test/__init__.py": 4, "json.py": 5}
    assert judging.judged(files, files, {"tests/test_a.py"}, judging.Rules()) == files
    patched = {**files, "pkg/testing/__init__.py": 7}
    assert judging.judged(patched, files, {"tests/t.py"}, judging.Rules()) == patched
    assert judging.judged({**files, "pkg/queue.py": 6}, files, {"tests/t.py"}, judging.Rules()) == {
        **files,
        "pkg/queue.py": 6,
    }
