"""SWE-bench in containers: the official package runs and judges, and a task says how its tests are run in its image."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from apex_framework.errors import EnvironmentProblem, UsageError

from . import official
from .environments import TIMEOUT_S, django_label
from .grading import Grade, test_files
from .rows import CONTAINER, Instance

EVALUATOR: Final = "swebench/container"
_PROGRAM: Final = "docker"
_ANSWERS_S: Final = 30.0
_IMAGE_S: Final = 3600.0
"""For what comes before the tests: fetching an image."""
_ENDING_S: Final = 60.0
_MARKS: Final = (">>>>> Start Test Output", ">>>>> End Test Output")
_TAIL: Final = 300


@dataclass(frozen=True, slots=True)
class Container:
    """What an instance's row says of its image: the entry of the table where tests run in containers."""

    instance: Instance

    evaluator = EVALUATOR

    @property
    def digest_parts(self) -> str:
        """All that decides verdicts in it, as text."""
        return json.dumps([self.instance.container, EVALUATOR, official.version()], sort_keys=True)

    def run_of(self, version: str, tests: Sequence[str], *, deciding: bool) -> dict[str, Any]:
        """``task.run`` for these test files, as agents run them: the row's own script without its test patch."""
        lines = self.instance.container["eval_script"].splitlines()
        start, end = (next((n for n, line in enumerate(lines) if mark in line), -1) for mark in _MARKS)
        first = next((n for n, line in enumerate(lines) if line.startswith("git ")), start)
        if not 0 < start < end - 1:
            raise UsageError(
                f"{self.instance.instance_id}: its eval_script does not say where the tests begin and end",
                "is the row whole?",
            )
        *before, last = lines[start + 1 : end]
        last, shape = _without_files(last, test_files(self.instance, at_base=False))
        script = "\n".join(line for line in (*lines[:first], *before, last) if not line.startswith(("#!", "set -")))
        return {
            "runner": "command",
            "image": self.instance.container["image"],
            "command": ["bash", "-c", script, "bash", "{test}"],
            "tests": list(map(shape, tests)) if shape else ["all"],
        }


def _without_files(command: str, files: Sequence[str]) -> tuple[str, Callable[[str], str] | None]:
    """A test command that takes another file instead of those at its end, and how it wants that named; or as it is, and None."""
    words = command.split()
    for shape in (str, django_label):
        named, kept = set(map(shape, files)), len(words)
        while kept and words[kept - 1] in named:
            kept -= 1
        if kept < len(words):
            return f'{" ".join(words[:kept])} "$1"', shape
    return command, None


class Containers:
    """The table where tests run in containers: rows that name an image, and the engine that has it."""

    def find(self, instance: Instance) -> Container | None:
        """That of the row. Raises UsageError for one that names no image."""
        if missing := [name for name in CONTAINER if not instance.container.get(name)]:
            raise UsageError(
                f"{instance.instance_id}: its row has no {missing[0]!r}, which tests in containers need",
                "the data of swebench 5 has it; or leave execution=containers out",
            )
        return Container(instance)


def grade(instance: Instance, patch: str) -> Grade:
    """What the official package says of a diff against the base, in a container of its own; of the tests as they are for none.

    Raises MissingExtraError, EnvironmentProblem where the package or the engine does not work.
    """
    check_engine()
    answer = _asked(instance, patch)
    if why := answer.get("error", ""):
        raise EnvironmentProblem(f"task {instance.instance_id}: {why}", "look at the engine and the image")
    if why := answer.get("not_resolved", ""):
        return Grade(instance.FAIL_TO_PASS, instance.PASS_TO_PASS, detail=why)
    report = answer["report"]
    if report["resolved"]:
        return Grade()
    statuses = report.get("tests_status", {})
    failed, broken = (tuple(statuses.get(name, {}).get("failure", ())) for name in ("FAIL_TO_PASS", "PASS_TO_PASS"))
    if not failed and not broken:
        return Grade(instance.FAIL_TO_PASS, instance.PASS_TO_PASS, detail="the log shows no results")
    return Grade(failed, broken)


def check_engine() -> None:
    """Raises MissingExtraError without the package, EnvironmentProblem without an engine that answers."""
    official.require("SWE-bench in containers")
    if shutil.which(_PROGRAM) is None:
        raise EnvironmentProblem(
            f"there is no program {_PROGRAM!r} here", "install Docker, or leave execution=containers out"
        )
    try:
        done = subprocess.run(
            [_PROGRAM, "version", "--format", "{{.Server.Version}}"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=_ANSWERS_S, check=False,
        )  # fmt: skip
        told = "" if done.returncode == 0 and done.stdout.strip() else done.stderr.strip() or "no version"
    except (OSError, subprocess.TimeoutExpired) as error:
        told = str(error)
    if told:
        raise EnvironmentProblem(
            f"no Docker engine answers: {told.splitlines()[-1][:_TAIL]}", "start it, or leave execution=containers out"
        )


def _asked(instance: Instance, patch: str) -> dict[str, Any]:
    said = {
        "row": {**instance.to_row(), **instance.container},
        "patch": patch,
        "run_id": f"apex-{secrets.token_hex(6)}",
        "timeout_s": int(TIMEOUT_S),
    }
    with tempfile.TemporaryDirectory(prefix="apex-container-") as folder, tempfile.TemporaryFile() as complaints:
        child = subprocess.Popen(
            [sys.executable, "-P", "-X", "utf8", "-m", f"{__package__}.in_container"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            encoding="utf-8",
            cwd=folder,
            start_new_session=True,  # Ctrl-C is for us, who then end it
        )
        try:
            told, _ = child.communicate(json.dumps(said), timeout=TIMEOUT_S + _IMAGE_S)
        except BaseException:
            _ended(child)
            raise
        if not told:
            complaints.seek(0)
            lines = complaints.read().decode(errors="replace").strip().splitlines()
            raise EnvironmentProblem(
                f"the package swebench does not work: {lines[-1][:_TAIL] if lines else f'status {child.returncode}'}",
                "pip install 'apex-framework[swebench]'",
            )
        answer: dict[str, Any] = json.loads(told)
        return answer


def _ended(child: subprocess.Popen[str]) -> None:
    """With time to remove its container."""
    child.terminate()
    try:
        child.communicate(timeout=_ENDING_S)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
