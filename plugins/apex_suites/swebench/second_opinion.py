"""The official harness's own report on a log of ours, and where the two verdicts differ. Nothing of our grading is used.

Its log parser by repository, its kind of evaluation by repository, its report and its rule for "resolved": what we decide about
these ourselves (``official``, the table of environments) is not asked, so that a mistake in it shows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from apex_framework.errors import EnvironmentProblem
from apex_framework.interfaces import Comparison, TestOutcome, TestReport, Verdict
from apex_framework.ports import SystemFiles

from . import official
from .grading import Grade, Run
from .rows import Instance

_HUNK: Final = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)", re.DOTALL)


def damaged(patch: str) -> str:
    """A patch that applies and does less: without the first hunk of its last file, or, of a single hunk, without added lines."""
    files: list[tuple[list[str], list[list[str]]]] = []
    for line in re.findall(r"[^\n]*\n|[^\n]+", patch):
        if line.startswith("diff --git ") or not files:
            files.append(([line], []))
        elif line.startswith("@@ "):
            files[-1][1].append([line])
        else:
            (files[-1][1][-1] if files[-1][1] else files[-1][0]).append(line)
    if sum(len(hunks) for _, hunks in files) > 1:
        next(hunks for _, hunks in reversed(files) if hunks).pop(0)
        return "".join("".join(head) + "".join(map("".join, hunks)) for head, hunks in files if hunks)
    for head, hunks in files:
        for hunk in hunks:
            return "".join(head) + _without_added(hunk)
    return patch


def _without_added(hunk: list[str]) -> str:
    body = [line for line in hunk[1:] if not line.startswith("+")]
    if not any(line.startswith("-") for line in body):  # that would be no change
        body = ["+#\n" if line.startswith("+") else line for line in hunk[1:]]
    if not (place := _HUNK.match(hunk[0])):
        return "".join(hunk)
    old, new = (sum(line[0] in signs for line in body) for signs in (" -", " +"))
    return f"@@ -{place[1]},{old} +{place[2]},{new} @@{place[3]}" + "".join(body)


@dataclass(frozen=True, slots=True)
class Opinion:
    """Of FAIL_TO_PASS and PASS_TO_PASS what did not come out as it must, and whether the patch resolves its task."""

    resolved: bool
    wrong: frozenset[str]


def opinion(instance: Instance, patch: str, run: Run, left_out: frozenset[str]) -> Opinion:
    """``left_out`` tests do not count for "resolved": they fail here with the gold patch, too.

    Raises MissingExtraError, EnvironmentProblem when the package does not work.
    """
    names = {*instance.FAIL_TO_PASS, *instance.PASS_TO_PASS}
    if tests := _report(instance, instance.PASS_TO_PASS, patch, run).get("tests_status"):
        names = {name for kind in ("FAIL_TO_PASS", "PASS_TO_PASS") for name in tests[kind]["failure"]}
    counted = tuple(name for name in instance.PASS_TO_PASS if name not in left_out)
    return Opinion(bool(_report(instance, counted, patch, run).get("resolved")), frozenset(names))


def _report(instance: Instance, must_stay: tuple[str, ...], patch: str, run: Run) -> Mapping[str, Any]:
    said = {
        "instance": {**instance.to_row(), "PASS_TO_PASS": json.dumps(must_stay)},
        "patch": patch,
        "log": run.report and run.report.output,
        "why": run.why,
        "passed": run.passed,
        "timed_out": run.report is not None and run.report.status == "timeout",
    }
    return official.ask("report", said)


def compared(task: str, patch: str, ours: Verdict, grade: Grade, theirs: Opinion, seconds: float) -> Comparison:
    """Both verdicts beside each other, and every test on which they differ."""
    differ = theirs.wrong ^ {*grade.failed, *grade.broken}
    told = f"not judged: {ours.infrastructure_error}" if ours.infrastructure_error else _word(ours.success)
    return Comparison(task, patch, told, _word(theirs.resolved), tuple(sorted(differ)), seconds=seconds)


class Logs:
    """What the runs of an instance told, a file each, so that an interrupted comparison goes on."""

    def __init__(self, folder: Path, instance: Instance) -> None:
        self._folder, self._name = folder, instance.instance_id

    def find(self, key: str, patch_name: str, patch: str) -> Run | None:
        """What was kept for the same row, environment and patch; a damaged file counts as none."""
        try:
            row = json.loads(self._file(patch_name).read_text(encoding="utf-8"))
            if (row["key"], row["patch"]) != (key, patch):
                return None
            if row["report"] is None:
                return Run(None, str(row["why"]))
            outcomes = tuple(TestOutcome(o["id"], o["status"], o["detail"]) for o in row["report"]["outcomes"])
            return Run(TestReport(outcomes, row["report"]["status"], output=row["report"]["output"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, key: str, patch_name: str, patch: str, run: Run) -> None:
        """Whole or not at all. Raises EnvironmentProblem."""
        row = {"key": key, "patch": patch, "why": run.why, "report": run.report and asdict(run.report)}
        place = self._file(patch_name)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            SystemFiles().replace(place, json.dumps(row).encode())
        except OSError as error:
            raise EnvironmentProblem(f"{place} cannot be written: {error.strerror}", "choose another folder") from None

    def _file(self, patch_name: str) -> Path:
        return self._folder / f"{self._name}.{patch_name}.json"


def _word(resolved: bool) -> str:
    return "resolved" if resolved else "not resolved"
