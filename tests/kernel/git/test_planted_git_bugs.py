"""Each of these bugs undoes one protection, and the payloads show it: the tests can fail."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hostile import Evil
from payloads import offences

from apex_framework.errors import GitError
from apex_framework.git import Repository, cloning, folders, names, runner, source, trees

Plant = Callable[[pytest.MonkeyPatch], None]


def keeps_the_environment(patch: pytest.MonkeyPatch) -> None:
    cleared = runner._environment
    patch.setattr(runner, "_environment", lambda *facts: {**os.environ, **cleared(*facts)})


def follows_links_to_objects(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(source, "_READ", source._READ & ~os.O_NOFOLLOW)


def follows_a_link_to_the_objects(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(source, "_FOLDER", source._FOLDER & ~os.O_NOFOLLOW)
    patch.setattr(source.Source, "_look", lambda self: None)


def borrows_objects(patch: pytest.MonkeyPatch) -> None:
    def look(view: Repository, folder: Path, revision: str, beneath: Path | None) -> str:
        (view.git_dir / "objects/info").mkdir(exist_ok=True)
        (view.git_dir / "objects/info/alternates").write_text(f"{folder}/.git/objects\n")
        with source.Source(folder) as opened:
            return opened.resolve(revision)

    patch.setattr(cloning, "_look_into", look)
    patch.setattr(source, "_ELSEWHERE", {})


def believes_links(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(trees, "outside", lambda links: set())


def reads_through_links(patch: pytest.MonkeyPatch) -> None:
    def walk(folder: int, prefix: str, ignore: frozenset[str]) -> object:
        for name in sorted(os.listdir(folder)):
            at = f"/proc/self/fd/{folder}/{name}" if os.path.isdir("/proc/self/fd") else name
            if os.path.isfile(at):
                yield prefix + name, trees.FILE, Path(at).read_bytes()

    patch.setattr(folders, "_walk", walk)


def works_in_the_source(patch: pytest.MonkeyPatch) -> None:
    """The clone is the source's own git folder: its configuration and its programs are believed."""

    def taken(kind: type[Repository], place: Path, git_dir: Path, revision: str, **_: object) -> Repository:
        return kind(place / ".git")

    monkey = "apex_framework.git.repository.clone"
    patch.setattr(monkey, taken)
    patch.setattr(runner, "_CONFIG", {})
    patch.setattr(names, "checked_name", lambda name: name)


PLANTED: list[tuple[Plant, str, str]] = [
    (keeps_the_environment, "environment", "ran trace"),
    (follows_links_to_objects, "object_links_to_elsewhere", "read the secret"),
    (follows_a_link_to_the_objects, "objects_link_to_elsewhere", "read the secret"),
    (borrows_objects, "alternates", "read the secret"),
    (believes_links, "links_out_of_the_tree", "read the secret"),
    (reads_through_links, "links_out_of_the_tree", "read the secret"),
    (works_in_the_source, "hooks", "ran hook-reference-transaction"),
    (works_in_the_source, "lazy_fetch_by_program", "wrote"),
]


@pytest.mark.parametrize(("plant", "payload", "offence"), PLANTED, ids=[f"{p.__name__}-{n}" for p, n, _ in PLANTED])
def test_a_planted_bug_is_seen(
    plant: Plant, payload: str, offence: str, evil: Callable[[], Evil], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = evil()
    plant(monkeypatch)
    try:
        found = offences(place, payload)
    except OSError:
        raise AssertionError("the bug broke the test, not the promise") from None
    assert any(o.startswith(offence) for o in found), found


def test_a_clone_that_would_bring_the_future_is_refused(
    honest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last check of a clone counts its objects: whatever brings more of them ends in a refusal."""
    fetch = cloning._fetch

    def generous(into: Repository, *rest: object) -> None:
        fetch(into, *rest)  # type: ignore[arg-type]  # passed on as they came
        runner.run_git(into.git_dir, ["hash-object", "-w", "--stdin"], stdin=b"the future")

    monkeypatch.setattr(cloning, "_fetch", generous)
    with pytest.raises(GitError, match="objects came along that side does not hold") as caught:
        Repository.clone(honest, tmp_path / "git", "side")
    assert caught.value.refusal == "E_REPO" and not (tmp_path / "git").exists()
