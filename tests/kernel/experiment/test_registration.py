"""Registered plans: what is frozen, and what is refused afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from apex_framework.errors import ArtifactError, PlanChangedError
from apex_framework.experiment.code import code_digests
from apex_framework.experiment.planfile import read_plan_file
from apex_framework.experiment.registration import Lock, lock_path, read_lock, register
from apex_framework.plugins import load_plugins

TEXT = """
[prereg]
hypothesis = "it helps"
estimand = "success"
arm = "bandit_v1"
against = ["static_star", "single"]

[[part]]
name = "main"
suite = "mini/dev"
limit = 40
arms = ["bandit_v1", "static_star", "single"]
"""
HASHES = {"suite.mini": "a" * 64, "solver.repair": "b" * 64, "policy.bandit_v1": "c" * 64}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "plan.toml"
    path.write_text(TEXT)
    register(read_plan_file(path), HASHES, load_plugins(environ={"APEX_PLUGINS": ""}))
    return path


def test_a_lock_is_read_back_and_finds_nothing_changed(path: Path) -> None:
    lock = read_lock(path)
    assert lock is not None
    assert lock.changes(read_plan_file(path), HASHES) == []
    assert "python" in lock.versions
    again = register(read_plan_file(path), HASHES, load_plugins(environ={"APEX_PLUGINS": ""}))
    assert again == lock


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("limit = 40", "limit = 41", "parts[0].limit: 40 -> 41"),
        ("it helps", "it hurts", "prereg.hypothesis"),
        ("[prereg]", "[prereg]\nalpha = 0.05", "prereg.alpha: 0.025 -> 0.05"),
        ('"single"]\n\n', '"single"]\nclaim = 0.01\n\n', "prereg.claim"),
        ('against = ["static_star", "single"]', 'against = ["static_star"]', "prereg.against"),
    ],
)
def test_every_change_after_registration_is_named(path: Path, old: str, new: str, words: str) -> None:
    path.write_text(TEXT.replace(old, new, 1))
    lock = read_lock(path)
    assert lock is not None
    assert any(words in change for change in lock.changes(read_plan_file(path), HASHES))
    with pytest.raises(PlanChangedError, match="another plan now"):
        register(read_plan_file(path), HASHES, load_plugins(environ={"APEX_PLUGINS": ""}))


@pytest.mark.parametrize("name", HASHES)
def test_a_changed_hash_of_what_the_plan_rests_on_is_named(path: Path, name: str) -> None:
    lock = read_lock(path)
    assert lock is not None
    assert lock.changes(read_plan_file(path), {**HASHES, name: "d" * 64})[0].startswith(name)


@pytest.mark.parametrize("key", ["registered", "plan", "hashes", "versions", "code", "format", "digest"])
def test_an_edited_lock_is_refused(path: Path, key: str) -> None:
    lock = lock_path(path)
    data = json.loads(lock.read_text())
    data[key] = {"registered": "2020-01-01T00:00:00+00:00", "format": 1, "digest": "0" * 64}.get(key, {})
    lock.write_text(json.dumps(data))
    with pytest.raises(ArtifactError, match="was edited"):
        read_lock(path)


def test_the_code_is_in_the_lock_and_no_reason_to_refuse_the_plan(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = read_lock(path)
    assert lock is not None and lock.code == code_digests()
    monkeypatch.setattr("apex_framework.experiment.code.tree_digest", lambda root, left_out: "f" * 64)
    assert lock.changes(read_plan_file(path), HASHES) == []
    again = register(read_plan_file(path), HASHES, load_plugins(environ={"APEX_PLUGINS": ""}))
    assert again.code == lock.code


def test_a_lock_of_before_there_were_digests_of_code_stays_what_it_was() -> None:
    plan = Path(__file__).parents[3] / "docs" / "evidence" / "plans" / "headline.toml"
    before = lock_path(plan).read_bytes()
    lock = read_lock(plan)
    assert lock is not None
    assert (lock.format, lock.code) == (1, {})
    assert lock.digest == "0e0723513a8c35c6a4633a50ebe8c20ba59b32be533ffc950de4db1550ec359a"
    again = register(read_plan_file(plan), lock.hashes, load_plugins(environ={"APEX_PLUGINS": ""}))
    assert (again, lock_path(plan).read_bytes()) == (lock, before)


LOOKS = TEXT.replace("[[part]]", 'stop = "sequential"\nlooks = [20, 40]\n[[part]]\nbest_static = "static_star"')


def test_a_plan_that_names_no_unit_bets_on_clusters_and_one_registered_before_keeps_its_unit(tmp_path: Path) -> None:
    plugins, path = load_plugins(environ={"APEX_PLUGINS": ""}), tmp_path / "plan.toml"
    path.write_text(LOOKS)
    fresh = read_plan_file(path)
    assert fresh.prereg is not None and fresh.prereg.unit == "cluster"
    assert register(fresh, HASHES, plugins).plan["prereg"]["unit"] == "cluster"
    assert read_plan_file(path).digest == fresh.digest
    for said in ({"unit": "task"}, {}):  # what the default was once, and a lock that does not name it
        old = fresh.to_json()
        del old["prereg"]["unit"]
        old["prereg"] |= said
        lock = Lock("2026-11-01T00:00:00+00:00", old, HASHES, {"python": "3.11.7"}, {})
        lock_path(path).write_text(json.dumps({"format": lock.format, "digest": lock.digest, **vars(lock)}))
        plan, read = read_plan_file(path), read_lock(path)
        assert plan.prereg is not None and plan.prereg.unit == "task"
        assert read == lock and lock.changes(plan, HASHES) == []
    path.write_text(LOOKS.replace("looks =", 'unit = "cluster"\nlooks ='))
    assert lock.changes(read_plan_file(path), HASHES) == ['prereg.unit: "task" -> "cluster"']


@pytest.mark.parametrize("name", ["headline", "humaneval"])
def test_the_locks_that_are_published_are_accepted(name: str) -> None:
    path = Path(__file__).parents[3] / "docs" / "evidence" / "plans" / f"{name}.toml"
    plan, lock = read_plan_file(path), read_lock(path)
    assert lock is not None and lock.changes(plan, lock.hashes) == []
    assert plan.prereg is not None and plan.prereg.claim == 0.05


@pytest.mark.parametrize("text", ["", "{", "[]", "{}"])
def test_what_is_no_lock_is_refused(path: Path, text: str) -> None:
    lock_path(path).write_text(text)
    with pytest.raises(ArtifactError):
        read_lock(path)


def test_a_hash_that_the_plan_announces_must_be_found(tmp_path: Path) -> None:
    path = tmp_path / "announced.toml"
    plugins = load_plugins(environ={"APEX_PLUGINS": ""})
    path.write_text(TEXT.replace("[[part]]", 'hashes = { suite = "aaaaaaaaaaaa", solver = "eeeeeeeeeeee" }\n[[part]]'))
    with pytest.raises(PlanChangedError, match="solver"):
        register(read_plan_file(path), HASHES, plugins)
    assert not lock_path(path).exists()
    path.write_text(path.read_text().replace("eeeeeeeeeeee", "bbbbbbbbbbbb"))
    register(read_plan_file(path), HASHES, plugins)
