"""The official grader: log parsers, and what they make of a log, from the package ``swebench`` where it is installed."""

from __future__ import annotations

import functools
import importlib.metadata
import json
import os
import resource
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from apex_framework.errors import MissingExtraError

from .rows import Instance

OLDEST: Final = 5
MOST_CPU_S: Final = 120
"""For reading a log: patterns of the official parsers come to no end on lines that code under test may print."""


@functools.cache
def version() -> str:
    """Of the installed package, when it is new enough; else empty. Imports nothing of it."""
    try:
        found = importlib.metadata.version("swebench")
    except importlib.metadata.PackageNotFoundError:
        return ""
    major = found.partition(".")[0]
    return found if major.isdigit() and int(major) >= OLDEST else ""


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


class Official:
    """Its modules take seconds to import, so they are on first use. Raises MissingExtraError."""

    def __init__(self) -> None:
        if not version():
            raise MissingExtraError("grading by the official log parsers", "swebench", "swebench")
        from swebench.harness import constants, grading
        from swebench.harness.log_parsers import PARSER_REGISTRY
        from swebench.types import TestSpec

        self._constants: Any = constants
        self._grading: Any = grading
        self._parsers: Mapping[str, Any] = PARSER_REGISTRY
        self._spec: Any = TestSpec

    def judge(self, instance: Instance, parser: str, log: str, *, passed: bool, timed_out: bool) -> Judged:
        """What the official harness says of a log. ``passed``: the command ended with status 0."""
        words = self._constants
        # The markers are the harness's: those that the code under test printed are none.
        inside = log.replace(">>>>>", "> > >")
        text = f"{words.START_TEST_OUTPUT}\n{inside}\n{words.END_TEST_OUTPUT}\n{words.TEST_EXIT_CODE}: {0 if passed else 1}\n"
        if timed_out:
            text += f"{words.TESTS_TIMEOUT}\n"
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".log") as file:
            file.write(text)
            file.flush()
            statuses, unread = self._read(instance, parser, file.name)
        return self._judged(instance, statuses, unread)

    def judge_channel(
        self, instance: Instance, parser: str, outcomes: Sequence[tuple[str, str]], *, passed: bool, timed_out: bool
    ) -> Judged:
        """The same of what our own channel says: word and name of each test, as a log would have them."""
        lines = "".join(f"{word} {name}\n" for name, word in outcomes)
        return self.judge(instance, parser, lines, passed=passed, timed_out=timed_out)

    def _read(self, instance: Instance, parser: str, log: str) -> tuple[Mapping[str, str], str]:
        """Words by name, or why there are none. A pattern at work cannot be stopped, so it is at work in a child."""
        with tempfile.TemporaryFile() as told:
            child = os.fork()
            if child == 0:
                try:
                    resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_S, MOST_CPU_S))
                    statuses, found = self._grading.get_logs_eval(self._test(instance, parser), log)
                    told.write(json.dumps([statuses, "" if found else "the log shows no results"]).encode())
                    told.flush()
                    os._exit(0)
                finally:
                    os._exit(1)
            if os.waitpid(child, 0)[1] != 0:
                return {}, f"the official parser came to no end on the log, or to none within {MOST_CPU_S} CPU seconds"
            told.seek(0)
            statuses, unread = json.load(told)
            return statuses, unread

    def _judged(self, instance: Instance, statuses: Mapping[str, str], unread: str) -> Judged:
        if unread:  # where only failures are looked for, no word of any would be a success
            return Judged(instance.FAIL_TO_PASS, instance.PASS_TO_PASS, unread)
        gold = {"FAIL_TO_PASS": instance.FAIL_TO_PASS, "PASS_TO_PASS": instance.PASS_TO_PASS}
        report = self._grading.get_eval_tests_report(dict(statuses), gold, eval_type=self._eval_type(instance))
        failed, broken = (tuple(report[kind]["failure"]) for kind in ("FAIL_TO_PASS", "PASS_TO_PASS"))
        return Judged(failed, broken)

    def _eval_type(self, instance: Instance) -> Any:
        """Of some repositories the logs name failures only."""
        kinds = self._constants.EvalType
        return kinds.FAIL_ONLY if instance.repo in self._constants.FAIL_ONLY_REPOS else kinds.PASS_AND_FAIL

    def _test(self, instance: Instance, parser: str) -> Any:
        return self._spec(
            instance_id=instance.instance_id,
            image="",
            eval_script_list=[],
            repo=instance.repo,
            version=instance.version,
            FAIL_TO_PASS=list(instance.FAIL_TO_PASS),
            PASS_TO_PASS=list(instance.PASS_TO_PASS),
            log_parser=parser,
            eval_type=self._eval_type(instance).value,
        )
