"""Patches as the official harness applies them: links and submodules, and what only its later commands take."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from swebench_world import World, make_world
from test_swebench import opened, the_task

from apex_framework.git import Repository
from apex_suites.swebench import leniently
from apex_suites.swebench.environments import TIMEOUT_S, Environment
from apex_suites.swebench.leniently import NO_PATCH, apply_leniently, gnu_patch
from apex_suites.swebench.patches import PatchError, apply
from apex_suites.swebench.suite import SweBenchSuite
from apex_workspaces.plain import PlainSandbox

needs_patch = pytest.mark.skipif(not gnu_patch(), reason="needs GNU patch 2.7.3")

TEXT = "".join(f"line {number}\n" for number in range(1, 12))
GOOD = """diff --git a/code.py b/code.py
--- a/code.py
+++ b/code.py
@@ -4,5 +4,5 @@ line 3
 line 4
 line 5
-line 6
+line six
 line 7
 line 8
"""
FIXED = TEXT.replace("line 6\n", "line six\n")
FUZZY = GOOD.replace(" line 8", " line eight")
LINK = """diff --git a/{0} b/{0}
new file mode 120000
index 0000000..1111111
--- /dev/null
+++ b/{0}
@@ -0,0 +1 @@
+{1}
\\ No newline at end of file
"""
SUBMODULE = """diff --git a/sub b/sub
new file mode 160000
index 0000000..1111111
--- /dev/null
+++ b/sub
@@ -0,0 +1 @@
+Subproject commit 1111111111111111111111111111111111111111
"""
NEW = "diff --git a/{0} b/{0}\nnew file mode 100644\n--- /dev/null\n+++ b/{0}\n@@ -0,0 +1 @@\n+hi\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "root"
    (made / "pkg").mkdir(parents=True)
    (made / "code.py").write_text(TEXT)
    (made / "pkg" / "a").write_text("a\n")
    (made / "link").symlink_to("code.py")
    (made / "there").symlink_to("pkg")
    return made


def tree(root: Path) -> dict[str, str]:
    paths = [path for path in root.rglob("*") if path.is_symlink() or path.is_file()]
    return {
        path.relative_to(root).as_posix(): f"-> {os.readlink(path)}" if path.is_symlink() else path.read_text()
        for path in paths
    }


def leniently_applied(patch: str, root: Path) -> str:
    with pytest.raises(PatchError) as refused:
        apply(patch, root)
    return apply_leniently(patch, root, PlainSandbox(), refused.value)


@pytest.mark.parametrize("change", ["removed", "elsewhere", "a file", "moved", "a folder"])
def test_links_of_the_base_change_as_files_do(root: Path, tmp_path: Path, change: str) -> None:
    after, git = tmp_path / "after", Repository.init(tmp_path / "git")
    shutil.copytree(root, after, symlinks=True)
    (after / "link").unlink()
    if change == "elsewhere":
        (after / "link").symlink_to("pkg/a")
    elif change == "a file":
        (after / "link").write_text("x\n")
    elif change == "moved":
        (after / "pkg" / "link").symlink_to("../code.py")
    elif change == "a folder":
        (after / "link").mkdir()
        (after / "link" / "in").write_text("x\n")
    apply(git.diff(git.snapshot(root, "before"), git.snapshot(after, "after")), root)
    assert tree(root) == tree(after)


def test_a_link_that_leads_out_and_a_submodule_come_as_git_makes_them(root: Path) -> None:
    apply(GOOD + LINK.format("out", "../../etc/hosts") + LINK.format("deep/dangling", "/nowhere") + SUBMODULE, root)
    assert os.readlink(root / "out") == "../../etc/hosts" and os.readlink(root / "deep" / "dangling") == "/nowhere"
    assert (root / "sub").is_dir() and not any((root / "sub").iterdir())
    assert (root / "code.py").read_text() == FIXED


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("code.py/x", "code.py is a file"),
        ("pkg", "its files cannot be made"),
        ("x" * 400, "a name too long"),
    ],
)
def test_what_cannot_be_laid_out_does_not_apply(root: Path, path: str, why: str) -> None:
    before = tree(root)
    with pytest.raises(PatchError, match=why) as refused:
        apply(NEW.format(path), root)
    with pytest.raises(PatchError, match=why):
        apply_leniently(NEW.format(path), root, PlainSandbox(), refused.value)
    assert tree(root) == before


@needs_patch
@pytest.mark.parametrize("path", ["there/x", "there/deep/x"])
def test_git_goes_through_no_link_and_patch_through_those_that_stay_inside(root: Path, path: str) -> None:
    with pytest.raises(PatchError, match="beyond a symbolic link"):
        apply(NEW.format(path), root)
    leniently_applied(NEW.format(path), root)
    assert tree(root)[path.replace("there", "pkg")] == "hi\n" and (root / "there").is_symlink()


def test_a_file_may_make_room_for_a_folder_and_the_other_way_round(root: Path, tmp_path: Path) -> None:
    after, git = tmp_path / "after", Repository.init(tmp_path / "git")
    (after / "code.py").mkdir(parents=True)
    (after / "code.py" / "in").write_text("x\n")
    (after / "pkg").write_text("x\n")
    apply(git.diff(git.snapshot(root, "before"), git.snapshot(after, "after")), root)
    assert tree(root) == tree(after)


@needs_patch
@pytest.mark.parametrize(
    "patch",
    [
        pytest.param(GOOD.replace("\n", "\r\n"), id="CRLF"),
        pytest.param(
            f"{GOOD}diff --git a/x.pyc b/x.pyc\nnew file mode 100644\nindex 0000000..e69de29\n"
            "Binary files /dev/null and b/x.pyc differ\n",
            id="binary without its bytes",
        ),
        pytest.param(GOOD.replace("-4,5 +4,5", "-4,7 +4,7"), id="wrong counts"),
        pytest.param("".join(f"  {line}\n" for line in GOOD.splitlines()), id="indented"),
        pytest.param(GOOD.replace(" line 7", "\tline 7"), id="white space"),
        pytest.param(FUZZY, id="fuzz"),
        pytest.param(f"{GOOD}diff --git a/pkg/a b/pkg/a\nold mode 100644\nnew mode 100644\n", id="equal modes"),
    ],
)
def test_what_patch_takes_is_taken_and_said(root: Path, patch: str) -> None:
    assert leniently_applied(patch, root) == "applied by patch with fuzz 5, as the official harness does"
    assert tree(root).pop("code.py") == FIXED


@needs_patch
def test_what_stays_behind_stays_as_officially(root: Path) -> None:
    leniently_applied(FUZZY, root)
    assert (root / "code.py.orig").read_text() == TEXT


@needs_patch
def test_a_patch_that_was_left_applied_counts_as_applied(root: Path) -> None:
    gone = "diff --git a/no b/no\ndeleted file mode 100644\n--- a/no\n+++ /dev/null\n@@ -1 +0,0 @@\n-hi\n"
    assert "these commands together" in leniently_applied(GOOD + gone, root)
    assert (root / "code.py").read_text() == FIXED


def test_three_ways_need_no_patch(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leniently, "gnu_patch", lambda: "")
    before, after, git = tmp_path / "before", tmp_path / "after", Repository.init(tmp_path / "git")
    for place in (before, after):
        shutil.copytree(root, place, symlinks=True)
    # The change is there already, and the patch's own base is in the repository under another name.
    (root / "old.py").write_text(TEXT)
    (root / "code.py").write_text(FIXED)
    (after / "code.py").write_text(FIXED)
    patch = git.diff(git.snapshot(before, "before"), git.snapshot(after, "after"))
    assert leniently_applied(patch, root) == "applied by git apply --3way, as the official harness does"
    with pytest.raises(PatchError, match=NO_PATCH):
        leniently_applied(FUZZY.replace("line 4", "line four"), root)


@needs_patch
@pytest.mark.parametrize(
    "more",
    [
        pytest.param(NEW.format("../evil"), id="above"),
        pytest.param(NEW.format(".git/evil"), id="git's own"),
        pytest.param(NEW.format("pkg/.git/evil"), id="git's own, deeper"),
        pytest.param("{outside}" + NEW.format("out/evil"), id="through a link"),
        pytest.param("--- a/pkg/a\n+++ b/pkg/a\n1c\n!touch {folder}/evil\n.\n1d\n", id="an ed script"),
    ],
)
def test_nothing_is_written_elsewhere_and_nothing_of_a_patch_is_run(root: Path, tmp_path: Path, more: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    more = more.format(outside=LINK.format("out", outside), folder=outside) if "{" in more else more
    try:
        leniently_applied(FUZZY + more, root)
    except PatchError:
        assert (root / "code.py").read_text() == TEXT
    assert not list(tmp_path.rglob("evil*"))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path)


@pytest.fixture
def suite(world: World, tmp_path: Path) -> Iterator[SweBenchSuite]:
    yield from opened(world, tmp_path)


@needs_patch
def test_a_verdict_says_what_applied_its_patch(suite: SweBenchSuite, world: World) -> None:
    verdict = suite.grade_patch(the_task(suite), world.patches["gold"].replace("\n", "\r\n"))
    assert verdict.success and not verdict.infrastructure_error
    assert verdict.detail.endswith("; applied by patch with fuzz 5, as the official harness does")


def test_no_patch_of_an_agent_is_an_infrastructure_error(suite: SweBenchSuite, world: World, tmp_path: Path) -> None:
    outside, gold, task = tmp_path / "outside", world.patches["gold"], the_task(suite)
    outside.mkdir()
    clone = Repository(world.repos / "demo+tiny")
    before, after = tmp_path / "as it was", tmp_path / "linked"
    before.mkdir()
    clone.check_out(world.row["base_commit"], before)
    shutil.copytree(before, after)
    shutil.rmtree(after / "tests")
    (after / "tests").symlink_to(outside)
    tests_elsewhere = clone.diff(world.row["base_commit"], clone.snapshot(after, "linked"))
    for more, resolved in (
        (LINK.format("out", "../../etc"), True),
        (SUBMODULE, True),
        (NEW.format("pkg.py/x"), False),
        (NEW.format("tests"), False),
        (tests_elsewhere, None),
    ):
        verdict = suite.grade_patch(task, gold + more)
        assert not verdict.infrastructure_error
        assert resolved in (None, verdict.success), (more, verdict)
    assert not list(outside.iterdir())


def test_a_run_that_decides_has_the_official_time_and_an_agents_run_has_not() -> None:
    deciding, own = (Environment("a/b").run_of("1", ["t.py"], deciding=deciding) for deciding in (True, False))
    assert deciding["cpu_s"] >= deciding["idle_s"] == TIMEOUT_S == 1800
    assert own["cpu_s"] < 1800 and own["idle_s"] < 1800
