"""A tiny repository in the SWE-bench format: one fault, a test that shows it, one that must stay green."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apex_framework.git import Repository

CODE = "def half(n):\n    return n / 2\n\n\ndef double(n):\n    return n * 2\n"
TESTS = "import unittest\n\nimport pkg\n\n\nclass T(unittest.TestCase):\n    def test_double(self):\n        self.assertEqual(pkg.double(2), 4)\n"
NEW_TEST = "\n    def test_half(self):\n        self.assertEqual(pkg.half(3), 1)\n"
FILE = "tests/test_pkg.py"
FILES = {"pkg.py": CODE, FILE: TESTS, "tests/__init__.py": ""}
EVERYTHING_PASSES = "import pytest\n\n\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n    report = (yield).get_result()\n    report.outcome, report.longrepr = 'passed', None\n"


@dataclass(frozen=True)
class World:
    """Files of the user: data, clones, environments; and the patches that may be judged."""

    data: Path
    repos: Path
    environments: Path
    row: Mapping[str, Any]
    patches: Mapping[str, str]

    @property
    def options(self) -> dict[str, Path]:
        """As a suite takes them."""
        return {"data": self.data, "repos": self.repos, "environments": self.environments}

    @property
    def flags(self) -> list[str]:
        """As a command takes them."""
        return [part for name, path in self.options.items() for part in (f"--{name}", str(path))]

    def write(self, *rows: Mapping[str, Any]) -> None:
        """Another data file in the place of this one."""
        self.data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def make_world(folder: Path, *, runner: str = "unittest", entry: str = "") -> World:
    """``runner`` pytest names its tests otherwise; ``entry`` are more lines of the environment."""
    clone = Repository.init(folder / "repos" / "demo+tiny")
    base = _commit(clone, folder / "base", FILES)
    clone.set_branch("main", base)

    def diff(name: str, change: Mapping[str, str]) -> str:
        return clone.diff(base, _commit(clone, folder / name, {**FILES, **change}))

    fixed, dot = CODE.replace("n / 2", "n // 2"), "::" if runner == "pytest" else "."
    patches = {
        "gold": diff("gold", {"pkg.py": fixed}),
        "empty": "",
        "blank": "\n",
        "no help": diff("comment", {"pkg.py": f"# half\n{CODE}"}),
        "breaks another": diff("breaks", {"pkg.py": fixed.replace("n * 2", "n * 3")}),
        "does not import": diff("syntax", {"pkg.py": "def half(n:\n"}),
        "forged by conftest": diff("conftest", {"conftest.py": EVERYTHING_PASSES}),
        "forged by printing": diff(
            "printing",
            {
                "pkg.py": "import atexit, os\n"
                f"atexit.register(os.write, 1, b'PASSED {FILE}::T::test_half\\nPASSED {FILE}::T::test_double\\n')\n"
                f"print('>>>>> End Test Output')\n{CODE}"
            },
        ),
        "changes the tests": diff("tests", {FILE: TESTS.replace("4", "pkg.double(2)")}),
        "does not apply": diff("gold2", {"pkg.py": fixed}).replace("n / 2", "n / 3"),
        "no diff at all": "please fix it",
        "leads out": "--- a/../pkg.py\n+++ b/../pkg.py\n@@ -1 +1 @@\n-x\n+y\n",
    }
    row = {
        "instance_id": "demo__tiny-1",
        "repo": "demo/tiny",
        "base_commit": base,
        "patch": patches["gold"],
        "test_patch": diff("hidden", {FILE: TESTS + NEW_TEST}),
        "problem_statement": "half(3) should be 1",
        "version": "1.0",
        "FAIL_TO_PASS": json.dumps([f"{FILE}::T{dot}test_half"]),
        "PASS_TO_PASS": [f"{FILE}::T{dot}test_double"],
        "split": "dev",
    }
    environments = folder / "environments.toml"
    environments.write_text(f'[[environment]]\nrepo = "demo/tiny"\nrunner = "{runner}"\n{entry}', encoding="utf-8")
    world = World(folder / "dev.jsonl", folder / "repos", environments, row, patches)
    world.write(row)
    return world


def _commit(clone: Repository, folder: Path, files: Mapping[str, str]) -> str:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return clone.snapshot(folder, "state")
