"""``apex explain``: what a code, a kind of failure or the reason of a denial means, and what to do about it."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import click

from .. import errors
from ..errors import ApexError, Failure, UsageError
from .context import Context
from .explanations import CODES, DENIALS, FAILURES, MEANINGS, OTHER_POLICY

INTERRUPTED = ("E0130", "Interrupted", "The program was interrupted.", 130)
"""The one code that no error class has."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """One entry of the list."""

    name: str
    """What is looked up: a code, a kind, a reason."""
    kind: str
    """``error``, ``failure`` or ``denial``."""
    title: str
    """Name of the error's class; otherwise the name again."""
    meaning: str
    causes: str
    remedy: str
    exit_status: int | None = None
    """Of a program that ends with this error."""
    cost: str = ""
    """Of a failed call: whether it was charged."""


@click.command()
@click.argument("name", required=False, metavar="[CODE|NAME]")
@click.pass_obj
def explain(context: Context, name: str | None) -> None:
    """Explain an error code (E0330), a failure of a model call (rate_limited) or the reason of a denial (tok_headroom).

    Without an argument, list them all.
    """
    known = list(everything())
    if name is None:
        context.emit([asdict(e) for e in known], listing(known))
        return
    found = look_up(name, known)
    context.emit(asdict(found), text(found))


def error_classes() -> Iterator[type[ApexError]]:
    """Every class of errors.py, by code."""
    found = [c for c in vars(errors).values() if inspect.isclass(c) and issubclass(c, ApexError)]
    return iter(sorted(found, key=lambda c: c.code))


def everything() -> Iterator[Explanation]:
    """All entries: codes, then failures, then denials."""
    entries = [(c.code, c.__name__, _first(c), c.exit_status) for c in error_classes()]
    for code, title, meaning, status in sorted([*entries, INTERRUPTED]):
        causes, remedy = CODES.get(code, ("", ""))
        yield Explanation(code, "error", title, MEANINGS.get(code, meaning), causes, remedy, status)
    for kind in Failure:
        meaning, remedy = FAILURES.get(kind.value, ("", ""))
        remedy = remedy or kind.remedy
        yield Explanation(kind.value, "failure", kind.value, meaning, "", remedy, cost=_charge(kind))
    for reason, (meaning, remedy) in DENIALS.items():
        yield Explanation(reason, "denial", reason, meaning, "", remedy)


def look_up(name: str, known: list[Explanation]) -> Explanation:
    """By code, class, kind or reason, whatever the case. Raises UsageError, with what was meant."""
    wanted = name.strip().strip("[]:").lower()
    names: dict[str, Explanation] = {}
    for entry in known:
        for other in (entry.name, entry.title, entry.name.removeprefix("policy:")):
            names.setdefault(other.lower(), entry)
    if wanted.removeprefix("error[") in names:
        return names[wanted.removeprefix("error[")]
    if wanted.startswith("policy:") and len(wanted) > len("policy:"):
        meaning, remedy = OTHER_POLICY
        return Explanation(wanted, "denial", wanted, meaning, "", remedy)
    close = difflib.get_close_matches(wanted, names, n=1)
    meant = f"did you mean {names[close[0]].name!r}? " if close else ""
    raise UsageError(f"nothing is called {name!r}", f"{meant}apex explain lists all codes and names")


def text(entry: Explanation) -> str:
    """One entry to read."""
    title = entry.name if entry.title == entry.name else f"{entry.name} {entry.title}"
    status = f", exit status {entry.exit_status}" if entry.exit_status is not None else ""
    lines = [f"{title} ({entry.kind}{status})"]
    said = (("means", entry.meaning), ("causes", entry.causes), ("cost", entry.cost), ("do", entry.remedy))
    lines += [f"  {label + ':':<7} {words}" for label, words in said if words]
    return "\n".join(lines)


def listing(known: list[Explanation]) -> str:
    """All entries, one per line."""
    parts = []
    for kind, head in (
        ("error", "Errors, as on stderr"),
        ("failure", "Failures of model calls, as in calls.jsonl"),
        ("denial", "Reasons of denials, as in calls.jsonl"),
    ):
        entries = [e for e in known if e.kind == kind]
        width = max(len(e.name) for e in entries)
        parts.append("\n".join([f"{head}:", *(f"  {e.name:<{width}}  {e.meaning}" for e in entries)]))
    return "\n\n".join(parts)


def _first(error: type[ApexError]) -> str:
    return " ".join((inspect.getdoc(error) or "").partition("\n\n")[0].replace("``", "").split())


def _charge(kind: Failure) -> str:
    if kind.retryable:
        return "nothing was charged, and the call is made again by itself"
    return "nothing was charged" if kind.free else "tokens may have been charged, so it is not made again by itself"
