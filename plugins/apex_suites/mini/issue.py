"""Issue texts, made from failing behaviour: what was called, what should come out, what came out. Never the fault."""

from __future__ import annotations

from collections.abc import Sequence

from apex_framework.ports import rng

from .inputs import Case
from .laboratory import Failure
from .plan import TWO_SITE, WEAK

CLIPPED = 160

OPENINGS = (
    "A call does not do what it should.",
    "This used to work and does not any more.",
    "I get an unexpected result.",
    "Found while using the library:",
)
WEAK_TEXTS = (
    "Something is wrong in the area of {area}: some results are not what they should be.",
    "Since the last change, results around {area} cannot be trusted in some cases. I have no small example.",
    "Users report odd behaviour in {area}. It only happens for some inputs.",
)


def issue_text(source: str, family: str, shown: Sequence[tuple[Case, Failure]], salt: str) -> str:
    """The report: one failing call, two for a two-site fault, only the area for a weak one."""
    draw = rng(salt, source, "issue", shown[0][0].expression)
    area = f"`{shown[0][0].called}` ({source})"
    if family == WEAK:
        return draw.choice(WEAK_TEXTS).format(area=area)
    parts = [f"Problem with {area}", "", draw.choice(OPENINGS)]
    for case, failure in shown[: 2 if family == TWO_SITE else 1]:
        parts += ["", behaviour(case, failure)]
    return "\n".join(parts)


def behaviour(case: Case, failure: Failure) -> str:
    """One call, expected and observed."""
    if case.mode in ("raises", "named"):
        expected = f"should raise {case.expected}"
    else:
        expected = f"should give {clip(case.expected)}"
    observed = f"raises {clip(failure.got)}" if failure.kind == "raise" else f"gives {clip(failure.got)}"
    return f"    {case.expression}\n\n{expected}, but {observed}."


def clip(text: str) -> str:
    """A text cut in its middle when it is long."""
    return text if len(text) <= CLIPPED else f"{text[: CLIPPED // 2]} ... {text[-CLIPPED // 2 :]}"
