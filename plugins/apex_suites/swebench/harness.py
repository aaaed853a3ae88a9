"""The package ``swebench`` at work, as a program: a question per line of input, an answer per line of output, both JSON.

It is a process of its own because importing the package takes seconds and a pattern at work cannot be stopped: a question that
takes more CPU seconds than it may ends the process by SIGXCPU.
"""

from __future__ import annotations

import json
import math
import os
import resource
import sys
import tempfile
from collections.abc import Callable, Mapping
from typing import Any, Final

from swebench.harness import constants, grading, log_parsers, utils
from swebench.harness.log_parsers import python
from swebench.types import TestSpec


def judge(instance: Mapping[str, Any], parser: str, log: str, passed: bool, timed_out: bool) -> dict[str, Any]:
    """Names that did not come out as they must, from a log in which no marker of the harness counts: they are ours to say."""
    must_pass, must_stay = (json.loads(instance[name]) for name in ("FAIL_TO_PASS", "PASS_TO_PASS"))
    test = TestSpec(
        instance_id=instance["instance_id"],
        image="",
        eval_script_list=[],
        repo=instance["repo"],
        version=instance["version"],
        FAIL_TO_PASS=must_pass,
        PASS_TO_PASS=must_stay,
        log_parser=parser,
        eval_type=_eval_type(instance).value,
    )
    text = _marked(log.replace(">>>>>", "> > >"), passed, timed_out)
    statuses, found = _with_file(text, lambda path: grading.get_logs_eval(test, path))
    if not found:
        return {"unread": "the log shows no results"}
    gold = {"FAIL_TO_PASS": must_pass, "PASS_TO_PASS": must_stay}
    report = grading.get_eval_tests_report(statuses, gold, eval_type=_eval_type(instance))
    return {"failed": report["FAIL_TO_PASS"]["failure"], "broken": report["PASS_TO_PASS"]["failure"]}


def report(
    instance: Mapping[str, Any], patch: str, log: str | None, why: str, passed: bool, timed_out: bool
) -> dict[str, Any]:
    """The package's own report on an instance, with its own parser for the repository; a log of None: nothing was run."""
    parser = python.MAP_REPO_TO_PARSER_PY.get(instance["repo"], log_parsers.PARSER_REGISTRY["parse_log_pytest"])
    row = {
        **instance,
        "image": "",
        "eval_script": "",
        "log_parser": parser.__name__,
        "eval_type": _eval_type(instance).value,
    }
    text = f"{constants.APPLY_PATCH_FAIL}\n{why}\n" if log is None else _marked(log, passed, timed_out)
    prediction = {"instance_id": instance["instance_id"], "model_name_or_path": "apex", "model_patch": patch}
    test = utils.make_test_spec(row)
    made = _with_file(text, lambda path: grading.get_eval_report(test, prediction, path, include_tests_status=True))
    found: dict[str, Any] = made[instance["instance_id"]]
    return found


def _eval_type(instance: Mapping[str, Any]) -> Any:
    """Of some repositories the logs name failures only."""
    kinds = constants.EvalType
    return kinds.FAIL_ONLY if instance["repo"] in constants.FAIL_ONLY_REPOS else kinds.PASS_AND_FAIL


def _marked(log: str, passed: bool, timed_out: bool) -> str:
    """With what the official script would have printed around it."""
    text = f"{constants.START_TEST_OUTPUT}\n{log}\n{constants.END_TEST_OUTPUT}\n"
    text += f"{constants.TEST_EXIT_CODE}: {0 if passed else 1}\n"
    return f"{text}{constants.TESTS_TIMEOUT}\n" if timed_out else text


def _with_file(text: str, work: Callable[[str], Any]) -> Any:
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".log") as file:
        file.write(text)
        file.flush()
        return work(file.name)


ANSWERS: Final[Mapping[str, Callable[..., dict[str, Any]]]] = {"judge": judge, "report": report}


def main() -> None:
    """Answer until the input ends."""
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the package prints is no answer
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    for line in sys.stdin:
        what, said, most_cpu_s = json.loads(line)
        used = resource.getrusage(resource.RUSAGE_SELF)
        limit = math.ceil(used.ru_utime + used.ru_stime) + most_cpu_s
        resource.setrlimit(resource.RLIMIT_CPU, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
        try:
            answer = ANSWERS[what](**said)
        except Exception as error:  # noqa: BLE001 - a parser may stumble over any log
            answer = {"unread": f"the official package stumbled over the log: {type(error).__name__}: {error}"}
        print(json.dumps(answer), file=output, flush=True)


if __name__ == "__main__":
    main()
