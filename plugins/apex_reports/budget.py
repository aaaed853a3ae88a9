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
    most: int
    """Tokens of the episode that used most."""
    worst: EpisodeRow
    bins: tuple[int, ...]
    checked: int
    """Episodes whose calls are on file."""
    agreeing: int
    """Of these, the ones where the tokens of all calls come to what the episode's line says."""


def proofs(answer: Answer, spent: Mapping[Key, int]) -> tuple[Proof, ...]:
    """Of every arm with a budget and judged episodes that all tell their tokens."""
    found = []
    for name, setting in answer.run.arms.items():
        budget = setting.get("budget")
        if not isinstance(budget, int) or budget <= 0:
            continue
        rows = [row for row in answer.run.rows if row.arm == name and row.watched(budget)]
        used = [row.tokens for row in rows if row.tokens is not None]
        if not any(row.judged for row in rows) or len(used) < len(rows):
            continue
        bins = [0] * (BINS + 1)
        for tokens in used:
            bins[BINS if tokens > budget else min(BINS - 1, tokens * BINS // budget)] += 1
        told = [(row.tokens, spent[key]) for row in rows if (key := (row.arm, row.task_id, row.seed)) in spent]
        found.append(
            Proof(
                name,
                budget,
                len(rows),
                sum(tokens > budget for tokens in used),
                max(used),
                rows[used.index(max(used))],
                tuple(bins),
                len(told),
                sum(one == other for one, other in told),
            )
        )
    return tuple(found)


def budget_figure(found: tuple[Proof, ...], colours: Mapping[str, int]) -> Figure | None:
    """None without a budget."""
    if not found:
        return None

    def x(share: float) -> float:
        return LEFT + share * (RIGHT - LEFT)

    parts = []
    for index, proof in enumerate(found):
        colour = f"f{colours.get(proof.arm, svg.colour(index))}"
        base = 30 + (index + 1) * ROW - 10
        most = max(proof.bins)
        step = (RIGHT - LEFT) / BINS
        parts.append(svg.text(0, base - 4, svg.short(proof.arm, 28)))
        for i, count in enumerate(proof.bins[:BINS]):
            if count:
                tall = max(1.5, count / most * (ROW - 14))
                told = f"{proof.arm}: {count} episodes used {100 * i / BINS:g} to {100 * (i + 1) / BINS:g} %"
                parts.append(svg.rect(x(i / BINS) + 0.5, base - tall, step - 1, tall, colour, told))
        if proof.over:
            tall = max(1.5, proof.over / most * (ROW - 14))
            parts.append(
                svg.rect(x(1) + 3, base - tall, step, tall, "stop", f"{proof.over} episodes used more than all")
            )
        parts.append(svg.line(LEFT, base, RIGHT, base, "rule"))
        worst = proof.most / proof.budget
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
        "; ".join(f"{p.arm}: at most {100 * p.most / p.budget:.1f} %, {p.over} of {p.episodes} over" for p in found),
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
