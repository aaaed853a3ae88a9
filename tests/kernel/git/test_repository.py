"""Commits, differences, merges and patches, on trees of every kind."""

from __future__ import annotations

import os
import stat
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apex_framework.errors import GitError
from apex_framework.git import Repository, run_git, trees

Tree = dict[str, tuple[str, bytes]]

NAMES = st.one_of(
    st.sampled_from(
        ["a", "b", "a b", "-x", "--output=x", ":(top)x", "~", "..\\x", "HEAD", "new\nline", '"q"', "\x1b[2J", "é", "*"]
    ),
    st.binary(min_size=1, max_size=12).filter(lambda b: not set(b) & {0, 47}).map(os.fsdecode),
).filter(lambda name: name not in (".", "..") and not trees.is_gits_own(name))
DATA = st.one_of(
    st.binary(max_size=60), st.sampled_from([b"", b"x\n", b"a\r\nb\r\n", b"$Id$\n", b"no end", b"\0\n" * 9])
)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
FILES = st.dictionaries(PATHS, st.tuples(st.sampled_from([trees.FILE, trees.PROGRAM, trees.LINK]), DATA), max_size=8)


def fitting(found: Tree) -> Tree:
    """Without files below files, and with links that stay inside."""
    kept: Tree = {}
    for path, (mode, data) in found.items():
        above = {"/".join(path.split("/")[:n]) for n in range(1, path.count("/") + 1)}
        if not above & set(found):
            kept[path] = (mode, b"target") if mode == trees.LINK else (mode, data)
    return kept


def write(root: Path, files: Tree) -> None:
    for path, (mode, data) in files.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if mode == trees.LINK:
            place.symlink_to(os.fsdecode(data))
        else:
            place.write_bytes(data)
            place.chmod(0o755 if mode == trees.PROGRAM else 0o644)


def read(root: Path) -> Tree:
    found: Tree = {}
    for folder, folders, files in os.walk(root):
        for name in [*files, *(f for f in folders if os.path.islink(os.path.join(folder, f)))]:
            path = os.path.join(folder, name)
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                found[os.path.relpath(path, root)] = (trees.LINK, os.fsencode(os.readlink(path)))
            else:
                kind = trees.PROGRAM if mode & 0o100 else trees.FILE
                found[os.path.relpath(path, root)] = (kind, Path(path).read_bytes())
    return found


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.fixture
def made(place: Path) -> Repository:
    return Repository.init(place / "git")


def commit(made: Repository, place: Path, files: Tree, *parents: str, when: int = 0) -> str:
    with tempfile.TemporaryDirectory(dir=place) as folder:
        write(Path(folder), files)
        return made.snapshot(Path(folder), "a commit", parents, when=when)


def text(**files: str) -> Tree:
    return {name: (trees.FILE, data.encode()) for name, data in files.items()}


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(FILES, FILES)
def test_snapshot_check_out_diff_and_apply_are_a_round_trip(one: Tree, two: Tree) -> None:
    """Trees come back byte for byte; the difference of two, applied to the one, is the other."""
    one, two = fitting(one), fitting(two)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        made = Repository.init(place / "git")
        first = commit(made, place, one)
        second = commit(made, place, two, first)
        for oid, files in ((first, one), (second, two)):
            into = place / oid
            into.mkdir()
            assert made.check_out(oid, into).files == len(files)
            assert read(into) == files
        assert set(made.changed(first, second)) == {p for p in one.keys() | two.keys() if one.get(p) != two.get(p)}
        if one != two:
            assert made.apply(made.diff(first, second), first, "a commit") == second
        else:
            assert made.diff(first, second) == ""


def test_a_commit_is_named_by_files_message_parents_and_time_alone(made: Repository, place: Path) -> None:
    first = commit(made, place, text(a="x"), when=3)
    assert commit(made, place, text(a="x"), when=3) == first
    assert commit(made, place, text(a="x"), when=4) != first
    other = Repository.init(place / "other")
    assert commit(other, place, text(a="x"), when=3) == first


