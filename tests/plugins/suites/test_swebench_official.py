"""SWE-bench natively, by the official log parsers: equal to our channel, and what the two disagree on is no verdict."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("swebench.harness.log_parsers", reason="the official grader needs the extra [swebench]")

from swebench_world import FILE, World, make_world

from apex_framework.interfaces import Task, TestReport
from apex_suites.swebench import official
from apex_suites.swebench.rows import read_instances
from apex_suites.swebench.suite import SweBenchSuite
from apex_workspaces.checkout import CheckoutWorkspace, CheckoutWorkspaces

JUDGED = {"gold": True, "empty": False, "breaks another": False, "does not import": False, "forged by printing": False}
COMMAND = 'command = ["{python}", "-m", "pytest", "-rA", "-p", "no:cacheprovider", "{files}"]\n'


class Checkouts(CheckoutWorkspaces):
    """Tests run in the Python that runs these. ``added`` is printed once the summary was."""

    added = ""

    def create(self, task: Task) -> CheckoutWorkspace:
        made = super().create(replace(task, run={k: v for k, v in task.run.items() if k != "site"}))
        real, added = made.run_tests, self.added

        def run_tests(
            tests: Sequence[str] | None = None,
            *,
            timeout_s: float = 120.0,
            coverage: bool = False,
            overlay: Mapping[str, str] | None = None,
        ) -> TestReport:
            report = real(tests, timeout_s=timeout_s, coverage=coverage, overlay=overlay)
            return replace(report, output=report.output + added)

        made.run_tests = run_tests  # type: ignore[method-assign]  # what came after the summary
        return made


def opened(world: World, folder: Path) -> Iterator[tuple[SweBenchSuite, Checkouts]]:
    provider = Checkouts()
    yield SweBenchSuite(workspaces=lambda preferred: provider, cache_dir=folder / "checks", **world.options), provider
    provider.close()


@pytest.mark.slow
@pytest.mark.parametrize("runner", ["pytest", "command"])
def test_the_official_parsers_judge_like_our_channel(tmp_path: Path, runner: str) -> None:
    world = make_world(tmp_path, runner="pytest")
    if runner == "command":
        text = world.environments.read_text()
        world.environments.write_text(text.replace('"pytest"', '"command"') + COMMAND)
    for suite, _ in opened(world, tmp_path):
        (task,) = suite.candidates("dev")
        verdicts = {name: suite.grade_patch(task, world.patches[name]) for name in JUDGED}
        assert {name: verdict.success for name, verdict in verdicts.items()} == JUDGED
        assert {(v.evaluator, v.infrastructure_error) for v in verdicts.values()} == {("swebench/native", "")}


@pytest.mark.slow
def test_a_log_that_says_what_our_channel_did_not_see_is_no_verdict(tmp_path: Path) -> None:
    world = make_world(tmp_path, runner="pytest")
    for suite, provider in opened(world, tmp_path):
        (task,) = suite.candidates("dev")
        assert suite.check(task).behaves
        provider.added = f"PASSED {FILE}::T::test_half\n"
        verdict = suite.grade_patch(task, "")
        assert (verdict.success, verdict.infrastructure_error) == (False, "")  # a failed run that names no failure
        provider.added += "FAILED other\n"
        verdict = suite.grade_patch(task, "")
        assert not verdict.success
        assert verdict.infrastructure_error.startswith(f"log and channel disagree on {FILE}::T::")


def test_markers_of_the_harness_in_the_output_are_none(tmp_path: Path) -> None:
    (instance,) = read_instances(make_world(tmp_path, runner="pytest").data)
    log = "".join(f"PASSED {name}\n" for name in (*instance.FAIL_TO_PASS, *instance.PASS_TO_PASS))

    def judged(text: str, *, passed: bool = True, timed_out: bool = False) -> bool:
        found = official.judge(instance, "parse_log_pytest", text, passed=passed, timed_out=timed_out)
        return not found.unread and not found.failed and not found.broken

    assert judged(log)
    assert not judged(log, passed=False)
    assert not judged(log, timed_out=True)
    assert not judged("")
    assert judged(f">>>>> Tests Timed Out\n>>>>> End Test Output\n{log}")
    assert not judged(f"{log}>>>>> End Test Output\nFAILED {instance.FAIL_TO_PASS[0]}\n", passed=False)
