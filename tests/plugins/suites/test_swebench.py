"""SWE-bench natively: which patches resolve a task, what agents see of it, what a check keeps, and which data is refused."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from swebench_world import FILE, FILES, NEW_TEST, TESTS, World, make_world

from apex_framework.errors import ApexError, SuiteError, UsageError
from apex_framework.git import Repository
from apex_framework.interfaces import ChecksTasks, Closes, GradesPatches, HasNotes, RunsTests, SpeaksSweBench, Task
from apex_suites.swebench import grading, restored
from apex_suites.swebench.environments import Table
from apex_suites.swebench.official import Judged
from apex_suites.swebench.patches import PatchError, apply, touched
from apex_suites.swebench.rows import Instance, read_instances
from apex_suites.swebench.suite import SweBenchSuite
from apex_workspaces.checkout import CheckoutWorkspace, CheckoutWorkspaces
from apex_workspaces.recipe import recipe_of

RESOLVED = {name: name == "gold" for name in ("gold", "empty", "blank", "no help", "breaks another", "does not import")}
RESOLVED |= dict.fromkeys(("forged by conftest", "forged by printing", "changes the tests"), False)
RESOLVED |= dict.fromkeys(("does not apply", "no diff at all", "leads out"), False)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path)


@pytest.fixture
def suite(world: World, tmp_path: Path) -> Iterator[SweBenchSuite]:
    yield from opened(world, tmp_path)


def opened(world: World, folder: Path) -> Iterator[SweBenchSuite]:
    providers: list[Checkouts] = []

    def workspaces(preferred: str) -> Checkouts:
        assert preferred == "uv"
        providers.append(Checkouts())
        return providers[-1]

    yield SweBenchSuite(workspaces=workspaces, cache_dir=folder / "checks", **world.options)
    for provider in providers:
        provider.close()


class Checkouts(CheckoutWorkspaces):
    """Tests run in the Python that runs these: nothing is installed, and no name is restored."""

    def create(self, task: Task) -> CheckoutWorkspace:
        return super().create(replace(task, run={k: v for k, v in task.run.items() if k != "site"}))


def the_task(suite: SweBenchSuite) -> Task:
    (task,) = suite.candidates("dev")
    return task


def resolved(suite: SweBenchSuite, world: World, *names: str) -> dict[str, bool]:
    verdicts = {name: suite.grade_patch(the_task(suite), world.patches[name]) for name in names or world.patches}
    assert not any(verdict.infrastructure_error for verdict in verdicts.values()), verdicts
    return {name: verdict.success for name, verdict in verdicts.items()}


@pytest.mark.slow
@pytest.mark.parametrize("runner", ["unittest", "pytest"])
def test_only_the_gold_patch_resolves_the_task(tmp_path: Path, runner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apex_suites.swebench.official.version", lambda: "")
    world = make_world(tmp_path, runner=runner)
    for suite in opened(world, tmp_path):
        assert resolved(suite, world) == RESOLVED
        assert suite.grade_patch(the_task(suite), world.patches["gold"]).evaluator == "swebench/native-channel"


def test_planted_a_grader_that_ignores_pass_to_pass_is_caught(
    suite: SweBenchSuite, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = grading._by_channel

    def ignoring(instance: Instance, outcomes: list[tuple[str, str]]) -> Judged:
        return replace(real(instance, outcomes), broken=())

    assert resolved(suite, world, "gold", "breaks another") == {"gold": True, "breaks another": False}
    monkeypatch.setattr(grading, "_by_channel", ignoring)
    assert resolved(suite, world, "gold", "breaks another") == {"gold": True, "breaks another": True}


def test_what_does_not_apply_is_no_success_and_says_so(suite: SweBenchSuite, world: World) -> None:
    for name in ("does not apply", "no diff at all", "leads out"):
        assert "does not apply" in suite.grade_patch(the_task(suite), world.patches[name]).detail
    broken = suite.grade_patch(the_task(suite), world.patches["breaks another"])
    assert (broken.success, broken.visible_passed) == (False, False)
    assert broken.detail == "FAIL_TO_PASS 1/1, PASS_TO_PASS 0/1"


def test_a_workspace_is_judged_as_its_patch_and_shows_no_hidden_test(suite: SweBenchSuite, world: World) -> None:
    provider, task = suite.workspaces(), the_task(suite)
    workspace = provider.create(task)
    assert isinstance(workspace, RunsTests)
    assert {p.relative_to(workspace.root).as_posix() for p in workspace.root.rglob("*.py")} == set(FILES)
    assert (workspace.root / FILE).read_text() == TESTS
    assert list(workspace.discover()) == [f"{FILE}::T.test_double"]
    told = json.dumps([dict(task.run), dict(task.meta), task.issue, *task.files.values()])
    assert NEW_TEST.strip() not in told and "test_half" not in told and world.patches["gold"] not in told
    assert not suite.grade(task, workspace).success
    (workspace.root / "pkg.py").write_text(FILES["pkg.py"].replace("/ 2", "// 2"))
    assert suite.grade(task, workspace).success
    assert (workspace.root / FILE).read_text() == TESTS


def test_only_checked_tasks_are_worked_on(
    suite: SweBenchSuite, world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    second = {**world.row, "instance_id": "demo__tiny-2", "patch": world.patches["no help"]}
    world.write(world.row, second)
    with pytest.raises(SuiteError, match="none of the 2 tasks") as caught:
        suite.tasks("dev")
    assert caught.value.remedy.startswith("apex suite check swebench_lite/dev --data ")
    before = suite.digest
    found = {task.id: suite.check(task) for task in suite.candidates("dev")}
    assert found["demo__tiny-1"].behaves and not found["demo__tiny-1"].cached
    assert "with the gold patch these do not pass" in found["demo__tiny-2"].why
    assert [task.id for task in suite.tasks("dev")] == ["demo__tiny-1"]
    assert capsys.readouterr().err == ""  # workers ask for tasks, too
    (note,) = suite.notes("dev")
    assert "swebench_lite/dev: 1 of 2 tasks are left out" in note and "apex suite check swebench_lite/dev" in note
    assert suite.digest != before
    again = SweBenchSuite(cache_dir=tmp_path / "checks", **world.options)  # without workspaces: nothing is run
    assert all(again.check(task).cached for task in again.candidates("dev"))
    for repos in (None, tmp_path / "gone"):
        without = SweBenchSuite(cache_dir=tmp_path / "checks", **{**world.options, "repos": repos})
        with pytest.raises(UsageError, match="needs clones of its repositories") as wrong:
            without.tasks("dev")
        assert wrong.value.remedy.startswith("--repos DIR; git clone --bare https://github.com/demo/tiny ")


def test_a_suite_that_is_closed_leaves_nothing_and_judges_again(
    suite: SweBenchSuite, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(suite, Closes) and isinstance(suite, HasNotes)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    suite.close()
    for _ in range(2):
        assert suite.grade_patch(the_task(suite), world.patches["gold"]).success
        assert list(scratch.glob("apex-*"))
        suite.close()
        suite.close()
        assert not list(scratch.glob("apex-*"))


def test_a_test_that_fails_on_gold_is_left_out_and_declared(suite: SweBenchSuite, world: World) -> None:
    world.write({**world.row, "PASS_TO_PASS": [*world.row["PASS_TO_PASS"], f"{FILE}::T.test_gone"]})
    assert suite.check(the_task(suite)).left_out == (f"{FILE}::T.test_gone",)
    assert suite.tasks("dev")[0].meta["left_out"] == [f"{FILE}::T.test_gone"]
    verdict = suite.grade_patch(the_task(suite), world.patches["gold"])
    assert verdict.success and verdict.detail == "FAIL_TO_PASS 1/1, PASS_TO_PASS 1/1 (1 left out)"


def test_a_task_that_passes_without_a_patch_does_not_behave(suite: SweBenchSuite, world: World) -> None:
    world.write({**world.row, "FAIL_TO_PASS": world.row["PASS_TO_PASS"], "PASS_TO_PASS": []})
    assert suite.check(the_task(suite)).why == "all of FAIL_TO_PASS pass without a patch"
    assert suite.grade_patch(the_task(suite), "").infrastructure_error.startswith("the task does not behave here")


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda w: w.environments.write_text('[[environment]]\nrepo = "a/b"\n'), "no environment for demo/tiny 1.0"),
        (lambda w: (w.repos / "demo+tiny").rename(w.repos / "elsewhere"), "no clone of demo/tiny"),
        (lambda w: w.write({**w.row, "base_commit": "0" * 40}), "no commit 0000"),
        (lambda w: w.write({**w.row, "test_patch": w.patches["does not apply"]}), "its test patch does not apply"),
        (
            lambda w: w.environments.write_text('[[environment]]\nrepo = "demo/tiny"\npython = "3.99"\n'),
            "wants a Python",
        ),
    ],
)
def test_what_this_machine_lacks_is_said_and_not_kept(
    world: World, tmp_path: Path, spoil: Callable[[World], object], why: str
) -> None:
    spoil(world)
    for suite in opened(world, tmp_path):
        for _ in range(2):
            found = suite.check(the_task(suite))
            assert why in found.infrastructure_error and not found.behaves and not found.cached
        assert suite.grade_patch(the_task(suite), "").infrastructure_error == found.infrastructure_error


def test_clones_that_nobody_named_are_missed_before_anything_is_run(world: World, tmp_path: Path) -> None:
    for repos in (None, tmp_path / "gone"):
        suite = SweBenchSuite(cache_dir=tmp_path / "checks", **{**world.options, "repos": repos})
        for judging in (suite.check, lambda task, suite=suite: suite.grade_patch(task, "")):
            with pytest.raises(UsageError, match="needs clones of its repositories") as caught:
                judging(the_task(suite))
            assert caught.value.remedy.startswith("--repos DIR; git clone --bare https://github.com/demo/tiny ")


def test_a_missing_patch_program_is_said_once(
    suite: SweBenchSuite, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apex_suites.swebench.suite.gnu_patch", lambda: "")
    for _ in range(2):
        assert suite.check(the_task(suite), anew=True).behaves
    assert capsys.readouterr().err.count("GNU patch 2.7.3 or later") == 1


@pytest.mark.parametrize("name", ["FAIL_TO_PASS", "PASS_TO_PASS", "test_patch"])
def test_a_field_that_is_not_there_is_missed_by_name(world: World, name: str) -> None:
    world.write({key: value for key, value in world.row.items() if key != name})
    with pytest.raises(UsageError, match=f"no field '{name}'") as caught:
        read_instances(world.data)
    assert caught.value.remedy.startswith("its fields are ")


def test_a_damaged_record_counts_as_none(suite: SweBenchSuite, tmp_path: Path) -> None:
    suite.check(the_task(suite))
    (file,) = (tmp_path / "checks").iterdir()
    file.write_text("{")
    assert not suite.check(the_task(suite)).cached
    assert suite.check(the_task(suite)).cached


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"base_commit": "main"}, "'base_commit' is 'main', not a whole hash"),
        ({"instance_id": "../x"}, "'instance_id' is '../x'"),
        ({"repo": "tiny"}, "not owner/name"),
        ({"patch": "none"}, "'patch' is no unified diff"),
        ({"problem_statement": " "}, "'problem_statement' is empty"),
        ({"FAIL_TO_PASS": "[]"}, "'FAIL_TO_PASS' is empty"),
        ({"FAIL_TO_PASS": "test_a"}, "not a JSON list"),
        ({"PASS_TO_PASS": [1]}, "must be a list of texts"),
        ({"PASS_TO_PASS": [f"{FILE}::T.test_half"]}, "is in FAIL_TO_PASS and in PASS_TO_PASS"),
        ({"split": "validation"}, "unknown split 'validation'"),
        ({"test_patch": None}, "must be text, not NoneType"),
    ],
)
def test_wrong_rows_are_refused_with_their_place(world: World, change: dict[str, object], words: str) -> None:
    world.write(world.row, {**world.row, "instance_id": "demo__tiny-2", **change})
    with pytest.raises(UsageError) as caught:
        read_instances(world.data)
    assert str(caught.value).startswith(f"{world.data}:2: ") and words in str(caught.value)


def test_wrong_files_are_refused(world: World, tmp_path: Path) -> None:
    world.write(world.row, world.row)
    for path in (world.data, tmp_path / "absent.jsonl", tmp_path):
        with pytest.raises(UsageError, match=r"there already|no such file|cannot be read"):
            read_instances(path)
    for name in ("x.parquet", "x.jsonl.zst"):
        (tmp_path / name).write_bytes(b"nonsense")
        with pytest.raises(ApexError, match=r"cannot be read|needs the extra \[swebench\]"):
            read_instances(tmp_path / name)


def test_the_same_rows_from_every_form(world: World, tmp_path: Path) -> None:
    wanted = read_instances(world.data)
    packed = tmp_path / "dev.jsonl.gz"
    packed.write_bytes(gzip.compress(world.data.read_bytes()))
    assert read_instances(packed) == wanted
    zstandard = pytest.importorskip("zstandard", reason="zstd needs the extra [swebench]")
    packed = tmp_path / "dev.jsonl.zst"
    packed.write_bytes(zstandard.compress(world.data.read_bytes()))
    assert read_instances(packed) == wanted


def test_a_zstd_file_of_several_frames_is_read_to_its_end(world: World, tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard", reason="zstd needs the extra [swebench]")
    rows = [json.dumps({**world.row, "instance_id": f"demo__tiny-{number}"}).encode() + b"\n" for number in (1, 2, 3)]
    packed = tmp_path / "dev.jsonl.zst"
    packed.write_bytes(b"".join(map(zstandard.compress, rows)))
    assert [one.instance_id for one in read_instances(packed)] == ["demo__tiny-1", "demo__tiny-2", "demo__tiny-3"]


def test_a_huge_line_an_empty_file_and_one_cut_off_are_refused_packed_too(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zstandard = pytest.importorskip("zstandard", reason="zstd needs the extra [swebench]")
    packed, row = tmp_path / "dev.jsonl.zst", world.data.read_bytes()
    whole = zstandard.compress(row)
    for data, words in ((zstandard.compress(b""), "it holds no row"), (whole[:-9], "not JSON|holds no row")):
        packed.write_bytes(data)
        with pytest.raises(UsageError, match=words):
            read_instances(packed)
    monkeypatch.setattr("apex_suites.programs.rows.MOST_LINE", len(row))
    packed.write_bytes(whole + zstandard.compress(b'{"a": "' + b"x" * len(row) + b'"}\n'))
    with pytest.raises(UsageError, match=f":2: a line of more than {len(row):,} bytes"):
        read_instances(packed)


def test_parquet_is_read(world: World, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="parquet needs the extra [swebench]")
    parquet = pytest.importorskip("pyarrow.parquet", reason="parquet needs the extra [swebench]")
    parquet.write_table(pyarrow.Table.from_pylist([dict(world.row)]), tmp_path / "dev.parquet")
    assert read_instances(tmp_path / "dev.parquet") == read_instances(world.data)


def test_a_file_names_its_split_where_rows_do_not(world: World, tmp_path: Path) -> None:
    row = {name: value for name, value in world.row.items() if name != "split"}
    for name, split in (("dev-00000.jsonl", "dev"), ("devils.jsonl", "test"), ("test.jsonl", "test")):
        (tmp_path / name).write_text(json.dumps(row))
        assert [one.split for one in read_instances(tmp_path / name)] == [split]


def test_rows_go_out_as_they_came(suite: SweBenchSuite, world: World, tmp_path: Path) -> None:
    assert isinstance(suite, GradesPatches) and isinstance(suite, ChecksTasks) and isinstance(suite, SpeaksSweBench)
    (tmp_path / "out.jsonl").write_text(json.dumps(dict(suite.swebench_row(the_task(suite)))))
    assert read_instances(tmp_path / "out.jsonl") == read_instances(world.data)
    assert suite.gold(the_task(suite)) == world.patches["gold"]


def test_every_entry_of_the_table_makes_a_run(world: World) -> None:
    (instance,) = read_instances(world.data)
    table = Table()
    assert len(table._entries) > 10
    for entry in table._entries:
        fitting = replace(instance, repo=entry.repo, version="1.0" if "*" in entry.versions else entry.versions[0])
        assert table.find(fitting) is not None
        for deciding in (False, True):
            run = entry.run_of(fitting.version, ["tests/a/test_b.py"], deciding=deciding)
            recipe = recipe_of(Task("a/1", "s", "dev", "x", "c", run=run))
            assert bool(recipe.keep_output) == deciding and "{version}" not in str(recipe.site)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[environment", "not TOML"),
        ("[environments]", r"\[\[environment\]\]"),
        ("[[environment]]\npython = '3.9'", "environment 1: no repo"),
        ("[[environment]]\nrepo = 'a/b'\npakages = []", "unknown entry 'pakages'"),
        ("[[environment]]\nrepo = 'a/b'\npackages = 'x'", "'packages' has no such value"),
        ("[[environment]]\nrepo = 'a/b'\nrunner = 'command'", "its command do not fit"),
        ("[[environment]]\nrepo = 'a/b'\nrunner = 'nose'", "its command do not fit"),
    ],
)
def test_wrong_tables_are_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "more.toml").write_text(text)
    with pytest.raises(UsageError, match=words):
        Table(tmp_path / "more.toml")


OLD = """
import base64, collections, fractions, gettext, inspect, threading, time, unittest
assert issubclass(dict, collections.Mapping) and fractions.gcd(4, 6) == 2 and time.clock() >= 0
assert inspect.formatargspec(*inspect.getargspec(lambda a, b=1, *c, **d: 0)) == "(a, b=1, *c, **d)"
assert gettext.translation("absent", codeset="utf-8", fallback=True)
assert threading.current_thread().isAlive() and base64.encodestring(b"a") == b"YQ==\\n"
class T(unittest.TestCase):
    def test_a(self):
        "\\n        Second line."