def test_many_snapshots_at_once_do_not_mix(made: Repository, place: Path) -> None:
    found: dict[int, str] = {}

    def work(number: int) -> None:
        found[number] = commit(made, place, text(n=str(number)))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {n: made.file(oid, "n") for n, oid in found.items()} == {n: str(n).encode() for n in range(6)}
    assert run_git(made.git_dir, ["for-each-ref"]) == b""


def test_merge_forward_three_ways_and_conflict(made: Repository, place: Path) -> None:
    base = commit(made, place, text(a="1\n2\n3\n", b="b"))
    ours = commit(made, place, text(a="1 ours\n2\n3\n", b="b"), base)
    theirs = commit(made, place, text(a="1\n2\n3\n", b="theirs"), base)
    clash = commit(made, place, text(a="1 clash\n2\n3\n", b="b"), base)
    assert made.merge(base, ours, "m") == ours and made.merge(ours, base, "m") == ours
    both = made.merge(ours, theirs, "both", when=5)
    assert (made.file(both, "a"), made.file(both, "b")) == (b"1 ours\n2\n3\n", b"theirs")
    assert made.log(both)[0].parents == (ours, theirs)
    assert made.is_ancestor(ours, both) and not made.is_ancestor(both, ours) and made.is_ancestor(both, both)
    before = made.branches()
    with pytest.raises(GitError, match="both changed 'a'") as caught:
        made.merge(ours, clash, "m")
    assert caught.value.refusal == "E_CONFLICT" and made.branches() == before
    with pytest.raises(GitError) as caught:
        made.merge(ours, commit(made, place, text(z="z")), "m")
    assert caught.value.refusal == "E_CONFLICT"


def test_attributes_in_a_tree_change_neither_merge_nor_diff(made: Repository, place: Path) -> None:
    attributes = {".gitattributes": (trees.FILE, b"* merge=union -diff text eol=crlf\n")}
    base = commit(made, place, text(a="1\n") | attributes)
    ours, theirs = (commit(made, place, text(a=f"{t}\n") | attributes, base) for t in ("ours", "theirs"))
    made.set_branch("main", ours)
    assert "+ours" in made.diff(base, ours)
    with pytest.raises(GitError) as caught:
        made.merge(ours, theirs, "m")
    assert caught.value.refusal == "E_CONFLICT"


def test_branches_are_made_moved_and_guarded(made: Repository, place: Path) -> None:
    one = commit(made, place, text(a="1"))
    two = commit(made, place, text(a="2"), one)
    made.set_branch("main", one, expected="")
    made.set_branch("feature/x#1", two)
    assert made.branches() == {"main": one, "feature/x#1": two}
    for expected in ("", two):
        with pytest.raises(GitError) as caught:
            made.set_branch("main", two, expected=expected)
        assert caught.value.refusal == "E_MOVED"
    made.set_branch("main", two, expected=one)
    made.switch("feature/x#1")
    assert made.branch == "feature/x#1" and made.commit_of("HEAD") == two
    for name in ("-x", "a..b", "a b", "x.lock", "/x", "x/", ".x", "x/.y", "x\n", "a/-b", "", "x~1", "HEAD^{commit}"):
        with pytest.raises(GitError) as caught:
            made.set_branch(name, one)
        assert caught.value.refusal == "E_REF"
    with pytest.raises(GitError, match="no commit"):
        made.set_branch("y", "0" * 40)
    with pytest.raises(GitError, match="no commit"):
        made.switch("none")


def test_a_branch_may_look_like_a_hash(made: Repository, place: Path) -> None:
    one = commit(made, place, text(a="1"))
    made.set_branch("beef", one)
    assert made.commit_of("beef") == one and made.commit_of(one[:10]) == one


