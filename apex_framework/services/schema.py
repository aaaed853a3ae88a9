"""Arguments against a JSON schema: the part of it that tools need, checked without a dependency.

Known: type, required, properties, additionalProperties, items, enum, minimum, maximum. As in JSON schema,
keywords that are not known restrict nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (Mapping,),
    "array": (list, tuple),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def problem(value: Any, schema: Mapping[str, Any], path: str = "") -> str:
    """What is wrong with a value, beginning with the field's name (``a.b[2]``); empty when nothing is."""
    at = path or "arguments"
    kinds = schema.get("type")
    names = [kinds] if isinstance(kinds, str) else list(kinds or ())
    if names and not any(_is(value, name) for name in names):
        return f"{at}: must be {' or '.join(names)}, not {type(value).__name__}"
    if "enum" in schema and not any(value == e and type(value) is type(e) for e in schema["enum"]):
        return f"{at}: must be one of {', '.join(map(repr, schema['enum']))}"
    if _is(value, "number"):
        if "minimum" in schema and value < schema["minimum"]:
            return f"{at}: must be at least {schema['minimum']}"
        if "maximum" in schema and value > schema["maximum"]:
            return f"{at}: must be at most {schema['maximum']}"
    if isinstance(value, Mapping):
        return _object_problem(value, schema, path)
    if _is(value, "array") and isinstance(items := schema.get("items"), Mapping):
        for i, item in enumerate(value):
            if found := problem(item, items, f"{path}[{i}]"):
                return found
    return ""


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, _TYPES.get(name, ()))


def _object_problem(value: Mapping[str, Any], schema: Mapping[str, Any], path: str) -> str:
    prefix = f"{path}." if path else ""
    properties: Mapping[str, Any] = schema.get("properties", {})
    extra = schema.get("additionalProperties", True)
    for name in schema.get("required", ()):
        if name not in value:
            return f"{prefix}{name}: is missing"
    for name, part in value.items():
        rule = properties.get(name, extra)
        if rule is False:
            return f"{prefix}{name}: is not known"
        if isinstance(rule, Mapping) and (found := problem(part, rule, f"{prefix}{name}")):
            return found
    return ""
