"""One instance, one patch: a fresh workspace at the base, the tests that nobody saw laid over it, and what came of them.

Where pytest runs the tests they are judged twice: by the official parsers from what was printed, and by our own channel, which
believes nothing that is printed. A difference between the two is said, and is no verdict.
"""

from __future__ import annotations

import glob
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from apex_framework.errors import WorkspaceError
from apex_framework.interfaces import RunsTests, Sandbox, Task, TestReport, Workspace, WorkspaceProvider

from . import official
from .environments import MOST_LOG, TIMEOUT_S, Environment
from .leniently import apply_leniently
from .official import Judged
from .patches import PatchError, apply, touched
from .rows import Instance

_NO_TESTS: Final = (".json", ".png", "csv", ".txt", ".md", ".jpg", ".jpeg", ".pkl", ".yml", ".yaml", ".toml")
"""Endings of touched files that the official harness does not hand to a test command."""
_MOST_TOLD: Final = 200
"""Characters of a log's line that are repeated."""
_WORDS: Final = {"passed": "PASSED", "failed": "FAILED", "error": "ERROR", "timeout": "ERROR"}
_PASSED: Final = ("PASSED", "XFAIL")
_ORDER: Final = (*_PASSED, "SKIPPED", "ERROR", "FAILED")
"""In which a pytest's summary lists them: of two tests with one name in the log the last counts."""


@dataclass(frozen=True, slots=True)
class Grade:
    """Names of FAIL_TO_PASS and PASS_TO_PASS that did not come out as they must, and those on which the two judges differ."""

    failed: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    disputed: tuple[str, ...] = ()
    detail: str = ""
    """Why there were no results, if so, what applied the patch if not git, and which of its files were left as at the base."""


@dataclass(frozen=True, slots=True)
class Run:
    """What the tests did; without a report ``why`` none was run."""

    report: TestReport | None
    why: str = ""
    applied: str = ""
    """What applied the patch where git alone did not."""

    @property
    def passed(self) -> bool:
        """Whether the test command ended with status 0."""
        outcomes = self.report.outcomes if self.report else ()
        return bool(outcomes) and all(outcome.status in ("passed", "skipped") for outcome in outcomes)


def test_files(instance: Instance, *, at_base: bool) -> tuple[str, ...]:
    """Files of the test patch that a test command is given: those that exist ``at_base``, or after the patch."""
    found = touched(instance.test_patch)
    absent = found.new if at_base else found.gone
    return tuple(path for path in found.paths if path not in absent and not path.endswith(_NO_TESTS))


class Grader:
    """``provider`` is called when the first patch is judged; ``close`` closes what it made.

    Raises MissingExtraError where only a log can tell.
    """

    def __init__(self, provider: Callable[[], WorkspaceProvider]) -> None:
        self._make = provider
        self._provider: WorkspaceProvider | None = None

    def grade(self, instance: Instance, environment: Environment, repository: Path, patch: str) -> Grade:
        """Judge a diff against the base. Raises ApexError when nothing can be judged: no environment, no such commit."""
        return self.judge(instance, environment, self.run(instance, environment, repository, patch))

    def close(self) -> None:
        """Remove its workspaces; idempotent. The next patch has them made anew."""
        provider, self._provider = self._provider, None
        if provider is not None:
            provider.close()

    def run(self, instance: Instance, environment: Environment, repository: Path, patch: str) -> Run:
        """What the tests did with a diff against the base. Raises ApexError."""
        _can_tell(instance, environment)
        if self._provider is None:
            self._provider = self._make()
        tests = test_files(instance, at_base=False)
        run = environment.run_of(instance.version, tests, deciding=True)
        # What the test patch brings or removes stays so, even where it steers tests.
        run["free"] = [glob.escape(path) for path in touched(instance.test_patch).paths]
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
            if not isinstance(workspace, RunsTests):
                raise WorkspaceError("the workspace cannot run tests", "use the workspaces 'uv'")
            after = _after_test_patch(instance, workspace)
            applied = ""
            if patch.strip():
                try:
                    applied = _applied(patch, workspace, getattr(self._provider, "sandbox", None))
                except PatchError as error:
                    return Run(None, f"the patch does not apply: {error}")
            overlay = _laid_out(after, workspace.root)
            return Run(workspace.run_tests(timeout_s=TIMEOUT_S, overlay=overlay), applied=applied)
        except WorkspaceError as error:
            if "cannot be collected" in error.cause:
                return Run(None, error.cause)
            raise
        finally:
            workspace.dispose()

    def judge(self, instance: Instance, environment: Environment, run: Run) -> Grade:
        """What a run says of the patch: of nothing but the run."""
        grade = self._judged(instance, environment, run)
        told = [grade.detail, run.applied]
        if run.report is not None and run.report.left_out:
            told.append(f"left as at the base, because they steer tests: {some(run.report.left_out, 5)}")
        return replace(grade, detail="; ".join(filter(None, told)))

    def _judged(self, instance: Instance, environment: Environment, run: Run) -> Grade:
        _can_tell(instance, environment)
        report = run.report
        if report is None:
            return Grade(instance.FAIL_TO_PASS, instance.PASS_TO_PASS, detail=run.why)
        told = _ending(report)
        if len(report.output.encode()) >= MOST_LOG:
            told = f"more than {MOST_LOG:,} bytes were printed: the rest was not read"
        if environment.runner == "unittest" or (environment.runner == "pytest" and not official.version()):
            judged = _by_channel(instance, _outcomes(report, skips=environment.runner == "unittest"))
            return Grade(judged.failed, judged.broken, detail=told)
        ended = {"passed": run.passed, "timed_out": report.status == "timeout"}
        log = official.judge(instance, environment.parser, report.output, **ended)
        if log.unread and not told:
            told = f"{log.unread}; it ends with: {_last_line(report.output)}"
        if environment.runner != "pytest":
            return Grade(log.failed, log.broken, detail=told)
        channel = official.judge_channel(instance, environment.parser, _outcomes(report), **ended)
        names = (*instance.FAIL_TO_PASS, *instance.PASS_TO_PASS)
        disputed = tuple(name for name in names if name in log.wrong ^ channel.wrong)
        return Grade(log.failed, log.broken, disputed, told)


