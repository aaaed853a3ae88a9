"""Arguments against a JSON schema: the part of it that tools need, checked without a dependency.

Known: type, required, properties, additionalProperties, items, enum, minimum, maximum. As in JSON schema,
keywords that are not known restrict nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (Mapping,),
    "array": (list, tuple),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}

_EXACT: Final[Mapping[str, frozenset[type]]] = {
    "object": frozenset({dict}),
    "array": frozenset({list, tuple}),
    "string": frozenset({str}),
    "integer": frozenset({int}),
    "number": frozenset({int, float}),
    "boolean": frozenset({bool}),
    "null": frozenset({type(None)}),
}
_RESTRICTING: Final = frozenset(
    {"type", "required", "properties", "additionalProperties", "items", "enum", "minimum", "maximum"}
)


class Schema:
    """A schema of arguments that is asked often: what plainly fits is let pass without a walk through the schema."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = {"type": "object", **schema}
        parts, required = schema.get("properties", {}), schema.get("required", ())
        # What is malformed here is for ``problem`` to fail on, when it is asked.
        well = isinstance(parts, Mapping) and isinstance(required, list | tuple)
        self._plain = well and self._schema["type"] == "object" and "enum" not in schema
        self._required = tuple(required) if well else ()
        self._types = {name: found for name, part in parts.items() if (found := _only_types(part))} if well else {}

    def problem(self, value: Any) -> str:
        """What is wrong with arguments, as ``problem`` says it; empty when nothing is."""
        return "" if self._fits(value) else problem(value, self._schema)

    def _fits(self, value: Any) -> bool:
        if not self._plain or type(value) is not dict:
            return False
        for name in self._required:
            if name not in value:
                return False
        types, fits = self._types, True
        for name, part in value.items():  # a loop: every call of a tool comes here
            fits = fits and name in types and type(part) in types[name]
        return fits


def _only_types(schema: Any) -> frozenset[type]:
    """Types of what fits a schema that asks for nothing else; none when it does."""
    if not isinstance(schema, Mapping) or schema.keys() & _RESTRICTING != {"type"}:
        return frozenset()
    kind = schema["type"]
    return _EXACT.get(kind, frozenset()) if isinstance(kind, str) else frozenset()


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
