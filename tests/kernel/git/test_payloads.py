"""Nothing that a repository, a workspace, an argument or the environment holds runs, or reaches what lies elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hostile import Evil, plain_git
from payloads import PAYLOADS, offences

FIRES = {
    "config_fsmonitor": "status",
    "config_hooks_path": "commit --allow-empty -m x",
    "config_aliases": "st",
    "config_external_diff": "diff HEAD~1",
    "filter_clean_and_smudge": "add a.txt",
    "filter_process": "add a.txt",
    "diff_textconv": "diff HEAD~2",
    "diff_driver_command": "diff HEAD~2",
    "hooks": "commit --allow-empty -m x",
    "lazy_fetch_by_program": "cat-file -p HEAD:a.txt",
    "signature_program": "log -1",
}
"""Payload -> the ordinary command that it fires on."""


def test_there_are_enough_of_them() -> None:
    assert len(PAYLOADS) >= 30


@pytest.mark.parametrize("name", PAYLOADS)
def test_no_payload_fires_and_nothing_elsewhere_is_read_or_written(name: str, evil: Callable[[], Evil]) -> None:
    place = evil()
    assert offences(place, name) == []
    assert not list(place.ours.rglob("secret.txt"))


def test_the_honest_repository_is_refused_nothing(evil: Callable[[], Evil]) -> None:
    place = evil()
    place.work_through()
    assert [r for r in place.refused if not r.startswith(("E_MOVED", "E_REF"))] == []
    assert any(b"one\ntwo" in found for found in place.seen)


@pytest.mark.parametrize("name", FIRES)
def test_plain_git_fires_it(name: str, evil: Callable[[], Evil]) -> None:
    """The control: these payloads work, where git is run in the ordinary way."""
    place = evil()
    PAYLOADS[name](place)
    (place.source / "a.txt").write_text("changed\n")
    plain_git(place.source, *FIRES[name].split(), check=False)
    if not place.fired():
        version = plain_git(place.source, "--version").decode().strip()
        pytest.skip(f"{version} does not fire {name} on git {FIRES[name]}")