def _ending(report: TestReport) -> str:
    """How a run ended that did not end by itself, and what stopped it; empty for one that did."""
    if report.status == "finished":
        return ""
    why = next((o.detail for o in report.outcomes if o.status == report.status and o.detail), "")
    return ": ".join(filter(None, (f"run {report.status}", why.partition("\n")[0])))


def some(names: Sequence[str], most: int = 3) -> str:
    """The first of them, and how many there are besides."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def _last_line(log: str) -> str:
    """As much of it as tells what kept the tests from being run: a package that is not there, a broken collection."""
    return next((line.strip()[:_MOST_TOLD] for line in reversed(log.splitlines()) if line.strip()), "nothing")


def _can_tell(instance: Instance, environment: Environment) -> None:
    if environment.runner == "command":
        official.require(f"grading {instance.repo}")


def _applied(patch: str, workspace: Workspace, sandbox: Sandbox | None) -> str:
    """What applied a patch where git alone did not. Raises PatchError."""
    try:
        apply(patch, workspace.root)
    except PatchError as error:
        workspace.rollback()
        return apply_leniently(patch, workspace.root, sandbox, error)
    return ""


def _after_test_patch(instance: Instance, workspace: Workspace) -> dict[str, bytes | None]:
    """The test patch's files as they are after it, from the base's; None for those that it removes."""
    with tempfile.TemporaryDirectory(prefix="apex-tests-") as folder:
        try:
            made = apply(instance.test_patch, workspace.root, into=Path(folder))
        except PatchError as error:
            raise WorkspaceError(
                f"task {instance.instance_id}: its test patch does not apply: {error}", "is the data whole?"
            ) from None
        return {path: None if file is None else file.read_bytes() for path, file in made.items()}


def _laid_out(after: Mapping[str, bytes | None], root: Path) -> dict[str, str]:
    """Texts to be laid over; what is no text is put there, and what was removed is removed, at once."""
    texts: dict[str, str] = {}
    for path, data in after.items():
        try:
            if data is not None:
                texts[path] = data.decode("utf-8")
                continue
        except UnicodeDecodeError:
            pass
        _clear(root, path)
        if data is not None:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(data)
    return texts


def _clear(root: Path, path: str) -> None:
    """Remove a file, and whatever a patch has put in its place or in its way: a folder, or a link that leads elsewhere."""
    *folders, last = path.split("/")
    at = root
    for part in folders:
        at /= part
        if at.is_symlink() or at.is_file():
            at.unlink()
    if (at / last).is_dir() and not (at / last).is_symlink():
        shutil.rmtree(at / last)
    else:
        (at / last).unlink(missing_ok=True)


def _outcomes(report: TestReport, *, skips: bool = False) -> list[tuple[str, str]]:
    """Names and words as pytest's summary has them, which does not name the tests that it skipped."""
    words = {**_WORDS, "skipped": "SKIPPED" if skips else ""}
    found = [(o.id, "XFAIL" if o.detail == "expected to fail" else words[o.status]) for o in report.outcomes]
    return sorted(((name, word) for name, word in found if word), key=lambda pair: _ORDER.index(pair[1]))


def _by_channel(instance: Instance, outcomes: Sequence[tuple[str, str]]) -> Judged:
    """Without the official parsers: names are whole, or end at their first space as in the data."""
    statuses = {form: word for name, word in outcomes for form in (name.split()[0], name)}
    failed = tuple(name for name in instance.FAIL_TO_PASS if _word(name, statuses) not in _PASSED)
    # To be skipped is no regression, and no solution.
    broken = tuple(name for name in instance.PASS_TO_PASS if _word(name, statuses) not in (*_PASSED, "SKIPPED"))
    return Judged(failed, broken)


def _word(name: str, statuses: Mapping[str, str]) -> str:
    """Of a test; of one whose name the data cut off amid its parameters, where all that begin so are of one mind."""
    if name not in statuses and name.count("[") > name.count("]"):
        words = [word for known, word in statuses.items() if known.startswith(name)]
        return words[0] if len({word in _PASSED for word in words}) == 1 else ""
    return statuses.get(name, "")
