"""Whether concurrent callers can together spend more than a ceiling allows.

``check then call`` is the contender: the same four scopes and the same margin, but a call is compared with what is known
to be spent and added when it has ended. A thousand callers crowd at the edge, in virtual time, each seed another
interleaving; some calls last longer than a reservation, some never report, some report twice. The judge sums what
calls really burn, apart from both, and looks after every step. Then some calls at once in real time, on asyncio.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..testing.overspend import Contender, Judge

CALLERS, SEEDS, REAL_CALLS = 1_000, 1_000, 200

Row = dict[str, object]


def run(args: Any = None) -> Iterator[Row]:
    """Rows of bench ``overspend``. ``args.n`` callers (1,000) under ``args.seeds`` seeds (1,000) from ``args.seed`` on."""
    from ..testing.overspend import Guarded, Naive, simulate_callers

    callers = int(getattr(args, "n", None) or CALLERS)
    first, many = int(getattr(args, "seed", None) or 0), int(getattr(args, "seeds", None) or SEEDS)
    contenders: dict[str, Contender] = {"apex": Guarded, "check then call": Naive}
    for name, contender in contenders.items():
        seeds = range(first, first + many)
        judged = (simulate_callers(contender, callers=callers, seed=seed) for seed in seeds)
        yield from _rows(f"{callers:,} callers, 4 scopes, {many:,} seeds", name, judged)
    calls = min(callers, REAL_CALLS)
    for name, contender in contenders.items():
        yield from _rows(f"{calls} real calls at once", name, [asyncio.run(_at_once(contender, calls, first))])


def _rows(case: str, contender: str, judged: Iterable[Judge]) -> Iterator[Row]:
    total = runs = steps = calls = refused = wrong = exposed = 0
    share = 0.0
    for judge in judged:
        over = judge.overspent
        total += sum(over.values())
        runs += bool(over)
        share = max([share, *(tokens / judge.limits[scope] for scope, tokens in over.items())])
        exposed = max(exposed, judge.exposed)
        wrong += len(judge.wrong)
        steps, calls, refused = steps + judge.steps, calls + judge.calls, refused + judge.refused
    for metric, value, unit in (
        ("overspent, sum over scopes", total, "tokens"),
        ("runs that overspent", runs, "runs"),
        ("overspent, worst scope", round(100 * share, 2), "% of ceiling"),
        ("burned + in flight above", exposed, "tokens"),
        *([("books wrong", wrong, "steps")] if contender == "apex" else []),  # the other keeps none of calls in flight
        ("steps judged", steps, "steps"),
        ("calls made", calls, "calls"),
        ("calls refused", refused, "calls"),
    ):
        yield {
            "bench": "overspend",
            "case": case,
            "contender": contender,
            "metric": metric,
            "value": value,
            "unit": unit,
        }


async def _at_once(contender: Contender, calls: int, seed: int) -> Judge:
    """So many calls that all begin now, each a few real milliseconds long."""
    from ..interfaces import CallTags
    from ..ports import SystemClock, derive_seed
    from ..testing.overspend import ERROR, OUTPUT, PROMPT, ROLES, Judge, ceilings

    scopes = ceilings(calls)
    books, judge = contender(scopes, SystemClock()), Judge()
    rng = random.Random(derive_seed("calls at once", seed))

    async def call(number: int) -> None:
        tags = CallTags("r", f"e{number % 5}", "a", rng.choice(ROLES), 0)
        touched = [f"{scope.name}:{scope.key(tags)}" for scope in scopes]
        judge.limits.update(zip(touched, (scope.tokens for scope in scopes), strict=True))
        prompt, output = rng.randint(*PROMPT), rng.randint(*OUTPUT)
        actual, takes = prompt + rng.randint(0, output), rng.random() * 0.05
        ticket = await books.ask(tags, round(prompt * (1 + rng.uniform(-ERROR, ERROR))), output)
        if ticket is None:
            judge.refused += 1
            return
        judge.begin(touched, prompt + output)
        judge.look(touched, books)
        await asyncio.sleep(takes)
        judge.end(touched, prompt + output, actual)
        books.settle(ticket, actual)
        judge.look(touched, books)

    async with asyncio.TaskGroup() as group:
        for number in range(calls):
            group.create_task(call(number))
    return judge
