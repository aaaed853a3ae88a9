"""Lists of counts in options."""

from __future__ import annotations

from ..errors import UsageError


def counts_of(option: str, text: str) -> tuple[int, ...]:
    """Increasing numbers of tasks, as in ``100,300,500``. Raises UsageError."""
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or any(later <= earlier for earlier, later in zip((0, *found), found, strict=False)):
        raise UsageError(f"{option} {text!r}: not increasing numbers of tasks", f"e.g. {option} 100,300,500")
    if found[-1] > 100_000:
        raise UsageError(f"{option} {text!r}: more tasks than any suite has", f"e.g. {option} 100,300,500")
    return found
