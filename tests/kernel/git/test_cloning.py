"""Clones hold a commit and its past, and nothing else; what cannot be cloned is refused in one line, with nothing left."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hostile import plain_git

from apex_framework.errors import GitError
from apex_framework.git import Repository, run_git


def objects(made: Repository) -> set[str]:
    every = ["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"]
    return set(run_git(made.git_dir, every).decode().split())


def commits(folder: Path, *arguments: str) -> list[str]:
    return plain_git(folder, "rev-list", *arguments).decode().split()


@pytest.mark.parametrize(("revision", "past"), [("HEAD", 3), ("main", 3), ("side", 2), ("light", 2), ("noted", 2)])
def test_a_clone_ends_at_its_commit(honest: Path, tmp_path: Path, revision: str, past: int) -> None:
    made = Repository.clone(honest, tmp_path / "git", revision)
    wanted = plain_git(honest, "rev-parse", f"{revision}^{{commit}}").decode().strip()
    assert made.commit_of("HEAD") == made.commit_of("main") == wanted
    assert [c.oid for c in made.log()] == commits(honest, wanted) and len(made.log()) == past
    assert objects(made) == set(
        plain_git(honest, "rev-list", "--objects", "--no-object-names", wanted).decode().split()
    )
    assert made.beyond("main") == set()
    assert os.listdir(tmp_path) == ["git"]


def test_no_object_of_the_future_is_there_however_it_is_kept(tmp_path: Path) -> None:
    """Branches, tags, stashes, reflogs, packed or loose: whatever came after the base is absent."""
    rng = random.Random(5)
    source = tmp_path / "source"
    source.mkdir()
    plain_git(source, "init", "-q")
    for number in range(8):
        (source / f"f{rng.randrange(3)}").write_text(f"{number}\n" * rng.randrange(1, 50))
        plain_git(source, "add", "-A")
        plain_git(source, "commit", "-qm", f"c{number}")
        if number == 5:
            plain_git(source, "gc", "-q")
        if rng.random() < 0.5:
            plain_git(source, "tag", f"t{number}")
    (source / "f0").write_text("stashed")
    plain_git(source, "stash", "-q", check=False)
    plain_git(source, "reset", "-q", "--hard", "HEAD~1")
    every = commits(source, "--all", "--reflog", "--date-order")
    for base in rng.sample(every, 4):
        made = Repository.clone(source, tmp_path / f"git-{base}", base)
        past = set(plain_git(source, "rev-list", "--objects", "--no-object-names", base).decode().split())
        assert objects(made) == past
        for later in set(every) - past:
            with pytest.raises(GitError):
                made.commit_of(later)


def test_depth_keeps_so_many_commits(honest: Path, tmp_path: Path) -> None:
    made = Repository.clone(honest, tmp_path / "one", depth=1)
    assert len(made.log()) == 1 and made.beyond("main") == set()
    again = Repository.clone(made.git_dir, tmp_path / "two")
    assert again.log() == made.log()
    with pytest.raises(GitError, match="1 or more"):
        Repository.clone(honest, tmp_path / "three", depth=0)


def _gone(name: str) -> Callable[[Path], None]:
    def work(folder: Path) -> None:
        oid = plain_git(folder, "rev-parse", name).decode().strip()
        (folder / ".git/objects" / oid[:2] / oid[2:]).unlink()

    return work


def _damaged(folder: Path) -> None:
    oid = plain_git(folder, "rev-parse", "HEAD:a.txt").decode().strip()
    file = folder / ".git/objects" / oid[:2] / oid[2:]
    file.chmod(0o644)
    file.write_bytes(file.read_bytes()[:-4] + b"evil")


def _not_one(folder: Path) -> None:
    (folder / ".git").rename(folder / "git")


def _empty(folder: Path) -> None:
    _not_one(folder)
    plain_git(folder, "init", "-q")


def _reftable(folder: Path) -> None:
    (folder / ".git/reftable").mkdir()


def _long_hashes(folder: Path) -> None:
    (folder / ".git/refs/heads/main").write_text("1" * 64 + "\n")


def _torn_ref(folder: Path) -> None:
    (folder / ".git/refs/heads/main").write_text("abc\n")


def _locked(folder: Path) -> None:
    (folder / ".git/HEAD").unlink()
    os.mkfifo(folder / ".git/HEAD")


BROKEN: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "not a repository": (_not_one, "E_REPO", "is not a git repository"),
    "without a commit": (_empty, "E_REF", "no commit HEAD"),
    "a blob is missing": (_gone("HEAD:a.txt"), "E_REPO", "missing or damaged"),
    "a tree is missing": (_gone("HEAD^{tree}"), "E_REPO", "missing or damaged"),
    "a past commit is missing": (_gone("HEAD~1"), "E_REPO", "missing or damaged"),
    "the commit is missing": (_gone("HEAD"), "E_REF", "no commit"),
    "a blob is damaged": (_damaged, "E_REPO", "missing or damaged"),
    "a reftable": (_reftable, "E_REPO", "reftable"),
    "another hash": (_long_hashes, "E_REPO", "another kind of hash"),
    "a torn ref": (_torn_ref, "E_REPO", "damaged"),
    "a pipe for HEAD": (_locked, "E_REPO", "is not a git repository"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_source_is_one_clear_line_and_leaves_nothing(name: str, honest: Path, tmp_path: Path) -> None:
    work, code, words = BROKEN[name]
    source = tmp_path / "source"
    plain_git(tmp_path, "clone", "-q", "--no-local", str(honest), str(source))
    plain_git(source, "unpack-objects", "-q", data=next((source / ".git/objects/pack").glob("*.pack")).read_bytes())
    if packs := list((source / ".git/objects/pack").glob("pack-*")):
        loose = tmp_path / "packs"
        loose.mkdir()
        for pack in packs:
            pack.rename(loose / pack.name)
        plain_git(source, "unpack-objects", "-q", data=next(loose.glob("*.pack")).read_bytes())
    work(source)
    with pytest.raises(GitError, match=words) as caught:
        Repository.clone(source, tmp_path / "git")
    assert caught.value.refusal == code and "\n" not in caught.value.cause
    assert not (tmp_path / "git").exists() and not list(tmp_path.glob(".apex-git-*"))


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("ext::sh -c true", "E_REPO"),
        ("ext://sh", "E_PROTO"),
        ("file:///tmp", "E_PROTO"),
        ("ssh://h/x", "E_PROTO"),
        ("http://h/x", "E_PROTO"),
        ("https://u:p@h/x", "E_PROTO"),
        ("https://-x/y", "E_PROTO"),
        ("https://h/x\n", "E_PROTO"),
        ("https://h/x y", "E_PROTO"),
        ("https:///x", "E_PROTO"),
    ],
)
def test_only_plain_https_addresses_and_folders_are_taken(source: str, code: str, tmp_path: Path) -> None:
    with pytest.raises(GitError) as caught:
        Repository.clone(source, tmp_path / "git", network=True)
    assert caught.value.refusal == code and not (tmp_path / "git").exists()


def test_an_address_needs_the_network_to_be_allowed(tmp_path: Path) -> None:
    with pytest.raises(GitError, match="the network is not allowed"):
        Repository.clone("https://localhost:1/x", tmp_path / "git")
    with pytest.raises(GitError) as caught:
        Repository.clone("https://localhost:1/x", tmp_path / "git", network=True)
    assert caught.value.refusal == "E_GIT" and not (tmp_path / "git").exists()


def test_beneath_no_link_is_followed(honest: Path, tmp_path: Path) -> None:
    (tmp_path / "allowed").mkdir()
    (tmp_path / "allowed/link").symlink_to(honest.parent)
    plain_git(tmp_path, "clone", "-q", str(honest), str(tmp_path / "allowed/real"))
    allowed = tmp_path / "allowed"
    assert Repository.clone(allowed / "real", tmp_path / "git", beneath=allowed).log()
    with pytest.raises(GitError) as caught:
        Repository.clone(allowed / "link/repo", tmp_path / "git2", beneath=allowed)
    assert caught.value.refusal == "E_REPO"


def test_a_folder_that_is_in_use_is_left_alone(honest: Path, tmp_path: Path) -> None:
    (tmp_path / "git").mkdir()
    (tmp_path / "git/mine").write_text("x")
    with pytest.raises(GitError, match="is not empty"):
        Repository.clone(honest, tmp_path / "git")
    assert (tmp_path / "git/mine").read_text() == "x"


def test_submodules_lfs_pointers_and_links_out_are_said(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    plain_git(source, "init", "-q")
    (source / "big.bin").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    (source / "out").symlink_to("/etc/passwd")
    plain_git(source, "add", "-A")
    plain_git(source, "update-index", "--add", "--cacheinfo", "160000," + "1" * 40 + ",sub")
    plain_git(source, "commit", "-qm", "x")
    made = Repository.clone(source, tmp_path / "git")
    (tmp_path / "into").mkdir()
    found = made.check_out("main", tmp_path / "into")
    assert (found.files, found.submodules, found.outside_links, found.lfs_pointers) == (
        1,
        ("sub",),
        ("out",),
        ("big.bin",),
    )
    assert os.listdir(tmp_path / "into") == ["big.bin"]


def test_the_source_is_not_changed_by_what_happens_to_the_clone(honest: Path, tmp_path: Path) -> None:
    before = {p: p.read_bytes() for p in sorted(honest.rglob("*")) if p.is_file()}
    made = Repository.clone(honest, tmp_path / "git")
    made.snapshot(honest, "x", ("main",))
    for path in sorted(made.git_dir.rglob("*")):
        if path.is_file():
            path.chmod(0o600)
            path.write_bytes(b"overwritten")
    assert {p: p.read_bytes() for p in sorted(honest.rglob("*")) if p.is_file()} == before
