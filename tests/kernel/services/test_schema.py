"""Arguments against the part of JSON schema that tools use; the field's name comes first in what is wrong."""

from __future__ import annotations

import pytest

from apex_framework.services.schema import problem

SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "mode": {"enum": ["fast", "full", 1]},
        "lines": {"type": "array", "items": {"type": "integer", "minimum": 1}},
        "at": {"type": "object", "properties": {"x": {"type": "number", "maximum": 9}}, "required": ["x"]},
        "note": {"type": ["string", "null"]},
        "overlay": {"type": "object", "additionalProperties": {"type": "string"}},
        "deep": {"type": "boolean"},
    },
    "required": ["path"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"mode": "fast"},
        {"mode": 1},
        {"lines": [1, 2]},
        {"lines": []},
        {"at": {"x": 1.5, "y": "free"}},
        {"note": None},
        {"note": "n"},
        {"overlay": {"a.py": "text"}},
        {"deep": False},
    ],
)
def test_what_fits_passes(more):
    assert problem({"path": "a", **more}, SCHEMA) == ""


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({}, "path: is missing"),
        ({"path": 1}, "path: must be string, not int"),
        ({"path": "a", "mode": "slow"}, "mode: must be one of 'fast', 'full', 1"),
        ({"path": "a", "mode": True}, "mode: must be one of 'fast', 'full', 1"),
        ({"path": "a", "lines": [1, "2"]}, "lines[1]: must be integer, not str"),
        ({"path": "a", "lines": [1, 0]}, "lines[1]: must be at least 1"),
        ({"path": "a", "lines": [True]}, "lines[0]: must be integer, not bool"),
        ({"path": "a", "lines": "12"}, "lines: must be array, not str"),
        ({"path": "a", "at": {}}, "at.x: is missing"),
        ({"path": "a", "at": {"x": 10}}, "at.x: must be at most 9"),
        ({"path": "a", "note": 1}, "note: must be string or null, not int"),
        ({"path": "a", "overlay": {"b": 1}}, "overlay.b: must be string, not int"),
        ({"path": "a", "deep": 1}, "deep: must be boolean, not int"),
        ({"path": "a", "pth": 1}, "pth: is not known"),
        ([], "arguments: must be object, not list"),
    ],
)
def test_what_does_not_fit_is_named(value, said):
    assert problem(value, SCHEMA) == said
