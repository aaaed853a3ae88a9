"""Our verdicts on recorded logs, beside those of the official harness's own report on the same logs."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from difflib import unified_diff
from pathlib import Path
from typing import Any

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("swebench.harness.log_parsers", reason="the official grader needs the extra [swebench]")

from apex_framework.cli.boundary import run
from apex_framework.interfaces import ComparesVerdicts, Comparison, TestOutcome, TestReport
from apex_suites.swebench.checks import key_of
from apex_suites.swebench.environments import Table
from apex_suites.swebench.grading import Grade, Grader, Run, _by_channel, _outcomes
from apex_suites.swebench.official import Judged, judge, judge_channel
from apex_suites.swebench.patches import apply
from apex_suites.swebench.rows import Instance, read_instances
from apex_suites.swebench.second_opinion import Logs, damaged, opinion
from apex_suites.swebench.suite import SweBenchSuite, _verdict

PATCH = "diff --git a/m.py b/m.py\n--- a/m.py\n+++ b/m.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n@@ -9 +9 @@\n-y = 1\n+y = 2\n"
T = "tests/test_m.py::"
DJANGO = "test_a (m.tests.A) ... {}\ntest_b (m.tests.A) ... {}\n\nRan 2 tests\n"
SYMPY = "sympy/core/tests/test_m.py[2] \ntest_a {}\ntest_b {}\n{}"
PYTEST = (
    "..F\n=== short test summary info ===\n{} {}test_a[x\x1b[0m y]\n{} {}test_b\nSKIPPED [1] tests/test_m.py:3: no\n"
)


def instance(repo: str, version: str, names: tuple[str, str]) -> Instance:
    head = repo.replace("/", "__")
    return Instance(f"{head}-1", repo, "0" * 40, PATCH, PATCH, "x", names[:1], names[1:], version, split="dev")


def by_command(log: str, *, passed: bool) -> Run:
    return Run(TestReport((TestOutcome("command", "passed" if passed else "failed"),), output=log))


def by_pytest(log: str, **statuses: str) -> Run:
    return Run(TestReport(tuple(TestOutcome(f"{T}{n}", s) for n, s in statuses.items()), output=log))


def recorded() -> dict[str, tuple[Instance, dict[str, Run]]]:
    """Of three ways to run tests: what they told with the gold patch, the empty and the damaged one."""
    django = instance("django/django", "5.0", ("test_a (m.tests.A)", "test_b (m.tests.A)"))
    sympy = instance("sympy/sympy", "1.1", ("test_a", "test_b"))
    flask = instance("pallets/flask", "2.3", (f"{T}test_a", f"{T}test_b"))
    return {
        "django": (
            django,
            {
                "gold": by_command(DJANGO.format("ok", "ok"), passed=True),
                "empty": by_command(DJANGO.format("ERROR", "ok"), passed=False),
                "damaged": by_command(DJANGO.format("ok", "FAIL"), passed=False),
            },
        ),
        "sympy": (
            sympy,
            {
                "gold": by_command(SYMPY.format("ok", "ok", ""), passed=True),
                "empty": by_command(
                    SYMPY.format("F", "ok", "____ sympy/core/tests/test_m.py:test_a ____\n"), passed=False
                ),
                "damaged": by_command(SYMPY.format("ok", "E", ""), passed=False),
            },
        ),
        "pytest": (
            flask,
            {
                "gold": by_pytest(f"PASSED {T}test_a\nPASSED {T}test_b\n", test_a="passed", test_b="passed"),
                "empty": by_pytest(f"PASSED {T}test_b\nFAILED {T}test_a - x\n", test_a="failed", test_b="passed"),
                "damaged": by_pytest(f"PASSED {T}test_a\nFAILED {T}test_b\n", test_a="passed", test_b="failed"),
            },
        ),
    }


@pytest.fixture(params=["django", "sympy", "pytest"])
def suite(request: pytest.FixtureRequest, tmp_path: Path) -> SweBenchSuite:
    """One task whose logs are there: nothing is run."""
    one, runs = recorded()[request.param]
    data = tmp_path / "dev.jsonl"
    data.write_text(json.dumps(one.to_row()))
    made = SweBenchSuite(data=data, repos=tmp_path, cache_dir=tmp_path / "checks")
    for name, told in runs.items():
        patch = {"gold": PATCH, "empty": "", "damaged": damaged(PATCH)}[name]
        Logs(tmp_path / "logs", one).keep(key_of(one, made._table.find(one)), name, patch, told)  # type: ignore[arg-type]  # it is in the table
    return made


def compared(suite: SweBenchSuite, tmp_path: Path) -> list[Comparison]:
    (task,) = suite.candidates("dev")
    return list(suite.compare(task, tmp_path / "logs"))


def test_our_verdicts_are_the_official_harness_s_test_by_test(suite: SweBenchSuite, tmp_path: Path) -> None:
    assert isinstance(suite, ComparesVerdicts)
    found = compared(suite, tmp_path)
    assert [(one.patch, one.ours) for one in found] == [
        ("gold", "resolved"),
        ("empty", "not resolved"),
        ("damaged", "not resolved"),
    ]
    assert all(one.equal for one in found), found
    assert len(suite.tasks("dev")) == 1  # and the task was checked by the way


BUGS: dict[str, tuple[str, Callable[..., Any]]] = {
    "pass-to-pass is ignored": ("official", lambda *a, **k: replace(judge(*a, **k), broken=())),
    "another parser": ("official", lambda i, _, *a, **k: judge(i, "parse_log_maven", *a, **k)),
    "whoever ends well has passed": (
        "official", lambda i, p, log, *, passed, timed_out: Judged((), ()) if passed else Judged(i.FAIL_TO_PASS, ())),
    "nothing is ever resolved": (
        "grading.Grader", lambda self, i, *a, real=Grader.judge: replace(real(self, i, *a), failed=i.FAIL_TO_PASS)),
}  # fmt: skip


@pytest.mark.parametrize("bug", BUGS)
def test_planted_a_bug_in_our_grading_differs_from_the_official_verdict(
    suite: SweBenchSuite, tmp_path: Path, bug: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, planted = BUGS[bug]
    monkeypatch.setattr(f"apex_suites.swebench.{owner}.judge", planted)
    assert not all(one.equal for one in compared(suite, tmp_path))


def test_the_command_compares_and_ends_with_status_5_on_a_difference(
    suite: SweBenchSuite, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("APEX_CACHE", str(tmp_path / "cache"))
    flags = ["--data", str(tmp_path / "dev.jsonl"), "--repos", str(tmp_path), "--official", str(tmp_path / "logs")]
    command = ["suite", "check", "swebench_lite/dev", *flags, "--allow-weaker-sandbox", "--json"]
    assert run(command) == 0
    value = json.loads(capsys.readouterr().out)
    assert (value["patches"], value["equal"], value["resolved"]) == (3, 3, {"gold": 1})
    judge = Grader.judge
    monkeypatch.setattr(Grader, "judge", lambda self, i, *a: replace(judge(self, i, *a), broken=(*i.PASS_TO_PASS,)))
    assert run(command) == 5
    value = json.loads(capsys.readouterr().out)
    assert {tuple(one["tests"]) for one in value["different"]} <= {
        read_instances(tmp_path / "dev.jsonl")[0].PASS_TO_PASS
    }
    assert run(["suite", "check", "mini/dev", "--limit", "1", "--official", str(tmp_path / "logs")]) == 2


def test_a_log_of_another_patch_or_a_damaged_one_is_not_taken(suite: SweBenchSuite, tmp_path: Path) -> None:
    file = next((tmp_path / "logs").glob("*.damaged.json"))
    for text in (json.dumps({**json.loads(file.read_text()), "patch": "other"}), "{"):
        file.write_text(text)
        *_, last = compared(suite, tmp_path)
        assert last.patch == "damaged" and "no clone of" in last.infrastructure_error and not last.equal


def judged(one: Instance, told: Run, *left_out: str) -> tuple[str, bool]:
    """Our word, and whether the official harness says the same, test by test."""
    environment = Table().find(one)
    assert environment is not None
    grade = Grader(lambda: pytest.fail("nothing is to be run")).judge(one, environment, told)
    ours = _verdict(one, environment.evaluator, grade, frozenset(left_out))
    theirs = opinion(one, PATCH, told, frozenset(left_out))
    same = ours.success == theirs.resolved and theirs.wrong == {*grade.failed, *grade.broken}
    return ours.infrastructure_error or ("resolved" if ours.success else "not resolved"), same


FLASK, SEABORN = (instance(repo, "0.13", (f"{T}test_a", f"{T}test_b")) for repo in ("pallets/flask", "mwaskom/seaborn"))
DJANGO_1 = instance("django/django", "5.0", ("test_a (m.tests.A)", "test_b (m.tests.A)"))
SPHINX = instance("sphinx-doc/sphinx", "7.2", (f"{T}test_a", f"{T}test_b[a b]"))
CASES = {
    "what must stay green is skipped": (
        DJANGO_1, by_command(DJANGO.format("ok", "skipped 'no'"), passed=True), "resolved"),
    "what must become green is skipped": (
        DJANGO_1, by_command(DJANGO.format("skipped 'no'", "ok"), passed=True), "not resolved"),
    "it is printed after other output": (
        DJANGO_1, by_command(DJANGO.format("noise\nok", "ok"), passed=True), "resolved"),
    "one is printed twice, and the last counts": (
        FLASK, by_pytest(f"PASSED {T}test_a\nPASSED {T}test_b\nERROR {T}test_b - x\n", test_a="passed", test_b="error"), "not resolved"),
    "it was expected to fail": (
        FLASK, Run(TestReport((TestOutcome(f"{T}test_a", "passed"), TestOutcome(f"{T}test_b", "skipped", "expected to fail")),
                              output=f"PASSED {T}test_a\nXFAIL {T}test_b - why\n")), "resolved"),
    "it was expected to fail, and passed": (
        FLASK, Run(TestReport((TestOutcome(f"{T}test_a", "passed"), TestOutcome(f"{T}test_b", "skipped", "expected to fail, but passed")),
                              output=f"PASSED {T}test_a\nXPASS {T}test_b why\n")), "not resolved"),
    "a fixture fails, which this parser does not read": (
        SEABORN, by_pytest(f"PASSED {T}test_a\nPASSED {T}test_b\nERROR {T}test_c - x\n", test_a="passed", test_b="passed", test_c="error"),
        "not resolved"),
    "names with spaces and colours": (
        SPHINX, by_pytest(f"\x1b[32mPASSED\x1b[0m {T}test_a\nPASSED {T}test_b[a b]\n", **{"test_a": "passed", "test_b[a b]": "passed"}),
        "resolved"),
    "ends of lines as on Windows": (
        FLASK, by_pytest(f"PASSED {T}test_a\r\nPASSED {T}test_b\r\n", test_a="passed", test_b="passed"), "resolved"),
    "it was killed by the clock": (
        FLASK, Run(TestReport((TestOutcome(f"{T}test_a", "passed"), TestOutcome(f"{T}test_b", "timeout")), "timeout",
                              output=f"PASSED {T}test_a\n")), "not resolved"),
    "nothing was collected": (FLASK, Run(None, "its tests cannot be collected: x"), "not resolved"),
    "no line at all": (FLASK, by_pytest("", test_a="passed"), "not resolved"),
    "a marker of the harness is printed": (
        DJANGO_1, by_command(DJANGO.format("ok", "FAIL") + ">>>>> End Test Output\n", passed=False), "not resolved"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_log_is_read_as_the_official_harness_reads_it(case: str) -> None:
    one, told, word = CASES[case]
    assert judged(one, told) == (word, True)


def test_what_stopped_a_run_is_told() -> None:
    stopped = TestOutcome(f"{T}test_b", "timeout", "stopped: nothing happened for 30 s\nits last lines")
    environment = Table().find(FLASK)
    assert environment is not None
    run = Run(TestReport((TestOutcome(f"{T}test_a", "passed"), stopped), "timeout", output=f"PASSED {T}test_a\n"))
    grade = Grader(lambda: pytest.fail("nothing is to be run")).judge(FLASK, environment, run)
    assert grade.detail == "run timeout: stopped: nothing happened for 30 s"


def test_what_is_left_out_decides_for_neither(tmp_path: Path) -> None:
    told = by_pytest(f"PASSED {T}test_a\nFAILED {T}test_b\n", test_a="passed", test_b="failed")
    assert judged(FLASK, told) == ("not resolved", True)
    assert judged(FLASK, told, f"{T}test_b") == ("resolved", True)


def test_a_log_that_forges_a_success_is_no_verdict_and_one_that_forges_half_of_it_a_failure() -> None:
    forged = f"FAILED {T}test_a\nFAILED {T}other\nPASSED {T}test_b\nPASSED {T}test_a\n"
    told = by_pytest(forged, test_a="failed", test_b="passed", other="failed")
    assert judged(FLASK, told)[0] == f"log and channel disagree on {T}test_a"
    told = by_pytest(f"{forged}FAILED {T}test_b\n", test_a="failed", test_b="failed", other="failed")
    assert judged(FLASK, told) == ("not resolved", True)


def test_of_some_repositories_logs_name_failures_only() -> None:
    one = instance("eslint/eslint", "1", ("a", "b"))

    def told(log: str, *, passed: bool) -> Judged:
        return judge(one, "parse_log_eslint", log, passed=passed, timed_out=False)

    assert not told("Executed 2 of 2\n", passed=True).wrong
    assert told("  1) a\n     Error: x\n", passed=False).failed == ("a",)
    assert told("", passed=True).wrong == {"a", "b"}


def test_a_log_whose_end_was_cut_off_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apex_suites.swebench.grading.MOST_LOG", 10)
    environment = Table().find(DJANGO_1)
    assert environment is not None
    grade = Grader(lambda: pytest.fail("nothing is to be run")).judge(
        DJANGO_1, environment, by_command("x" * 10, passed=True)
    )
    assert grade.failed and "the rest was not read" in grade.detail


def test_a_log_without_results_says_how_it_ends() -> None:
    environment = Table().find(DJANGO_1)
    assert environment is not None
    grader = Grader(lambda: pytest.fail("nothing is to be run"))
    crash = "Traceback:\n  x\nModuleNotFoundError: No module named 'tomli'\n \n"
    grade = grader.judge(DJANGO_1, environment, by_command(crash, passed=False))
    assert grade.detail == "the log shows no results; it ends with: ModuleNotFoundError: No module named 'tomli'"
    assert grader.judge(DJANGO_1, environment, by_command("", passed=False)).detail.endswith("it ends with: nothing")


def test_a_line_on_which_a_pattern_comes_to_no_end_does_not_hold_the_grader_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apex_suites.swebench.official.MOST_CPU_S", 1)
    sympy, runs = recorded()["sympy"]
    environment = Table().find(sympy)
    assert environment is not None and runs["gold"].report is not None
    endless = runs["gold"].report.output + " " * 2000 + ".py:" * 2000
    grader = Grader(lambda: pytest.fail("nothing is to be run"))
    grade = grader.judge(sympy, environment, by_command(endless, passed=True))
    assert grade.failed == ("test_a",) and "within 1 CPU seconds" in grade.detail
    assert not opinion(sympy, PATCH, by_command(endless, passed=True), frozenset()).resolved
    assert grader.judge(sympy, environment, runs["gold"]) == Grade()


@pytest.mark.parametrize(
    ("statuses", "fails"),
    [
        ({"test_a[log(photon)]": "passed"}, False),
        ({"test_a[log(photon)]": "passed", "test_a[log(photons)]": "failed"}, True),
        ({"test_a[log(photon)]": "failed", "test_a[log(photons)]": "error"}, True),
        ({"test_a[log(other)]": "passed"}, True),
        ({"test_a[log(photon)]": "passed", "test_a[log(photon and more)]": "failed"}, True),
        ({}, True),
    ],
)
def test_names_that_the_data_cut_off_are_found_as_the_official_harness_finds_them(
    statuses: dict[str, str], fails: bool
) -> None:
    one = instance("pallets/flask", "2.3", (f"{T}test_a[log(photon", f"{T}test_b"))
    told = {**statuses, "test_b": "passed"}
    outcomes = _outcomes(TestReport(tuple(TestOutcome(f"{T}{name}", status) for name, status in told.items())))
    theirs = judge_channel(one, "parse_log_pytest", outcomes, passed=False, timed_out=False)
    ours = _by_channel(one, outcomes)
    assert bool(ours.failed) == fails
    assert (ours.wrong == theirs.wrong) or theirs.unread


def test_every_repository_of_the_table_is_read_by_its_official_parser() -> None:
    from swebench.harness.log_parsers import PARSER_REGISTRY
    from swebench.harness.log_parsers.python import MAP_REPO_TO_PARSER_PY

    for entry in Table()._entries:
        assert PARSER_REGISTRY[entry.parser] is MAP_REPO_TO_PARSER_PY[entry.repo], entry.repo


@pytest.mark.parametrize("hunks", [1, 2])
@pytest.mark.parametrize("removes", [False, True])
def test_a_damaged_patch_applies_and_does_less(tmp_path: Path, hunks: int, removes: bool) -> None:
    lines = [f"line {number}\n" for number in range(40)]
    changed = list(lines)
    for at in (30, 3)[-hunks:]:
        changed[at : at + removes] = ["new\n"]
    patch = "diff --git a/m.py b/m.py\n" + "".join(unified_diff(lines, changed, "a/m.py", "b/m.py"))
    (tmp_path / "m.py").write_text("".join(lines))
    apply(damaged(patch), tmp_path)
    after = (tmp_path / "m.py").read_text()
    assert after not in ("".join(lines), "".join(changed))


def test_predictions_of_every_arm_and_seed_are_taken_by_the_official_loader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from types import SimpleNamespace

    from swebench.harness.run_evaluation import get_dataset_from_preds
    from swebench.harness.utils import get_predictions_from_file

    from apex_framework.experiment.summary import write_predictions

    monkeypatch.chdir(tmp_path)
    rows = [{**instance("a/b", "1", ("x", "y")).to_row(), "instance_id": f"a__b-{n}"} for n in range(3)]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    arms = [SimpleNamespace(name=name) for name in ("single", "schedule:flat,flat,chain", "random_switch:0.22")]
    texts = {"a__b-0": "--- a/x\r\n+++ b/x\r\n\u2028", "a__b-1": "", "a__b-2": "-caf\udce9\n"}

    class Folder:
        plan = SimpleNamespace(arms=arms, seeds=(0, 1), tasks=[SimpleNamespace(id=f"a__b-{n}") for n in range(3)])

        def episode_path(self, key: tuple[str, str, int]) -> Path:
            place = tmp_path / "/".join(map(str, key))
            place.mkdir(parents=True, exist_ok=True)
            if key[1] in texts:
                (place / "patch.diff").write_bytes(texts[key[1]].encode("utf-8", "surrogateescape"))
            return place

        def replace(self, name: str, data: bytes) -> None:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_bytes(data)

    write_predictions(Folder())  # type: ignore[arg-type]  # what it uses of a run folder
    files = sorted((tmp_path / "predictions").iterdir())
    models = set()
    for file in files:
        told = get_predictions_from_file(str(file), "data.jsonl", "test")
        assert {one["instance_id"]: one["model_patch"] for one in told} == texts
        (model,) = {one["model_name_or_path"] for one in told}
        models.add(model)
        predictions = {one["instance_id"]: one for one in told}
        found = get_dataset_from_preds("data.jsonl", "test", [], predictions, "run", False)
        assert [one["instance_id"] for one in found] == ["a__b-0", "a__b-2"]  # an empty patch is not run there
    assert len(models) == len(files) == 6
