"""``apex suite make``: faults of a repository as tasks whose patches lead back to the right program."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apex_framework.cli.boundary import run
from apex_framework.errors import SuiteError, UsageError
from apex_framework.git import Repository
from apex_framework.interfaces import Task
from apex_suites.synth.instance import COLUMNS
from apex_suites.synth.making import Wanted, make
from apex_workspaces.checkout import CheckoutWorkspaces

pytestmark = pytest.mark.slow

FILES = {
    "ledgers/__init__.py": "",
    "ledgers/book.py": """
class Book:
    def __init__(self):
        self.entries = []

    def add(self, name, amount):
        if not name:
            raise ValueError("an entry needs a name")
        self.entries.append((name, amount))

    def total(self, name=None):
        result = 0
        for who, amount in self.entries:
            if name is None or who == name:
                result += amount
        return result


def parse(text):
    book = Book()
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, _, amount = line.partition(" ")
        book.add(name, int(amount))
    return book
""",
    "tests/test_book.py": """
import os

from ledgers.book import Book, parse


def test_nothing():
    assert Book().entries == []


def test_total():
    assert parse("a 1\\nb 2").total() == 3


class TestNamed:
    def test_one(self):
        assert parse("a 1\\nb 2\\na 4").total("a") == 5


def test_comments():
    assert parse("# no\\nx 1").entries == [("x", 1)]


def test_alone_in_the_world():
    assert os.getpid() == 0
""",
}


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("ledgers")
    files = place / "files"
    for path, text in FILES.items():
        (files / path).parent.mkdir(parents=True, exist_ok=True)
        (files / path).write_text(text, encoding="utf-8")
    made = Repository.init(place / "ledgers.git")
    made.set_branch("main", made.snapshot(files, "first", when=1_700_000_000))
    made.switch("main")
    return place / "ledgers.git"


@pytest.fixture(scope="module")
def provider() -> Iterator[CheckoutWorkspaces]:
    made = CheckoutWorkspaces()
    yield made
    made.close()


@pytest.fixture(scope="module")
def made(repo: Path, provider: CheckoutWorkspaces, tmp_path_factory: pytest.TempPathFactory) -> Wanted:
    out = tmp_path_factory.mktemp("made") / "tasks.jsonl"
    wanted = Wanted(repo, "local/ledgers", out, count=2, seed=3)
    make(wanted, provider, lambda done, of, tried: None)
    return wanted


def rows(wanted: Wanted) -> list[dict[str, Any]]:
    return [json.loads(line) for line in wanted.out.read_text(encoding="utf-8").splitlines()]


def test_rows_have_the_official_columns_and_hidden_evidence(made: Wanted) -> None:
    found = rows(made)
    assert len(found) == 2 and len({r["instance_id"] for r in found}) == 2
    for row in found:
        assert tuple(row) == COLUMNS
        failing, passing = json.loads(row["FAIL_TO_PASS"]), json.loads(row["PASS_TO_PASS"])
        assert len(failing) >= 2 and passing and not set(failing) & set(passing)
        assert not any("alone_in_the_world" in test for test in failing + passing)
        assert "ledgers/book.py" in row["patch"] and "tests/" not in row["patch"]
        assert "+    assert" in row["test_patch"] or "+        assert" in row["test_patch"]
    assert not list(made.out.parent.glob("*.making"))


def test_gold_passes_empty_fails_and_agents_see_a_failing_test_but_no_hidden_one(
    made: Wanted, provider: CheckoutWorkspaces
) -> None:
    repository = Repository(made.bare)
    for row in rows(made)[:1]:
        base, failing = row["base_commit"], json.loads(row["FAIL_TO_PASS"])
        task = Task("t", "synth", "test", "", "", repo=str(made.bare), base_commit=base, run={"runner": "pytest"})
        workspace = provider.create(task)
        seen = set(workspace.discover())
        untouched = {o.id for o in workspace.run_tests().outcomes if o.status == "failed" or o.status == "error"}
        assert untouched & set(failing), "no visible test shows the fault"
        assert set(failing) - seen, "every test that judges is there for agents to see"
        graded = repository.apply(row["test_patch"], base, "graded")
        solved = repository.apply(row["patch"], graded, "solved")
        for commit, wanted in ((graded, False), (solved, True)):
            overlay = {p: repository.file(commit, p).decode() for p in ("tests/test_book.py", "ledgers/book.py")}
            report = workspace.run_tests([*failing, *json.loads(row["PASS_TO_PASS"])], overlay=overlay)
            passed = {o.id for o in report.outcomes if o.status == "passed"}
            assert (set(failing) <= passed) == wanted and set(json.loads(row["PASS_TO_PASS"])) <= passed
        assert [c.oid for c in repository.log(base)] == [base], "the base knows what came before the fault"
        workspace.dispose()


def test_an_interrupted_command_goes_on_and_gives_the_same_tasks(
    made: Wanted, repo: Path, provider: CheckoutWorkspaces, tmp_path: Path
) -> None:
    wanted = replace(made, out=tmp_path / "tasks.jsonl")

    def interrupt(done: int, of: int, tried: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(wanted, provider, interrupt)
    with (tmp_path / "tasks.jsonl.making").open("ab") as file:
        file.write(b'{"key": "torn')
    command = ["suite", "make", str(repo), "--out", str(wanted.out), "--name", "local/ledgers", "--count", "2"]
    command += ["--sandbox", "plain", "--allow-weaker-sandbox"]
    assert run([*command, "--seed", "4"]) == 2, "another seed must not go on with it"
    assert run([*command, "--seed", "3"]) == 0
    assert wanted.out.read_bytes() == made.out.read_bytes()
    assert run([*command, "--seed", "3"]) == 2, "a finished file must not be overwritten"


def test_what_cannot_be_made_leaves_nothing(repo: Path, provider: CheckoutWorkspaces, tmp_path: Path) -> None:
    out = tmp_path / "tasks.jsonl"
    say = lambda done, of, tried: None  # noqa: E731
    (tmp_path / "plain").mkdir()
    with pytest.raises(UsageError, match="not a git repository"):
        make(Wanted(tmp_path / "plain", "local/x", out), provider, say)
    with pytest.raises(SuiteError, match="no tests that are found"):
        make(Wanted(repo, "local/x", out, tests=("nowhere",)), provider, say)
    with pytest.raises(SuiteError, match="no fault out of 0 makes a task"):
        make(Wanted(repo, "local/x", out, tests=("tests",), sources=("nowhere",)), provider, say)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["plain"]
    (tmp_path / "tasks.repos").mkdir()
    with pytest.raises(UsageError, match="exists"):
        make(Wanted(repo, "local/x", out), provider, say)
    assert (tmp_path / "tasks.repos").is_dir()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["nowhere", "--out", "x.jsonl"], "no such folder"),
        ([".", "--out", "x.json"], "must end in .jsonl"),
        ([".", "--out", "x.jsonl", "--name", "../x"], "not OWNER/NAME"),
    ],
)
def test_wrong_options_are_one_line(options: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["suite", "make", *options]) == 2
    assert told in capsys.readouterr().err