def test_the_log_is_paged_and_a_message_moves_no_cursor(made: Repository, place: Path) -> None:
    parent: tuple[str, ...] = ()
    for number in range(5):
        parent = (commit(made, place, text(a=str(number)), *parent, when=number),)
    assert [c.when for c in made.log(parent[0], count=2, skip=1)] == [3, 2]
    assert made.log(parent[0], skip=99) == []
    made.set_branch("main", parent[0])
    assert [made.log(r, count=1)[0].when for r in ("HEAD~1", "main^", "main~2^", "HEAD~^~")] == [3, 3, 1, 1]
    for revision in ("HEAD~9", "HEAD^2", "HEAD^{tree}", "~1", "HEAD~1:a", "-x~1", "main~\n"):
        with pytest.raises(GitError) as caught:
            made.commit_of(revision)
        assert caught.value.refusal == "E_REF"
    oid = made.snapshot(place, "bell\a\x1b[2J\0end\r\nsecond\n\n", parent)
    assert made.log(oid)[0].message == "bell??[2J?end\nsecond"
    with pytest.raises(GitError, match="no time"):
        made.snapshot(place, "m", when=-1)


def test_a_file_of_a_commit(made: Repository, place: Path) -> None:
    oid = commit(made, place, {"d/a": (trees.FILE, b"x" * 100)})
    assert made.file(oid, "d/a") == b"x" * 100
    for path, code in (("d", "E_MISSING"), ("d/b", "E_MISSING"), ("../d/a", "E_PATH"), ("", "E_PATH")):
        with pytest.raises(GitError) as caught:
            made.file(oid, path)
        assert caught.value.refusal == code
    with pytest.raises(GitError, match="100 bytes, more than 99"):
        made.file(oid, "d/a", most=99)


def test_a_check_out_that_fails_leaves_an_empty_folder(
    made: Repository, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    oid = commit(made, place, {f"d{n}/a": (trees.FILE, b"x") for n in range(9)})
    blob = made.entries(oid)[4].oid
    into = place / "into"
    into.mkdir()
    (into / "there").write_text("mine")
    with pytest.raises(GitError, match="not empty"):
        made.check_out(oid, into)
    assert (into / "there").read_text() == "mine"
    (into / "there").unlink()
    with pytest.raises(GitError):
        made.check_out(oid, place / "none")
    written: list[str] = []
    monkeypatch.setattr(
        "apex_framework.git.folders.Writer.file", lambda self, path, mode, data: _fail_late(written, into)
    )
    with pytest.raises(GitError, match="disk"):
        made.check_out(oid, into)
    assert written and list(into.iterdir()) == [] and blob


def _fail_late(written: list[str], into: Path) -> None:
    (into / f"f{len(written)}").write_text("half")
    written.append("x")
    if len(written) == 5:
        raise GitError("E_PATH", "the disk is full")


def test_links_are_judged_through_one_another() -> None:
    links = {
        "up": "d/..",
        "d/top": "..",
        "out": "d/top/../x",
        "loop": "loop",
        "far": "up/up/../x",
        "abs": "/x",
        "ok": "d/x",
    }
    assert trees.outside(links) == {"out", "loop", "far", "abs"}
    assert trees.outside({f"l{n}": f"l{n + 1}/l{n + 1}" for n in range(60)}) == {f"l{n}" for n in range(20)}


def test_what_is_too_large_is_refused_before_it_is_read(
    made: Repository, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    oid = commit(made, place, {"big": (trees.FILE, b"x" * 2000)})
    monkeypatch.setattr(trees, "MOST_BYTES", 1000)
    for work in (lambda: made.entries(oid), lambda: commit(made, place, {"big": (trees.FILE, b"x" * 2000)})):
        with pytest.raises(GitError, match="larger than 1,000") as caught:
            work()
        assert caught.value.refusal == "E_LIMIT"
    monkeypatch.setattr(trees, "MOST_FILES", 3)
    with pytest.raises(GitError, match="more than 3 files"):
        commit(made, place, {f"f{n}": (trees.FILE, b"") for n in range(4)})


def test_too_deep_a_folder_is_refused(made: Repository, place: Path) -> None:
    deep = place / "deep" / "/".join("d" * (trees.MOST_FOLDERS + 2))
    deep.mkdir(parents=True)
    (deep / "f").write_text("x")
    with pytest.raises(GitError, match="within each other"):
        made.snapshot(place / "deep", "m")
