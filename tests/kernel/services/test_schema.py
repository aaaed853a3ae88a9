"""Arguments against the part of JSON schema that tools use; the field's name comes first in what is wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apex_framework.services.schema import Schema, problem

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


# --- the short way ------------------------------------------------------------------------------

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.floats(allow_nan=False) | st.sampled_from(["", "a", "fast"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
KINDS = st.sampled_from(["object", "array", "string", "integer", "number", "boolean", "null", "no such type"])
PARTS = st.fixed_dictionaries(
    {},
    optional={
        "type": KINDS | st.lists(KINDS, max_size=2),
        "enum": st.just(["fast", 1]),
        "minimum": st.just(3),
        "items": st.just({"type": "integer"}),
        "required": st.just(["a"]),
        "description": st.just("words"),
    },
)
SCHEMAS = st.fixed_dictionaries(
    {"properties": st.dictionaries(st.sampled_from("abc"), PARTS, max_size=3)},
    optional={
        "type": st.sampled_from(["object", "array"]),
        "required": st.lists(st.sampled_from("abc"), max_size=2),
        "additionalProperties": st.booleans() | PARTS,
        "enum": st.just([{}]),
    },
)


@given(SCHEMAS, st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4))
def test_the_short_way_says_what_the_long_one_says(schema, value):
    assert Schema(schema).problem(value) == problem(value, {"type": "object", **schema})


@pytest.mark.parametrize(
    "planted", [{"_required": ()}, {"_types": dict.fromkeys("ab", frozenset({str, int}))}], ids=["required", "types"]
)
def test_planted_a_short_way_that_overlooks_something_shows(planted):
    schema = {"properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a", "b"]}
    short = Schema(schema)
    for name, value in planted.items():
        setattr(short, name, value)
    values = [{"a": "x"}, {"a": "x", "b": "y"}, {"a": 1, "b": 1}]
    assert [short.problem(value) for value in values] != [problem(value, schema) for value in values]


@pytest.mark.parametrize("malformed", [{"properties": None}, {"properties": [1]}, {"required": 7}, {"type": 3}])
def test_a_malformed_schema_fails_the_call_not_the_door(malformed):
    short = Schema(malformed)
    with pytest.raises((AttributeError, TypeError)):
        short.problem({"a": 1})
