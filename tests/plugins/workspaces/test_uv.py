"""Environments of tasks: conformance, old interpreters, one making for all processes, and what cannot be had."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from apex_framework.errors import ApexError, EnvironmentProblem, WorkspaceError
from apex_framework.interfaces import Task
from apex_framework.testing.workspace import TASK, check_workspace
from apex_workspaces import removing
from apex_workspaces.environments import Environments, find_python, find_uv
from apex_workspaces.recipe import Recipe
from apex_workspaces.uv import UvWorkspaces

TEST = "import sys, unittest\n\nclass T(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual(sys.version_info[:2], {})\n"


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[UvWorkspaces]:
    made = UvWorkspaces(cache=tmp_path / "cache")
    yield made
    made.close()


def task(tests: str = TEST, /, **run: object) -> Task:
    return replace(
        TASK, files={"tests/test_a.py": tests}, run={"runner": "unittest", "tests": ["tests/test_a.py"], **run}
    )


def test_conformance(tmp_path: Path) -> None:
    check_workspace(lambda: UvWorkspaces(cache=tmp_path))


@pytest.mark.parametrize("version", ["3.6", "3.7", "3.9", "3.13"])
def test_tests_run_in_the_python_that_was_asked_for(provider: UvWorkspaces, version: str) -> None:
    try:
        find_python(version)
    except EnvironmentProblem as error:
        pytest.skip(str(error))
    wanted = tuple(map(int, version.split(".")))
    report = provider.create(task(TEST.format(wanted), python=version)).run_tests()
    assert [o.status for o in report.outcomes] == ["passed"]


@pytest.mark.parametrize(
    ("run", "word", "status"),
    [
        ({"python": "3.99"}, "there is no Python 3.99 here", 3),
        ({"python": "2.7"}, "too old", 3),
        ({"python": "three"}, "neither a version", 3),
        ({"python": "/nonexistent/python"}, "there is no Python", 3),
        ({"packages": ["/nonexistent/x.whl"]}, "cannot be installed", 4),
        ({"pre_install": [["{python}", "-c", "raise SystemExit('no compiler')"]]}, "failed: no compiler", 4),
        ({"pre_install": [["/nonexistent"]]}, "failed", 4),
    ],
)
def test_what_cannot_be_had_is_one_line_and_leaves_nothing(
    provider: UvWorkspaces, tmp_path: Path, run: dict[str, object], word: str, status: int
) -> None:
    with pytest.raises(ApexError, match=word) as caught:
        provider.create(task(TEST, **run))
    assert str(caught.value).startswith("task kit/1: ")
    assert "\n" not in str(caught.value)
    assert caught.value.exit_status == status
    assert list((tmp_path / "cache").glob("*/env")) == []


def wheel(folder: Path) -> Path:
    path = folder / "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("tiny.py", "SIZE = 1\n")
        file.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        file.writestr(
            "tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: a\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        names = ["tiny.py", *(f"tiny-1.0.dist-info/{n}" for n in ("METADATA", "WHEEL", "RECORD"))]
        file.writestr("tiny-1.0.dist-info/RECORD", "".join(f"{name},,\n" for name in names))
    return path


def test_packages_and_commands_make_an_environment_once(provider: UvWorkspaces, tmp_path: Path) -> None:
    tests = "import unittest, tiny, os\n\nclass T(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual(tiny.SIZE, 1)\n"
    made = task(tests, packages=[str(wheel(tmp_path))], pre_install=[["{python}", "-c", "open('made', 'w')"]])
    for _ in range(2):
        assert [o.status for o in provider.create(made).run_tests().outcomes] == ["passed"]
    (home,) = [p.parent for p in (tmp_path / "cache").glob("*/env")]
    assert (home / "source/made").exists()
    other = task(tests.replace("1)", "1.0)"), packages=[str(wheel(tmp_path))], pre_install=made.run["pre_install"])
    provider.create(other)
    assert len(list((tmp_path / "cache").glob("*/env"))) == 2


@pytest.mark.parametrize("with_uv", [True, False])
def test_only_what_was_asked_for_is_there_whoever_installs_it(
    provider: UvWorkspaces, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_uv: bool
) -> None:
    if not with_uv:
        monkeypatch.setattr("apex_workspaces.environments.find_uv", lambda: "")
    elif not find_uv():
        pytest.skip("there is no uv here")
    tests = (
        "import unittest, tiny\nfrom importlib.util import find_spec\n\nclass T(unittest.TestCase):\n    def test_a(self):\n"
        "        self.assertEqual([name for name in ('setuptools', 'pkg_resources', 'pip') if find_spec(name)], [])\n"
    )
    (outcome,) = provider.create(task(tests, packages=[str(wheel(tmp_path))])).run_tests().outcomes
    assert outcome.status == "passed", outcome


MAKE = """
import sys
from pathlib import Path
from apex_workspaces.environments import Environments
from apex_workspaces.recipe import Recipe
print(Environments(Path(sys.argv[1])).get(Recipe(runner="unittest"), {}).program)
"""


def test_processes_make_it_once(tmp_path: Path) -> None:
    started = [
        subprocess.Popen([sys.executable, "-c", MAKE, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert len({process.communicate()[0] for process in started}) == 1
    assert {process.returncode for process in started} == {0}
    assert len(list(tmp_path.glob("*/env"))) == 1


def test_what_a_killed_process_left_is_made_anew(tmp_path: Path) -> None:
    made = Environments(tmp_path).get(Recipe(runner="unittest"), {})
    home = Path(made.program).parents[2]
    (home / "whole").unlink()
    (home / "env/pyvenv.cfg").unlink()
    assert Environments(tmp_path).get(Recipe(runner="unittest"), {}) == made
    assert (home / "env/pyvenv.cfg").exists()


def test_a_half_made_environment_would_be_taken_without_its_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same, marked whole before it is made: what fails is then taken for an environment."""
    real = Environments._make

    def make(self: Environments, home: Path, *rest: object) -> None:
        (home / "whole").touch()
        monkeypatch.setattr(removing, "remove", lambda root: None)
        real(self, home, *rest)  # type: ignore[arg-type]  # passed on

    monkeypatch.setattr(Environments, "_make", make)
    broken = Recipe(runner="unittest", pre_install=(("/nonexistent",),))
    with pytest.raises(WorkspaceError):
        Environments(tmp_path).get(broken, {})
    assert Environments(tmp_path).get(broken, {}).program


