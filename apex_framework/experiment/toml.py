"""Settings written as TOML (the standard library only reads it)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def to_toml(data: Mapping[str, Any]) -> str:
    """A TOML document; lists of mappings become arrays of tables, None (TOML has none) is left out."""
    scalars = [f"{_key(k)} = {_value(v)}" for k, v in data.items() if v is not None and not _is_table(v)]
    blocks = ["\n".join(scalars)] if scalars else []
    for name, value in data.items():
        if isinstance(value, Mapping):
            blocks.append("\n".join([f"[{_key(name)}]", *_lines(value)]))
        elif _is_table(value):
            blocks += ["\n".join([f"[[{_key(name)}]]", *_lines(row)]) for row in value]
    return "\n\n".join(blocks) + "\n"


def _lines(table: Mapping[str, Any]) -> list[str]:
    return [f"{_key(k)} = {_value(v)}" for k, v in table.items() if v is not None]


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping) or (
        isinstance(value, list | tuple) and bool(value) and all(isinstance(row, Mapping) for row in value)
    )


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items() if v is not None) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item) for item in value if item is not None) + "]"
    if isinstance(value, str):
        value = value.encode("utf-8", "backslashreplace").decode()  # TOML has no word for a name that is no UTF-8
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)
