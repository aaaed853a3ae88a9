"""Plans that were fitted on a train split, in a file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from apex_framework.errors import ArtifactError
from apex_framework.interfaces import PlanKey

from .cache import PLAN_VERSION, AgentPlan
from .question import ASKS, Question

REMEDY = "fit it again: python -m apex_framework.scripts.run_plan_cache_eval --fit FILE"


def read_fitted(path: Path, suite: str, match: str) -> tuple[tuple[Question, AgentPlan], ...]:
    """The plans of a file. Raises ArtifactError for one that is damaged, or of another form, suite, split or match."""
    try:
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise ArtifactError(f"plan_cache: cannot read {path}: {error.strerror}", REMEDY) from error
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"plan_cache: {path} is not JSON", REMEDY) from error
    if not isinstance(data, dict):
        raise ArtifactError(f"plan_cache: {path} is no file of plans", REMEDY)
    wanted = {"version": PLAN_VERSION, "split": "train", "match": match}
    for name, value in wanted.items():
        if data.get(name) != value:
            raise ArtifactError(f"plan_cache: {path} has {name} {data.get(name)!r}, not {value!r}", REMEDY)
    digest = str(data.get("suite_digest", ""))
    if not digest or not digest.startswith(suite):
        raise ArtifactError(f"plan_cache: {path} was fitted on suite {digest[:12]!r}, not {suite[:12]!r}", REMEDY)
    try:
        return tuple(_plans(data["plans"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(f"plan_cache: a plan in {path} lacks or garbles {error}", REMEDY) from error


def _plans(rows: object) -> Iterator[tuple[Question, AgentPlan]]:
    if not isinstance(rows, list):
        raise ValueError("the list of plans")
    for row in rows:
        key = PlanKey(*(_text(row[name], name) for name in ("repo_id", "issue_cluster", "phase")))
        role, question, steps = _text(row["role"], "role"), _text(row["question"], "question"), row["steps"]
        if role not in ASKS or not isinstance(steps, list) or not steps:
            raise ValueError(f"its role or its steps ({role})")
        yield Question(key, role, question), AgentPlan(tuple(_text(step, "a step") for step in steps))


def _text(value: object, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(what)
    return value