SITE = "import unittest, added.more, sys\n\nclass T(unittest.TestCase):\n    def test_a(self):\n        print('seen', file=sys.stderr)\n        self.assertEqual(added.more.SIZE, 2)\n"


def test_files_beside_the_packages_and_what_was_printed(provider: UvWorkspaces) -> None:
    site = {"added/__init__.py": "", "added/more.py": "SIZE = 2\n", "sitecustomize.py": "import added.more\n"}
    environment = {"PYTHONUNBUFFERED": "1"}
    report = provider.create(task(SITE, site=site, env=environment, keep_output=1000)).run_tests()
    assert ([o.status for o in report.outcomes], report.output) == (["passed"], "seen\n")
    report = provider.create(
        task(SITE, site={**site, "added/more.py": "SIZE = 3\n"}, env=environment, keep_output=2)
    ).run_tests()
    assert ([o.status for o in report.outcomes], report.output) == (["failed"], "se")
    assert provider.create(task(SITE, site=site)).run_tests().output == ""


@pytest.mark.parametrize("path", ["/x.py", "../x.py", "a/../x.py", "a//x.py", ""])
def test_files_beside_the_packages_stay_there(provider: UvWorkspaces, path: str) -> None:
    with pytest.raises(WorkspaceError, match="not a path inside site-packages"):
        provider.create(task(SITE, site={path: ""}))
