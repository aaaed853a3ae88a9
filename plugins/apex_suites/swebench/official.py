"""The official grader: log parsers, and what they make of a log, from the package ``swebench`` where it is installed."""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, Final

from apex_framework.errors import EnvironmentProblem, MissingExtraError

from .rows import Instance

OLDEST: Final = 5
MOST_CPU_S: Final = 120
"""For reading a log: patterns of the official parsers come to no end on lines that code under test may print."""
ENDLESS: Final = "the official parser came to no end on the log within {} CPU seconds"


@functools.cache
def version() -> str:
    """Of the installed package, when it is new enough; else empty. Imports nothing of it."""
    try:
        found = importlib.metadata.version("swebench")
    except importlib.metadata.PackageNotFoundError:
        return ""
    major = found.partition(".")[0]
    return found if major.isdigit() and int(major) >= OLDEST else ""


def require(what: str) -> None:
    """Raises MissingExtraError without the package."""
    if not version():
        raise MissingExtraError(what, "swebench", "swebench")


@dataclass(frozen=True, slots=True)
class Judged:
    """Names that did not come out as they must: of FAIL_TO_PASS and of PASS_TO_PASS."""

    failed: tuple[str, ...]
    broken: tuple[str, ...]
    unread: str = ""
    """Why the log does not say what was run and how it ended, if so."""

    @property
    def wrong(self) -> frozenset[str]:
        """All of them."""
        return frozenset((*self.failed, *self.broken))


def judge(instance: Instance, parser: str, log: str, *, passed: bool, timed_out: bool) -> Judged:
    """What the official harness says of a log. ``passed``: the command ended with status 0.

    Raises MissingExtraError, EnvironmentProblem when the package does not work.
    """
    said = {"instance": instance.to_row(), "parser": parser, "log": log, "passed": passed, "timed_out": timed_out}
    found = ask("judge", said)
    if unread := found.get("unread", ""):  # where only failures are looked for, no word of any would be a success
        return Judged(instance.FAIL_TO_PASS, instance.PASS_TO_PASS, unread)
    return Judged(tuple(found["failed"]), tuple(found["broken"]))


def judge_channel(
    instance: Instance, parser: str, outcomes: Sequence[tuple[str, str]], *, passed: bool, timed_out: bool
) -> Judged:
    """The same of what our own channel says: word and name of each test, as a log would have them."""
    lines = "".join(f"{word} {name}\n" for name, word in outcomes)
    return judge(instance, parser, lines, passed=passed, timed_out=timed_out)


def ask(what: str, said: Mapping[str, Any]) -> dict[str, Any]:
    """What a function of ``harness`` answers, or why it does not, as ``unread``. Raises MissingExtraError, EnvironmentProblem."""
    require("the official grader")
    return _harness(os.getpid()).ask(what, said)


@functools.cache
def _harness(_process: int) -> Harness:
    """One for each process, never one that was forked with it."""
    made = Harness()
    atexit.register(made.close)
    return made


class Harness:
    """The package in a process of its own, from the first question on; begun anew after one without an answer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._child: subprocess.Popen[str] | None = None
        self._complaints: IO[bytes] | None = None

    def ask(self, what: str, said: Mapping[str, Any]) -> dict[str, Any]:
        """See the function."""
        with self._lock:
            try:
                told = self._told(json.dumps([what, said, MOST_CPU_S]))
            except BaseException:  # an answer that nobody waits for must not be the next one's
                self.close()
                raise
        answer: dict[str, Any] = json.loads(told)
        return answer

    def close(self) -> None:
        """End the process."""
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        child.wait()
        for stream in (child.stdin, child.stdout, self._complaints):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def _told(self, line: str) -> str:
        child = self._child = self._child or self._started()
        assert child.stdin is not None and child.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            child.stdin.write(f"{line}\n")
            child.stdin.flush()
        if (told := child.stdout.readline()).endswith("\n"):
            return told
        status, complaint = child.wait(), self._complaint()
        self.close()
        if status == -signal.SIGXCPU:
            return json.dumps({"unread": ENDLESS.format(MOST_CPU_S)})
        raise EnvironmentProblem(
            f"the package swebench does not work: {complaint or f'it ended with status {status}'}",
            "pip install 'apex-framework[swebench]'",
        )

    def _started(self) -> subprocess.Popen[str]:
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        return subprocess.Popen(
            [sys.executable, "-P", "-X", "utf8", "-m", f"{__package__}.harness"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            encoding="utf-8",
            start_new_session=True,  # Ctrl-C is for us
        )

    def _complaint(self) -> str:
        """The last line of what it wrote."""
        assert self._complaints is not None
        self._complaints.seek(0)
        lines = self._complaints.read().decode(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else ""
