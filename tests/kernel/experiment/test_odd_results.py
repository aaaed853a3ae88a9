"""One odd value costs one episode: it is told by its place, and the run goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from apex_executors.local import LocalExecutor
from apex_framework.analysis import read_run
from apex_framework.experiment.artifacts import RunFolder
from apex_framework.experiment.layout import episode_folder, file_name
from apex_framework.experiment.lines import misfit, read_rows, to_line
from apex_framework.experiment.manifest import verify_manifest
from apex_framework.experiment.plan import Plan, PlannedTask, digest_of
from apex_framework.experiment.run import Runner
from apex_framework.experiment.toml import to_toml
from apex_framework.interfaces import EpisodeResult
from apex_framework.ports import derive_seed

MakePlan = Callable[..., Plan]


@pytest.fixture
def odd_episodes(fake_episodes: ModuleType) -> ModuleType:
    """The stand-ins, importable here and in worker processes."""
    import odd_episodes

    return odd_episodes


def reasons(path: Path, plan: Plan, work: Callable[..., EpisodeResult]) -> list[str]:
    """Reasons of the episodes that failed; the others are finished, and so is the run."""
    with RunFolder.create(path, plan) as folder:
        outcome = Runner(folder, LocalExecutor(), work).run()
    assert outcome.complete and len(read_run(path).rows) == plan.size
    verify_manifest(path)
    rows = read_rows(path / "episodes.jsonl")
    assert {row["task_id"] for row in rows if row["status"] == "infrastructure"} <= {"alpha-0"}
    return [row["reason"] for row in rows if row["status"] == "infrastructure"]


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        ("numbers", "the episode's decisions[0].scores.star is no JSON: Object of type float32"),
        ("half_a_patch", "the episode's patch cannot be written: 'utf-8' codec can't encode character '\\ud83d'"),
        ("unsendable", "the episode's events cannot be sent from its process: "),
        ("unreadable", "the episode's events cannot be sent from its process: TypeError: "),
        ("nothing", "TypeError: odd_episodes:nothing returned a NoneType, not an EpisodeResult"),
        ("leaving", "its worker died twice (status 21)"),
    ],
)
def test_what_files_or_processes_cannot_take_fails_its_episode_by_name(
    tmp_path: Path, make_plan: MakePlan, odd_episodes: ModuleType, work: str, reason: str
) -> None:
    found = reasons(tmp_path / "r", make_plan(), getattr(odd_episodes, work))
    assert len(found) == 2
    assert all(one.startswith(reason) for one in found), found


def test_half_letters_are_kept_in_ascii(tmp_path: Path, make_plan: MakePlan, odd_episodes: ModuleType) -> None:
    assert reasons(tmp_path / "r", make_plan(), odd_episodes.halves) == []
    rows = [row for row in read_rows(tmp_path / "r/episodes.jsonl") if row["task_id"] == "alpha-0"]
    assert {(row["reason"], *row["faults"]) for row in rows} == {(odd_episodes.LONE, odd_episodes.LONE)}
    assert [row["event"] for row in read_rows(tmp_path / "r/events.jsonl")] == [odd_episodes.LONE] * 2


@pytest.mark.parametrize("row", [{"a": "ü\u2028\x85"}, {"a": 1.5, "b": [None, True]}])
def test_lines_of_whole_letters_are_as_they_were(row: dict[str, object]) -> None:
    assert to_line(row) == json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def test_a_misfit_is_named_by_its_place() -> None:
    assert misfit({"a": [1, {"b": (None, {2})}]}, "x") == "x.a[1].b[1]"
    assert misfit([{(1, 2): 3}], "x") == "x[0]"
    assert misfit({"a": [1, "b", None, {1: True}]}, "x") == ""


def test_names_that_are_no_utf8_have_digests_seeds_and_files_and_others_those_that_they_had(
    tmp_path: Path, make_plan: MakePlan
) -> None:
    assert digest_of({"a": "ü"}) == "fd621823002706e24604cb868a9f4f8850d6f01fb5040d49ba050482e1472437"
    assert len({digest_of([name]) for name in ("d\udcfe", "d\udcff", "d?")}) == 3
    assert derive_seed("d\udcff") != derive_seed("d?")
    names = ["d\udcff", "d\udcfe", "d?", "d\ufffd"]
    assert len({file_name(name) for name in names}) == 4
    assert episode_folder(tmp_path, ("d\udcff", "t", 0)) == tmp_path / "episodes/d%ED%B3%BF/t/0"
    plan = make_plan(settings={"suite_options": {"data": "/d\udcff/h.jsonl"}}, tasks=(PlannedTask("t\udcff"),))
    folder = RunFolder.create(tmp_path / "r", plan, config={"suite_options": ["data=/d\udcff/h.jsonl"]})
    folder.close()
    with RunFolder.reopen(tmp_path / "r") as again:
        assert again.plan == plan
    assert to_toml({"data": "/d\udcff"}) == 'data = "/d\\\\udcff"\n'
