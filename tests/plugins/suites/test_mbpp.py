"""``mbpp``: both public layouts, the public splits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apex_framework.errors import UsageError
from apex_framework.testing import check_suite
from apex_suites.mbpp.suite import MbppSuite, split_of
from apex_workspaces.local import LocalWorkspaces

CODE = """import math
def longer(words, least):
  found = []
  for word in words:
    if len(word) > least:
      found.append(word)
  return found
"""
TESTS = [
    'assert longer(["a", "bb", "ccc"], 1) == ["bb", "ccc"]',
    'assert longer(["a", "bb"], 2) == []',
    'assert set(longer(["aaaa"], math.floor(1.5))) == {"aaaa"}',
]
ROW = {"task_id": 511, "prompt": 'Write a "function" for C:\\new words.', "code": CODE, "test_imports": ["import math"]}


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    return path


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., MbppSuite]:
    def made(data: Path) -> MbppSuite:
        return MbppSuite(data=data, cache_dir=tmp_path / "cache", workspaces=LocalWorkspaces)

    return made


def test_the_sanitized_list_keeps_the_contract(make: Callable[..., MbppSuite], tmp_path: Path) -> None:
    path = tmp_path / "sanitized-mbpp.json"
    path.write_text(json.dumps([{**ROW, "test_list": TESTS}]), encoding="utf-8")
    check_suite(lambda: make(path), sample=1)
    task = make(path).tasks("dev")[0]
    assert task.id == "mbpp-511" and task.issue.startswith("Problem with `longer`")
    assert task.files["program.py"].startswith('"""Write a \'function\' for C:')


def test_the_full_layout_brings_its_own_names(make: Callable[..., MbppSuite], tmp_path: Path) -> None:
    full = {"task_id": 601, "text": "Words.", "code": CODE.replace("\n", "\r\n"), "test_setup_code": "import math"}
    path = written(tmp_path / "mbpp.jsonl", [{**full, "test_list": TESTS[:2], "challenge_test_list": TESTS[2:]}])
    assert len(make(path).programs[0].checks) == 3
    assert [t.id for t in make(path).tasks("train")] == ["mbpp-601"]


def test_splits_are_the_public_ones() -> None:
    found = [(n, split_of(n)) for n in (1, 10, 11, 510, 511, 600, 601, 974)]
    assert [s for _, s in found] == ["train", "train", "test", "test", "dev", "dev", "train", "train"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"task_id": "511"}, "field 'task_id' must be a number"),
        ({"code": "def f(:"}, "field 'code' is no Python"),
        ({"test_list": ["assert other(1) == 1"]}, "no test calls"),
        ({"test_list": "assert longer([], 1) == []"}, "must be a list"),
        ({"prompt": None}, "must be text"),
    ],
)
def test_wrong_rows_are_told(change: dict[str, Any], told: str, make: Callable[..., MbppSuite], tmp_path: Path) -> None:
    path = written(tmp_path / "d", [{**ROW, "task_id": 512, "test_list": TESTS}, {**ROW, "test_list": TESTS, **change}])
    with pytest.raises(UsageError, match=told) as caught:
        make(path).tasks("dev")
    assert caught.value.cause.startswith(f"{path}:2: ")


def test_a_split_without_tasks_is_said_with_those_that_have_some(
    make: Callable[..., MbppSuite], tmp_path: Path
) -> None:
    path = written(tmp_path / "mbpp.jsonl", [{**ROW, "task_id": number, "test_list": TESTS} for number in (11, 601)])
    with pytest.raises(UsageError, match="no task of the split 'dev'") as caught:
        make(path).tasks("dev")
    assert caught.value.remedy == "its splits: train, test"
