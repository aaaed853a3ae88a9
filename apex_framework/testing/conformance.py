"""The frame of every conformance kit: named checks, all of them run, one error that names what failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping


class ConformanceError(AssertionError):
    """A plugin breaks its contract: ``kind``, the first failing ``check`` and its ``detail``; ``failed`` lists all."""

    def __init__(self, kind: str, check: str, detail: str, failed: tuple[str, ...] = ()) -> None:
        super().__init__(f"{kind}: {check}: {detail}")
        self.kind = kind
        self.check = check
        self.detail = detail
        self.failed = failed or (check,)


def run_checks(kind: str, checks: Mapping[str, Callable[[], None]]) -> None:
    """Run every check, whatever the others say. Raises ConformanceError for the first that fails.

    A check fails by raising any exception; cancellation, interruption and exit pass through.
    """
    failures: dict[str, Exception] = {}
    for name, check in checks.items():
        try:
            check()
        except Exception as error:  # noqa: BLE001 - the kit's edge: whatever a plugin raises is its failure
            failures[name] = error
    if failures:
        first, cause = next(iter(failures.items()))
        detail = str(cause) if isinstance(cause, AssertionError) and str(cause) else f"{type(cause).__name__}: {cause}"
        raise ConformanceError(kind, first, detail, tuple(failures)) from cause
