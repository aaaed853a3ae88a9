"""What asking for a call's budget and settling it costs, over two and over four scopes at once.

``counter`` is the limit: one integer per scope, compared and added to, with no reservation, no record and nothing to
undo. The difference is what two phases, all-or-nothing over all scopes, and a history that can be replayed cost.
``in a log`` each step is also written to a file before it takes effect, without waiting for the disk.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..budget import Ledger

ROUNDS = 20_000
WARM_UP = 200
SCOPES = (2, 4)
TOKENS = 100


def run(args: Any = None) -> Iterator[dict[str, object]]:
    """Rows of bench ``budget``: p50 and p95 in microseconds. ``args.n`` is the number of calls."""
    rounds = max(1, int(getattr(args, "n", None) or ROUNDS))
    contenders: list[tuple[str, str, Callable[[int, int], list[int]]]] = [
        ("apex", "", _apex),
        ("apex", ", in a log", _logged),
        ("counter", "", _counter),
    ]
    for scopes in SCOPES:
        for contender, how, measure in contenders:
            ordered = sorted(measure(rounds, scopes))
            for metric, share in (("p50", 0.50), ("p95", 0.95)):
                value = ordered[min(len(ordered) - 1, int(share * len(ordered)))] / 1_000
                yield {
                    "bench": "budget",
                    "case": f"reserve and settle, {scopes} scopes{how}",
                    "contender": contender,
                    "metric": metric,
                    "value": round(value, 3),
                    "unit": "us",
                }


class _Scope:
    """A ceiling that is never reached, nested in the scope before it."""

    def __init__(self, number: int) -> None:
        self.name = f"scope{number}"
        self.parent = f"scope{number - 1}" if number else None

    def key(self, tags: Any) -> str:
        return str(tags.episode_id)

    def limits(self, tags: Any) -> Any:
        from ..interfaces import Limits

        return Limits(tags.token_budget)


def _apex(rounds: int, scopes: int) -> list[int]:
    from ..budget import Ledger

    return _measure(Ledger(), rounds, scopes)


def _logged(rounds: int, scopes: int) -> list[int]:
    from ..budget import open_ledger

    with tempfile.TemporaryDirectory() as folder:
        ledger = open_ledger(Path(folder) / "ledger.jsonl")
        try:
            return _measure(ledger, rounds, scopes)
        finally:
            ledger.close()


def _measure(ledger: Ledger, rounds: int, scopes: int) -> list[int]:
    from ..budget import Grant, Guard
    from ..interfaces import CallTags
    from ..ports import SystemClock

    total = rounds + WARM_UP
    guard = Guard(ledger, [_Scope(number) for number in range(scopes)], clock=SystemClock())
    tags = CallTags("bench", "episode", "coder", "coder", token_budget=total * TOKENS)
    taken = []
    for number in range(total):
        begun = perf_counter_ns()
        grant = guard.reserve(tags, TOKENS)
        assert isinstance(grant, Grant)
        guard.settle(grant.id, TOKENS)
        ended = perf_counter_ns()
        if number >= WARM_UP:
            taken.append(ended - begun)
    return taken


def _counter(rounds: int, scopes: int) -> list[int]:
    total = rounds + WARM_UP
    limits, used = [total * TOKENS] * scopes, [0] * scopes
    taken = []
    for number in range(total):
        begun = perf_counter_ns()
        if all(used[scope] + TOKENS <= limits[scope] for scope in range(scopes)):
            for scope in range(scopes):
                used[scope] += TOKENS
        ended = perf_counter_ns()
        if number >= WARM_UP:
            taken.append(ended - begun)
    return taken
