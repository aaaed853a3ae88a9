"""What is said after ``plan_cache:``, as ``name=value`` separated by semicolons."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from apex_framework.errors import ConfigError

from .cache import CAPACITY, TTL_S, checked_ttl
from .question import EVIDENCE, MATCHES

MOST_PLANS: Final = 10**9
NAMES: Final = ("match", "capacity", "ttl_s", "fitted", "suite")
_FORM: Final = "plan_cache:match=evidence;capacity=1024;ttl_s=3600;fitted=FILE;suite=DIGEST"


@dataclass(frozen=True, slots=True)
class CacheSettings:
    """Settings of a plan cache; ``suite`` is the digest that ``fitted`` must have been fitted on."""

    match: str = EVIDENCE
    capacity: int = CAPACITY
    ttl_s: float = TTL_S
    fitted: Path | None = None
    suite: str = ""


def settings_of(spec: str) -> CacheSettings:
    """Settings from their text. Raises ConfigError, which says what is wrong."""
    given: dict[str, str] = {}
    for part in filter(None, (piece.strip() for piece in spec.split(";"))):
        name, equals, value = (x.strip() for x in part.partition("="))
        if name not in NAMES or not equals or not value:
            raise ConfigError(f"plan_cache: cannot read {part!r}", f"known: {', '.join(NAMES)}, as in {_FORM}")
        if name in given:
            raise ConfigError(f"plan_cache: {name} is given twice", "give it once")
        given[name] = value
    match = given.get("match", EVIDENCE)
    if match not in MATCHES:
        raise ConfigError(f"plan_cache: unknown match {match!r}", f"known: {', '.join(MATCHES)}")
    fitted, suite = given.get("fitted"), given.get("suite", "")
    if fitted and len(suite) < 12:
        raise ConfigError(
            f"plan_cache: fitted={fitted} needs the digest of the suite in use, 12 characters or more",
            "add ;suite=DIGEST (suite_digest in run.json)",
        )
    capacity = CAPACITY
    if "capacity" in given:
        text = given["capacity"]
        if not text.isdecimal() or len(text) > len(str(MOST_PLANS)) or not 1 <= int(text) <= MOST_PLANS:
            raise ConfigError(
                f"plan_cache: capacity={text[:40]} is no integer from 1 to {MOST_PLANS}", "e.g. capacity=1024"
            )
        capacity = int(text)
    try:
        ttl_s = checked_ttl(float(given.get("ttl_s", TTL_S)))
    except ValueError:
        raise ConfigError(f"plan_cache: ttl_s={given['ttl_s']} is no number", "e.g. ttl_s=3600") from None
    return CacheSettings(match, capacity, ttl_s, Path(fitted) if fitted else None, suite)
