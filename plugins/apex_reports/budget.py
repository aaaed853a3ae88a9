"""The budget proof: how much of its budget each episode used, and none more than all of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from apex_framework.analysis import Answer, EpisodeRow

from . import svg
from .figure import Figure
from .lines import Key

WIDTH, LEFT, RIGHT, ROW = 900, 190, 720, 46
BINS = 40
"""Columns from nothing to the whole budget; what is over it has one more."""


@dataclass(frozen=True, slots=True)
class Proof:
    """One arm's."""

    arm: str
    budget: int
    episodes: int
    over: int
    worst: EpisodeRow
    bins: tuple[int, ...]
    checked: int
    """Episodes whose calls are on file."""
    agreeing: int
    """Of these, the ones where the tokens of all calls come to what the episode's line says."""


def proofs(answer: Answer, spent: Mapping[Key, int]) -> tuple[Proof, ...]:
    """Of every arm with a budget and a judged episode."""
    found = []
    for name, setting in answer.run.arms.items():
        budget = setting.get("budget")
        rows = [row for row in answer.run.rows if row.arm == name and row.judged]
        if not isinstance(budget, int) or budget <= 0 or not rows:
            continue
        bins = [0] * (BINS + 1)
        for row in rows:
            bins[BINS if row.tokens > budget else min(BINS - 1, row.tokens * BINS // budget)] += 1
        told = [(row.tokens, spent[key]) for row in rows if (key := (row.arm, row.task_id, row.seed)) in spent]
        found.append(
            Proof(
                name,
                budget,
                len(rows),
                sum(row.tokens > budget for row in rows),
                max(rows, key=lambda row: row.tokens),
                tuple(bins),
                len(told),
                sum(one == other for one, other in told),
            )
        )
    return tuple(found)


def budget_figure(found: tuple[Proof, ...]) -> Figure | None:
    """None without a budget."""
    if not found:
        return None

    def x(share: float) -> float:
        return LEFT + share * (RIGHT - LEFT)

    parts = []
    for index, proof in enumerate(found):
        base = 30 + (index + 1) * ROW - 10
        most = max(proof.bins)
        step = (RIGHT - LEFT) / BINS
        parts.append(svg.text(0, base - 4, svg.short(proof.arm, 28)))
        for i, count in enumerate(proof.bins[:BINS]):
            if count:
                tall = max(1.5, count / most * (ROW - 14))
                told = f"{proof.arm}: {count} episodes used {100 * i / BINS:g} to {100 * (i + 1) / BINS:g} %"
                parts.append(svg.rect(x(i / BINS) + 0.5, base - tall, step - 1, tall, f"f{svg.colour(index)}", told))
        if proof.over:
            tall = max(1.5, proof.over / most * (ROW - 14))
            parts.append(
                svg.rect(x(1) + 3, base - tall, step, tall, "stop", f"{proof.over} episodes used more than all")
            )
        parts.append(svg.line(LEFT, base, RIGHT, base, "rule"))
        worst = proof.worst.tokens / proof.budget
        parts.append(
            svg.text(
                RIGHT + 26, base - 4, f"most {100 * worst:.1f} %, over: {proof.over}", "bad" if proof.over else "soft"
            )
        )
    bottom = 30 + len(found) * ROW - 6
    parts += [svg.text(x(tick / 100), bottom + 14, f"{tick} %", "soft", "middle") for tick in (0, 25, 50, 75, 100)]
    parts.append(svg.line(RIGHT, 18, RIGHT, bottom, "cap"))
    parts.append(svg.text(RIGHT, 12, "the whole budget", "bad", "middle"))
    return Figure(
        "budget",
        "Share of the budget that episodes used",
        "; ".join(
            f"{p.arm}: at most {100 * p.worst.tokens / p.budget:.1f} %, {p.over} of {p.episodes} over" for p in found
        ),
        "".join(parts),
        WIDTH,
        bottom + 20,
        ("arm", "budget", "from share", "to share", "episodes"),
        tuple(
            (p.arm, p.budget, i / BINS, (i + 1) / BINS if i < BINS else "more", count)
            for p in found
            for i, count in enumerate(p.bins)
            if count
        ),
        ("Height: episodes, each arm by its own tallest column.",),
    )
