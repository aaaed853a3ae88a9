"""``humaneval`` and ``humanevalfix``: a fault that both sides see, and hidden checks that decide."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apex_framework.cli.boundary import run
from apex_framework.errors import SuiteError, UsageError
from apex_framework.interfaces import RunsTests, Task
from apex_framework.testing import check_suite
from apex_suites.humaneval.suite import HumanEvalFixSuite, HumanEvalSuite, split_of
from apex_suites.programs import making
from apex_suites.programs.program import render
from apex_suites.programs.suite import ProgramSuite
from apex_workspaces.local import LocalWorkspaces

pytestmark = pytest.mark.slow

BODY = """    found = []
    for number in numbers:
        if number % 2 == {rest} and number > 0:
            found.append(number)
    return sorted(found)[:{most}]
"""
CHECK = '''
METADATA = {"author": "nobody"}


def check(candidate):
    """Cases."""
    assert True, "always"
    assert candidate([1, 2, 3, 4]) == RESULT[0], "message"
    assert candidate([]) == []
    assert candidate([-2, -1]) == []
    limits = range(3)
    assert candidate([9, 8, 7]) == RESULT[1]
    for most in limits:
        assert len(candidate([most] * most)) <= most
    assert not candidate([0])
'''


def row(number: int, **more: Any) -> dict[str, Any]:
    """A task in the public layout, ten programs that differ a little."""
    rest, most = number % 2, 2 + number // 2
    name = f"chosen_{number}"
    head = f'from typing import List\n\n\ndef {name}(numbers: List[int]) -> List[int]:\n    """ Those of rest {rest}. """\n'
    right = BODY.format(rest=rest, most=most)
    space: dict[str, Any] = {}
    exec(head + right, space)
    results = [space[name](case) for case in ([1, 2, 3, 4], [9, 8, 7])]
    test = CHECK.replace("RESULT[0]", repr(results[0])).replace("RESULT[1]", repr(results[1]))
    return {
        "task_id": f"HumanEval/{number}",
        "prompt": head,
        "canonical_solution": right,
        "test": test,
        "entry_point": name,
        **more,
    }


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("data") / "humaneval.jsonl", [row(n) for n in range(10)])


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def make(data: Path, cache: Path) -> Callable[..., HumanEvalSuite]:
    def made(**options: Any) -> HumanEvalSuite:
        given = {"data": data, "cache_dir": cache, "progress": lambda done, of: None, "workspaces": LocalWorkspaces}
        return HumanEvalSuite(**{**given, **options})

    return made


def solved(suite: ProgramSuite, task: Task, program: str) -> Any:
    """The verdict on a task with this text of its program."""
    provider = suite.workspaces()
    try:
        workspace = provider.create(task)
        (workspace.root / "program.py").write_text(program, encoding="utf-8")
        return suite.grade(task, workspace)
    finally:
        provider.close()


def test_it_keeps_the_contract_of_suites(make: Callable[..., HumanEvalSuite]) -> None:
    check_suite(make, split="test")


def test_every_split_is_a_part_and_follows_from_the_id(make: Callable[..., HumanEvalSuite]) -> None:
    suite = make()
    assert {p.id: p.split for p in suite.programs} == {f"HumanEval-{n}": split_of(f"HumanEval/{n}") for n in range(10)}
    assert {split_of(f"HumanEval/{n}") for n in range(164)} == {"train", "dev", "test"}


def test_the_right_program_passes_and_an_overfit_one_does_not(make: Callable[..., HumanEvalSuite]) -> None:
    suite = make()
    right = {p.id: p.source for p in suite.programs}
    task = suite.tasks("test")[0]
    assert task.cluster == task.id and task.files["program.py"] != right[task.id]
    verdict = solved(suite, task, right[task.id])
    assert verdict.success and verdict.visible_passed and verdict.evaluator == "humaneval/checks"
    entry = next(p.entry for p in suite.programs if p.id == task.id)
    parrot = f"def {entry}(numbers):\n    return ANSWERS.get(repr(numbers), [])\n\n\nANSWERS = {{}}\n"
    assert not solved(suite, task, parrot).success


def leaks(suite: ProgramSuite) -> list[str]:
    """Hidden checks that can be read somewhere in a task."""
    found = []
    for task in suite.tasks("test"):
        hidden = [line.strip() for line in suite._made("test")[task.id].hidden.splitlines() if "self.assert" in line]
        assert hidden
        seen = "\n".join([task.issue, *task.files.values(), json.dumps(dict(task.meta))])
        found += [line for line in hidden if line in seen]
    return found


def test_hidden_checks_are_nowhere_in_a_task(
    make: Callable[..., HumanEvalSuite], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert leaks(make()) == []
    every = make().programs[0].checks
    monkeypatch.setattr(making, "render", lambda prelude, _checks: render(prelude, every))
    assert leaks(make(cache_dir=tmp_path, limit=1)), "a planted leak goes unseen"


def test_visible_and_hidden_checks_both_see_the_fault(make: Callable[..., HumanEvalSuite]) -> None:
    suite = make()
    provider = suite.workspaces()
    try:
        for task in suite.tasks("test"):
            draft = suite._made("test")[task.id]
            ids = [*draft.visible_ids, *draft.hidden_ids]
            workspace = provider.create(task)
            assert isinstance(workspace, RunsTests)
            report = workspace.run_tests(ids, overlay={"tests/test_hidden.py": draft.hidden})
            failed = {o.id for o in report.outcomes if o.status != "passed"}
            assert failed & set(draft.visible_ids) and failed & set(draft.hidden_ids)
            assert "but it ends in: AssertionError" in task.issue
    finally:
        provider.close()


def test_the_same_salt_gives_the_same_tasks_and_a_limit_the_first(
    make: Callable[..., HumanEvalSuite], tmp_path: Path
) -> None:
    tasks = list(make().tasks("test"))
    assert list(make(cache_dir=tmp_path / "a").tasks("test")) == tasks, "another cache gives other tasks"
    assert list(make(cache_dir=tmp_path / "b", limit=2).tasks("test")) == tasks[:2]
    assert list(make(limit=2).tasks("test")) == tasks[:2]
    other = make(cache_dir=tmp_path / "c", salt="2")
    assert other.digest != make().digest and list(other.tasks("test")) != tasks


def test_a_damaged_cache_is_made_again(make: Callable[..., HumanEvalSuite], tmp_path: Path) -> None:
    tasks = make(cache_dir=tmp_path, limit=1).tasks("test")
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-20])
    assert make(cache_dir=tmp_path, limit=1).tasks("test") == tasks


def test_every_task_is_in_the_digest(make: Callable[..., HumanEvalSuite], tmp_path: Path) -> None:
    rows = [row(n) for n in range(10)]
    before = make().digest
    for number, row_ in enumerate(rows):
        for field, old, new in (
            ("prompt", "Those", "These"),
            ("canonical_solution", "[]", "list()"),
            ("test", "9, 8", "9, 5"),
        ):
            changed = [*rows[:number], {**row_, field: row_[field].replace(old, new)}, *rows[number + 1 :]]
            assert make(data=written(tmp_path / "d", changed)).digest != before
    assert make(data=written(tmp_path / "d", rows)).digest == before


def test_a_fault_that_nobody_sees_makes_no_task(
    make: Callable[..., HumanEvalSuite], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "CATALOGUE", ())
    with pytest.raises(SuiteError, match=r"make no task .*no fault that two checks see"):
        make(cache_dir=tmp_path).tasks("test")


def test_a_right_program_that_is_wrong_makes_no_task(make: Callable[..., HumanEvalSuite], tmp_path: Path) -> None:
    rows = [row(n, canonical_solution="    return None\n") if n == 0 else row(n) for n in range(10)]
    suite = make(data=written(tmp_path / "d", rows), cache_dir=tmp_path / "c")
    split = split_of("HumanEval/0")
    ids = [t.id for t in suite.tasks(split)]
    assert "HumanEval-0" not in ids and ids
    assert [o.id for o in suite.left_out[split]] == ["HumanEval-0"]
    assert "passes 1 of" in suite.left_out[split][0].reason or "passes 0 of" in suite.left_out[split][0].reason


def test_humanevalfix_takes_the_fault_of_the_file(tmp_path: Path) -> None:
    wrong = BODY.format(rest=5, most=2)
    rows = [row(n, task_id=f"Python/{n}", buggy_solution=wrong, bug_type="operator misuse") for n in range(2)]

    def made() -> HumanEvalFixSuite:
        return HumanEvalFixSuite(
            data=written(tmp_path / "fix.jsonl", rows), cache_dir=tmp_path / "c", workspaces=LocalWorkspaces
        )

    check_suite(made, split="test", sample=1)
    suite = made()
    task = suite.tasks("test")[0]
    assert wrong in task.files["program.py"] and task.family == "operator-misuse" and task.id == "Python-0"
    assert solved(suite, task, suite.programs[0].source).success
    with pytest.raises(UsageError, match="no split 'dev'"):
        suite.tasks("dev")
    rows[1]["task_id"] = "Rust/1"
    with pytest.raises(UsageError, match=":2: task 'Rust/1' is not of the Python part"):
        made().tasks("test")


WRONG = {
    "entry_point": ("other", "defines no 'other'"),
    "canonical_solution": ("    return (\n", "field 'canonical_solution' is no Python"),
    "test": ("def chec(candidate): pass", r"defines no check\(candidate\)"),
    "prompt": (3, "must be text, not int"),
}


@pytest.mark.parametrize("field", WRONG)
def test_a_wrong_row_is_one_line_with_its_place(
    field: str, make: Callable[..., HumanEvalSuite], tmp_path: Path
) -> None:
    value, told = WRONG[field]
    path = written(tmp_path / "d.jsonl", [row(0), row(1, **{field: value})])
    with pytest.raises(UsageError, match=told) as caught:
        make(data=path).tasks("test")
    assert caught.value.cause.startswith(f"{path}:2: ") and "\n" not in caught.value.cause


def test_ids_that_occur_twice_are_refused(make: Callable[..., HumanEvalSuite], tmp_path: Path) -> None:
    path = written(tmp_path / "d.jsonl", [row(0), row(1), row(0)])
    with pytest.raises(UsageError, match=r":3: 'HumanEval-0' is there already, at .*:1"):
        make(data=path).tasks("test")


def test_the_command_says_what_is_missing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["run", "--suite", "humaneval/test", "--plan"]) == 2
    told = capsys.readouterr().err
    assert "reads its tasks from files of yours" in told and "--data HumanEval.jsonl" in told
    assert run(["run", "--suite", "humaneval/test", "--plan", "--data", str(tmp_path / "nowhere")]) == 2
    assert "no such file" in capsys.readouterr().err


def test_the_public_data(make: Callable[..., HumanEvalSuite]) -> None:
    public = Path(__file__).parents[4] / "shared" / "data" / "humaneval.jsonl"
    if not public.is_file():
        pytest.skip("../shared/data/humaneval.jsonl is not here")
    suite = make(data=public, limit=3)
    assert len(suite.programs) == 164
    assert len(suite.tasks("dev")) == 3
