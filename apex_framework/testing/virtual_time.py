"""Runs a scenario under many interleavings in virtual time, and names the seed of the one that fails."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from ..timeloop import VirtualTimeLoop, run

__all__ = ["VirtualTimeLoop", "interleavings", "run"]

T = TypeVar("T")


def interleavings(scenario: Callable[[int], Coroutine[Any, Any, T]], seeds: Iterable[int]) -> list[T]:
    """Results of ``scenario(seed)`` on a shuffling virtual-time loop per seed.

    Whatever a scenario raises carries a note with the seed that repeats it.
    """
    results = []
    for seed in seeds:
        try:
            results.append(run(scenario(seed), seed=seed, shuffle=True))
        except BaseException as error:
            error.add_note(f"repeat it with seed {seed}")
            raise
    return results
