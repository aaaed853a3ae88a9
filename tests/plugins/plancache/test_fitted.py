"""Plans from a file: served like others, and refused when they were fitted on anything else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from prompts_of_a_team import ANSWER, KEY, Door, locate

from apex_framework.errors import ArtifactError
from apex_plancache.cache import PLAN_VERSION
from apex_plancache.fitted import read_fitted
from apex_plancache.interceptor import PlanCacheInterceptor
from apex_plancache.question import asked
from apex_plancache.settings import CacheSettings

DIGEST = "0123456789abcdef"


def fitted(path: Path, **other: Any) -> Path:
    """A file of one plan, which answers ``locate()``."""
    found = asked(locate(), "planner", KEY)
    assert found is not None
    plan = {"repo_id": KEY.repo_id, "issue_cluster": KEY.issue_cluster, "phase": KEY.phase, "role": "planner"}
    plan |= {"question": found.question.digest, "steps": ANSWER.splitlines()}
    data = {"version": PLAN_VERSION, "suite_digest": DIGEST, "split": "train", "match": "evidence", "plans": [plan]}
    file = path / "plans.json"
    file.write_text(json.dumps({**data, **other}))
    return file


def test_a_fitted_plan_is_served_from_the_first_call_on(tmp_path: Path) -> None:
    settings = CacheSettings(fitted=fitted(tmp_path), suite=DIGEST[:12])
    door = Door(PlanCacheInterceptor(settings))
    assert door.ask(locate()).text == ANSWER
    assert door.calls == [] and door.told == ["hit"]
    door.ask(locate(issue="Another issue"))
    assert len(door.calls) == 1


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"version": "0/grammar-1"}, "version"),
        ({"version": None}, "version"),
        ({"split": "dev"}, "split"),
        ({"match": "key"}, "match"),
        ({"suite_digest": "fedcba9876543210"}, "fitted on suite"),
        ({"suite_digest": ""}, "fitted on suite"),
        ({"plans": {}}, "list of plans"),
        ({"plans": [{}]}, "repo_id"),
        ({"plans": [7]}, "lacks or garbles"),
    ],
)
def test_a_file_of_another_origin_is_refused_in_one_line(tmp_path: Path, other: dict[str, Any], said: str) -> None:
    file = fitted(tmp_path, **other)
    with pytest.raises(ArtifactError, match=said) as caught:
        read_fitted(file, DIGEST, "evidence")
    assert "\n" not in str(caught.value) and str(file) in str(caught.value)
    assert "--fit" in caught.value.remedy


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "[" * 100_000], ids=["empty", "torn", "list", "number", "deep"])
def test_a_damaged_file_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "plans.json"
    file.write_text(text)
    with pytest.raises(ArtifactError, match=r"plans\.json"):
        PlanCacheInterceptor(CacheSettings(fitted=file, suite=DIGEST))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="cannot read"):
        PlanCacheInterceptor(CacheSettings(fitted=tmp_path / "none.json", suite=DIGEST))