case = T("test_a")
assert str(case) == "test_a (__main__.T)" and case.shortDescription() is None, (str(case), case.shortDescription())
"""


def test_names_that_newer_pythons_removed_are_there_again(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(Path(restored.__file__).read_text())
    environment = {"PYTHONPATH": str(tmp_path), "NATIVE_TEST_NAMES": "3.6"}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", OLD], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    # From 3.9 on a docstring's first line is its first that is not empty; the class alone is printed until 3.11.
    environment["NATIVE_TEST_NAMES"] = "3.9"
    later = OLD.replace("case.shortDescription() is None", 'case.shortDescription() == "Second line."')
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", later], env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


HEADERS = """diff --git "a/caf\\303\\251 \\"x\\".py" "b/caf\\303\\251 \\"x\\".py"
--- "a/caf\\303\\251 \\"x\\".py"
+++ "b/caf\\303\\251 \\"x\\".py"
@@ -1,2 +1,2 @@
--- a/no.py
+++ /dev/null
 same
diff --git a/gone/__init__.py b/gone/__init__.py
deleted file mode 100644
index e69de29..0000000
diff --git a/new one/__init__.py b/new one/__init__.py
new file mode 100644
index 0000000..e69de29
diff --git a/old.py b/now.py
similarity index 100%
rename from old.py
rename to now.py
diff --git a/from.py b/copied.py
similarity index 100%
copy from from.py
copy to copied.py
diff --git a/picture.png b/picture.png
GIT binary patch
literal 1
IcmZPo000310RR91
"""


def test_headers_say_what_is_new_and_what_is_gone_and_lines_of_hunks_say_nothing() -> None:
    found = touched(HEADERS)
    named = ('caf\u00e9 "x".py', "gone/__init__.py", "new one/__init__.py", "old.py", "now.py", "from.py", "copied.py")
    assert found.paths == (*named, "picture.png")
    assert found.new == {"new one/__init__.py", "now.py", "copied.py"}
    assert found.gone == {"gone/__init__.py", "old.py"}


def test_what_git_writes_is_applied_whatever_becomes_of_a_file(tmp_path: Path) -> None:
    before = {"caf\u00e9.py": b"x\n", "dir/a": b"a\n", "dir/b": b"", "crlf": b"a\r\nb\r\n", "bytes": b"\0\1", "e": b""}
    after = {
        "caf\u00e9.py": b"y\n",
        "dir": b"file\n",
        "crlf": b"a\r\nc\r\n",
        "bytes": b"\0\2",
        "latin": b"\xe9\n",
        "n/e": b"",
    }
    made, commits = Repository.init(tmp_path / "git"), []
    for name, files in (("before", before), ("after", after)):
        for path, data in files.items():
            (tmp_path / name / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / path).write_bytes(data)
        commits.append(made.snapshot(tmp_path / name, name))
    root = tmp_path / "before"
    apply(made.diff(commits[0], commits[1]), root)
    assert {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()} == after
    assert not (root / "n" / "x").exists() and {p.name for p in root.iterdir() if p.is_dir()} == {"n"}


@pytest.mark.parametrize(
    "patch", ["--- a/x\n+++ b/x\n@@ -1 +1 @@\n-\ud800\n+y\n", f"--- a/{'x' * 400}\n+++ b/{'x' * 400}\n"]
)
def test_what_no_file_can_hold_or_be_called_does_not_apply(tmp_path: Path, patch: str) -> None:
    with pytest.raises(PatchError):
        apply(patch, tmp_path)


@pytest.mark.slow
def test_test_files_that_are_no_text_or_gone_are_as_the_test_patch_has_them(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    clone, states = Repository(world.repos / "demo+tiny"), list[str]()
    reads = "\n    def test_data(self):\n        import os\n        self.assertEqual(open('tests/data', 'rb').read(), b'\\xe9\\0')\n"
    reads += "        self.assertFalse(os.path.exists('tests/old'))\n"
    for name, files in (
        ("plain", {**FILES, "tests/old": "x"}),
        ("tested", {**FILES, FILE: TESTS + NEW_TEST + reads}),
        (
            "worked",
            {**FILES, "pkg.py": FILES["pkg.py"].replace("/ 2", "// 2"), "tests/data/in": "x", "tests/old/in": "x"},
        ),
    ):
        for path, text in files.items():
            (tmp_path / name / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / path).write_text(text)
        if name == "tested":
            (tmp_path / name / "tests/data").write_bytes(b"\xe9\0")
        states.append(clone.snapshot(tmp_path / name, name))
    clone.set_branch("main", states[0])
    gold = clone.diff(states[0], states[2])  # puts folders where the test patch wants a file, and nothing
    tests = json.dumps([f"{FILE}::T.test_half", f"{FILE}::T.test_data"])
    world.write({**world.row, "base_commit": states[0], "patch": gold, "FAIL_TO_PASS": tests,
                 "test_patch": clone.diff(states[0], states[1])})  # fmt: skip
    for suite in opened(world, tmp_path):
        assert suite.check(the_task(suite)).why == ""
        assert suite.grade_patch(the_task(suite), gold).success


LINES = st.lists(st.text("ab -+@/\\", max_size=6), max_size=6)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LINES, LINES)
def test_a_patch_gives_what_git_made_it_from(
    tmp_path_factory: pytest.TempPathFactory, old: list[str], new: list[str]
) -> None:
    folder, texts = tmp_path_factory.mktemp("patch"), ["".join(f"{line}\n" for line in lines) for lines in (old, new)]
    repository, commits = Repository.init(folder / "git"), []
    for number, text in enumerate(texts):
        (folder / str(number)).mkdir()
        (folder / str(number) / "a b.txt").write_text(text)
        commits.append(repository.snapshot(folder / str(number), "state"))
    patch = repository.diff(*commits)
    if patch:
        assert touched(patch).paths[0] == "a b.txt"
        apply(patch, folder / "0")
    assert (folder / "0" / "a b.txt").read_text() == texts[1]
    with pytest.raises(PatchError):
        apply("--- a/absent\n+++ b/absent\n@@ -1 +1 @@\n-x\n+y\n", folder / "0")
    assert (folder / "0" / "a b.txt").read_text() == texts[1]
