"""Options of exporters as they are written behind the name: ``prometheus:port=9464;format=openmetrics``."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from apex_framework.errors import ConfigError


def read_options(exporter: str, spec: str, known: Mapping[str, str]) -> dict[str, str]:
    """Option -> text, over the defaults in ``known``. Raises ConfigError for one that is unknown or without a value."""
    found = dict(known)
    for part in filter(None, (part.strip() for part in spec.split(";"))):
        name, equals, value = (text.strip() for text in part.partition("="))
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            remedy = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
            raise ConfigError(f"exporter {exporter!r} takes no option {name!r}", remedy)
        if not equals or not value:
            raise ConfigError(f"exporter {exporter!r}: option {name!r} has no value", f"write {name}=VALUE")
        found[name] = value
    return found


def number(exporter: str, name: str, text: str, low: float, high: float) -> float:
    """A number between two bounds. Raises ConfigError."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        raise ConfigError(f"exporter {exporter!r}: {name}={text} is not between {low:g} and {high:g}")
    return value
