"""The committed reference is what the sources say, and names the columns that an episode really has."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

from apex_framework.episode import record
from apex_framework.scripts.reference import EPISODE_COLUMNS, page

ROOT = Path(__file__).parents[2]


def test_the_committed_reference_is_up_to_date() -> None:
    committed = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    assert committed == page(), "python -m apex_framework.scripts.reference --out docs/reference.md"


def test_columns_of_an_episode_are_all_explained() -> None:
    tree = ast.parse(inspect.getsource(record.episode_line))
    line = max((node for node in ast.walk(tree) if isinstance(node, ast.Dict)), key=lambda d: len(d.keys))
    columns = {key.value for key in line.keys if isinstance(key, ast.Constant)}
    assert columns | {"wall_ms"} == set(EPISODE_COLUMNS)
