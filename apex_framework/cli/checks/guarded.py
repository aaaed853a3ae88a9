"""A check that raises or hangs is a finding, too; and no finding shows a secret."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Final, TypeVar

from ...errors import ApexError
from ...interfaces import Finding, Grade
from ...services.bounded import bounded
from ...timelimit import TimeLimitExceeded, time_limit

T = TypeVar("T")

LIMIT_S: Final = 30.0
"""Seconds that one check may take."""
_LONGEST: Final = 240
"""Characters of one text in the table."""
_SECRET_NAMES: Final = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
_SECRET_SHAPES: Final = re.compile(
    r"\b(?:sk|pk|rk|ghp|gho|github_pat|glpat|hf|xox[abprs])[-_][A-Za-z0-9_-]{12,}|\bAKIA[A-Z0-9]{12,}"
    r"|(?i:\bbearer\s+)[A-Za-z0-9._~+/=-]{8,}|(?<=://)[^/\s@]+@"
)


def findings(what: str, check: Callable[[], Iterable[Finding]], limit_s: float = LIMIT_S) -> Iterator[Finding]:
    """What a check finds; what it raises, or that it hangs, is a finding on ``what``."""
    try:
        with time_limit(limit_s):
            found = list(check())
    except TimeLimitExceeded:
        found = [hangs(what, limit_s)]
    except Exception as error:  # noqa: BLE001 - the edge of a check: whatever it meets is told in a line
        found = [failed(what, error)]
    for finding in found:
        yield cleaned(finding)


def within(limit_s: float, work: Callable[[], Awaitable[T]]) -> T:
    """The result of a stranger's coroutine on a loop of its own. Raises TimeLimitExceeded when it takes longer."""

    async def limited() -> T:
        async with asyncio.timeout(limit_s) as timer:
            try:
                return await bounded(work())
            except Exception:
                if timer.expired():
                    raise TimeLimitExceeded from None
                raise

    with time_limit(limit_s + 1.0):  # for one that does not let the loop turn
        try:
            return asyncio.run(limited())
        except TimeoutError as error:
            raise TimeLimitExceeded from error


def failed(what: str, error: Exception) -> Finding:
    """The finding that an error is."""
    if isinstance(error, ApexError):
        return Finding(what, Grade.FAIL, error.cause, error.remedy or f"see: apex explain {error.code}")
    return Finding(what, Grade.FAIL, f"the check fails: {type(error).__name__}: {error}", "report this to its author")


def hangs(what: str, limit_s: float) -> Finding:
    """The finding that a hang is."""
    return Finding(what, Grade.FAIL, f"no answer after {limit_s:g} s", "see what it waits for, or leave it out")


def cleaned(finding: Finding) -> Finding:
    """The same in short printable lines and without what is or looks like a secret."""
    return Finding(_line(finding.what), finding.grade, _line(finding.found), _line(finding.remedy))


def masked(text: str, environ: Mapping[str, str] | None = None) -> str:
    """A text without values of variables that are named like secrets, and without what has the shape of one."""
    found = os.environ if environ is None else environ
    secrets = {value for name, value in found.items() if len(value) >= 6 and _SECRET_NAMES.search(name)}
    for value in sorted(secrets, key=len, reverse=True):
        text = text.replace(value, "***")
    return _SECRET_SHAPES.sub("***", text)


def _line(text: object) -> str:
    shown = "".join(c if c.isprintable() else " " for c in str(text))
    shown = masked(" ".join(shown.split()))
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"
