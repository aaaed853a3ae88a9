"""One instance, one patch: a fresh workspace at the base, the tests that nobody saw laid over it, and what came of them.

Where pytest runs the tests they are judged twice: by the official parsers from what was printed, and by our own channel, which
believes nothing that is printed. A difference between the two is said, and is no verdict.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from apex_framework.errors import MissingExtraError, WorkspaceError
from apex_framework.interfaces import RunsTests, Task, TestReport, Workspace, WorkspaceProvider

from . import official
from .environments import Environment
from .official import Judged, Official
from .patches import PatchError, apply, touched
from .rows import Instance

TIMEOUT_S: Final = 1800.0
_NO_TESTS: Final = (".json", ".png", "csv", ".txt", ".md", ".jpg", ".jpeg", ".pkl", ".yml", ".yaml", ".toml")
"""Endings of touched files that the official harness does not hand to a test command."""
_WORDS: Final = {"passed": "PASSED", "failed": "FAILED", "error": "ERROR", "timeout": "ERROR"}
_ORDER: Final = ("PASSED", "XFAIL", "ERROR", "FAILED")
"""In which a pytest's summary lists them: of two tests with one name in the log the last counts."""


@dataclass(frozen=True, slots=True)
class Grade:
    """Names of FAIL_TO_PASS and PASS_TO_PASS that did not come out as they must, and those on which the two judges differ."""

    failed: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    disputed: tuple[str, ...] = ()
    detail: str = ""
    """Why there were no results, if so."""


def test_files(instance: Instance, *, at_base: bool) -> tuple[str, ...]:
    """Files of the test patch that a test command is given: those that exist ``at_base``, or after the patch."""
    found = touched(instance.test_patch)
    absent = found.new if at_base else found.gone
    return tuple(path for path in found.paths if path not in absent and not path.endswith(_NO_TESTS))


class Grader:
    """``provider`` is called once, when the first patch is judged. Raises MissingExtraError where only a log can tell."""

    def __init__(self, provider: Callable[[], WorkspaceProvider]) -> None:
        self._make = provider
        self._provider: WorkspaceProvider | None = None
        self._official: Official | None = None

    def grade(self, instance: Instance, environment: Environment, repository: Path, patch: str) -> Grade:
        """Judge a diff against the base. Raises ApexError when nothing can be judged: no environment, no such commit."""
        if environment.runner == "command" and not official.version():
            raise MissingExtraError(f"grading {instance.repo}", "swebench", "swebench")
        if self._provider is None:
            self._provider = self._make()
        tests = test_files(instance, at_base=False)
        run = environment.run_of(instance.version, tests, deciding=True)
        # What the test patch removes stays removed, even where it steers tests.
        gone = sorted(touched(instance.test_patch).gone)
        run["free"] = gone
        task = Task(
            id=instance.instance_id,
            suite="swebench",
            split=instance.split,
            issue=instance.problem_statement,
            cluster=instance.repo,
            repo=str(repository),
            base_commit=instance.base_commit,
            run=run,
        )
        workspace = self._provider.create(task)
        try:
            overlay = _overlay(instance, workspace)
            if patch.strip():
                try:
                    apply(patch, workspace.root)
                except PatchError as error:
                    return _nothing(instance, f"the patch does not apply: {error}")
            for path in gone:
                (workspace.root / path).unlink(missing_ok=True)
            return self._judge(instance, environment, workspace, overlay)
        finally:
            workspace.dispose()

    def _judge(
        self, instance: Instance, environment: Environment, workspace: Workspace, overlay: Mapping[str, str]
    ) -> Grade:
        if not isinstance(workspace, RunsTests):
            raise WorkspaceError("the workspace cannot run tests", "use the workspaces 'uv'")
        try:
            report = workspace.run_tests(timeout_s=TIMEOUT_S, overlay=overlay)
        except WorkspaceError as error:
            if "cannot be collected" in error.cause:
                return _nothing(instance, error.cause)
            raise
        told = f"run {report.status}" if report.status != "finished" else ""
        if environment.runner == "unittest" or (environment.runner == "pytest" and not official.version()):
            judged = _by_channel(instance, _outcomes(report))
            return Grade(judged.failed, judged.broken, detail=told)
        self._official = self._official or Official()
        passed = bool(report.outcomes) and all(o.status in ("passed", "skipped") for o in report.outcomes)
        timed_out = report.status == "timeout"
        log = self._official.judge(instance, environment.parser, report.output, passed=passed, timed_out=timed_out)
        if environment.runner != "pytest":
            return Grade(log.failed, log.broken, detail=told or ("" if log.readable else "the log shows no results"))
        channel = self._official.judge_channel(instance, environment.parser, _outcomes(report))
        names = (*instance.FAIL_TO_PASS, *instance.PASS_TO_PASS)
        passes = self._official.passes
        disputed = tuple(name for name in names if passes(name, log) != passes(name, channel))
        return Grade(log.failed, log.broken, disputed, told)


def _overlay(instance: Instance, workspace: Workspace) -> dict[str, str]:
    """The test patch's files as they are after it, from the base's."""
    with tempfile.TemporaryDirectory(prefix="apex-tests-") as folder:
        try:
            made = apply(instance.test_patch, workspace.root, into=Path(folder))
            return {path: file.read_bytes().decode("utf-8") for path, file in made.items() if file is not None}
        except (PatchError, UnicodeDecodeError) as error:
            raise WorkspaceError(
                f"task {instance.instance_id}: its test patch does not apply as text: {error}", "is the data whole?"
            ) from None


def _outcomes(report: TestReport) -> list[tuple[str, str]]:
    """Names and words as pytest's summary has them. It does not name the tests that it skipped."""
    found = [(o.id, _WORDS.get(o.status, "XFAIL" if o.detail == "expected to fail" else "")) for o in report.outcomes]
    return sorted(((name, word) for name, word in found if word), key=lambda pair: _ORDER.index(pair[1]))


def _by_channel(instance: Instance, outcomes: Sequence[tuple[str, str]]) -> Judged:
    """Without the official parsers: names are whole, or end at their first space as in the data."""
    statuses = {form: word for name, word in outcomes for form in (name.split()[0], name)}
    wrong = [
        tuple(name for name in names if statuses.get(name) not in ("PASSED", "XFAIL"))
        for names in (instance.FAIL_TO_PASS, instance.PASS_TO_PASS)
    ]
    return Judged(wrong[0], wrong[1], statuses)


def _nothing(instance: Instance, why: str) -> Grade:
    return Grade(instance.FAIL_TO_PASS, instance.PASS_TO_PASS, detail=why)
