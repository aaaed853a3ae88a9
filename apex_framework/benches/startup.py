"""How long a user waits for ``apex --version`` and ``apex --help``, beside Python itself and the command-line library.

Every contender is a process of its own. Rounds are interleaved, so that a slow moment hits all of them alike.
``ratio`` is against ``import click``, the least that a program with such a command line can cost.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from time import perf_counter
from typing import Any

ROUNDS = 15

CONTENDERS: dict[tuple[str, str], tuple[str, ...]] = {
    ("empty process", "python"): ("-c", "pass"),
    ("import click", "click"): ("-c", "import click"),
    ("--version", "apex"): ("-m", "apex_framework", "--version"),
    ("--help", "apex"): ("-m", "apex_framework", "--help"),
}
"""(case, contender) -> arguments of the interpreter."""

PEER = ("import click", "click")


def run(args: Any = None) -> Iterator[dict[str, object]]:
    """Rows of bench ``startup``: median wall milliseconds and ratios. ``args.n`` is the number of rounds."""
    rounds = max(1, int(getattr(args, "n", None) or ROUNDS))
    times: dict[tuple[str, str], list[float]] = {key: [] for key in CONTENDERS}
    for number in range(rounds + 1):
        for key, arguments in CONTENDERS.items():
            taken = _start(arguments)
            if number:  # the first round fills the file cache
                times[key].append(taken)
    medians = {key: statistics.median(values) for key, values in times.items()}
    for key, median in medians.items():
        yield _row(*key, "median", round(median, 2), "ms")
    for key, median in medians.items():
        if key[1] == "apex":
            yield _row(*key, "ratio to import click", round(median / medians[PEER], 3), "")


def _start(arguments: tuple[str, ...]) -> float:
    """Wall milliseconds of one process from start to end. Raises CalledProcessError when it fails."""
    environ = {**os.environ, "NO_COLOR": "1"}
    begun = perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, env=environ)
    return (perf_counter() - begun) * 1000


def _row(case: str, contender: str, metric: str, value: float, unit: str) -> dict[str, object]:
    return {"bench": "startup", "case": case, "contender": contender, "metric": metric, "value": value, "unit": unit}
