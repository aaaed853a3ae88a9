"""The plan: how many tasks, of which family and vocabulary, in which order. Fixed before anything is generated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from apex_framework.ports import rng

SIZES = {"train": 240, "dev": 128, "test": 320}
"""Tasks per split."""

CLUSTER_SHARE = 0.05
"""Largest share of the test split that one module may have."""

CLEAR = "clear_traceback"
MISLEADING = "misleading_traceback"
TWO_SITE = "two_site"
CROSS_FILE = "cross_file"
WEAK = "weak_issue"

WEIGHTS = {CLEAR: 6, MISLEADING: 4, TWO_SITE: 3, CROSS_FILE: 3, WEAK: 4}
"""Slots of each family in a block of twenty: 30, 20, 15, 15 and 20 %."""

OUTSIDE = 7
"""Slots in a block of twenty whose fault the embedded solver has no operator for: 35 %."""


@dataclass(frozen=True, slots=True)
class Slot:
    """What the next task should be like."""

    number: int
    family: str
    in_vocabulary: bool


def slots(split: str, salt: str) -> Iterator[Slot]:
    """Slots without end; every block of twenty holds the weights exactly, so every prefix nearly does."""
    number = 0
    block = 0
    while True:
        draw = rng(salt, split, "plan", block)
        families = [family for family, count in WEIGHTS.items() for _ in range(count)]
        outside = [n < OUTSIDE for n in range(len(families))]
        draw.shuffle(families)
        draw.shuffle(outside)
        for family, out in zip(families, outside, strict=True):
            yield Slot(number, family, not out)
            number += 1
        block += 1


def cap(split: str) -> int:
    """The most tasks of one module."""
    return int(SIZES[split] * CLUSTER_SHARE) if split == "test" else SIZES[split] // 6
