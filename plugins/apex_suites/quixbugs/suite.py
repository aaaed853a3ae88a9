"""The suite ``quixbugs``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from apex_framework.errors import UsageError

from ..programs.program import Program, parsed
from ..programs.suite import ProgramSuite
from . import layout


class QuixBugsSuite(ProgramSuite):
    """Small wrong programs and right ones, of a checkout. All of it is ``test``: train and dev are refused."""

    name = "quixbugs"
    wanted = "QuixBugs (a checkout of jkoppel/QuixBugs)"
    splits = ("test",)
    caveats = ("QuixBugs and its right programs have been public since 2017: a language model may know them by heart.",)

    def read(self) -> Sequence[Program]:
        wrong, right = self.data / "python_programs", self.data / "correct_python_programs"
        for folder in (wrong, right):
            if not folder.is_dir():
                raise UsageError(f"{folder}: there is no such folder", f"--data {self.wanted}")
        made = [p for file in sorted(wrong.glob("*.py")) if (p := self._program(file, right / file.name))]
        if not made:
            raise UsageError(f"{self.data}: no program has a right form and test cases", f"--data {self.wanted}")
        return made

    def _program(self, wrong: Path, right: Path) -> Program | None:
        """None for a file that is no program of its own: what tests import, and what has no tests."""
        name = wrong.stem
        cases = self.data / "json_testcases" / f"{name}.json"
        tests = self.data / "python_testcases" / f"test_{name}.py"
        if not right.is_file() or not (cases.is_file() or tests.is_file()):
            return None
        source, faulty = (layout.text_of(path) for path in (right, wrong))
        for path, text in ((right, source), (wrong, faulty)):
            parsed(str(path), name, text)
        extra: tuple[tuple[str, str], ...] = ()
        if cases.is_file():
            checks, prelude = layout.checks_of_json(cases, name)
        else:
            checks, prelude, extra = layout.checks_of_python(tests, name, self.data / "python_programs")
        return Program(name, "test", name, source, checks, prelude, faulty, "program", extra)

    def _no_split(self, split: str) -> UsageError:
        return UsageError(f"quixbugs has no split {split!r}: it is a test set, nobody tunes on it", "quixbugs/test")
