"""Ablations."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from .episodes import Episodes, imported
from .numbers import EVIDENCE, ROOT, WORDS, page_of, printed, signed, spaced, upper_bound

PLANTED = (
    ("p 0.031", "p 0.001"),
    ("chain 1, star 0", "chain 7, star 0"),
    ("both arms solve 32", "both arms solve 42"),
)
PAIRS = (
    ("bandit_v1", "cached"),
    ("bandit_v1", "prevalidated"),
    ("bandit_v1", "patient"),
    ("bandit_v1", "costly"),
    ("bandit_v1", "blind"),
    ("phase_heuristic", "shuffled"),
    ("phase_heuristic", "exact"),
    ("free", "free_star"),
    ("three", "three_star"),
    ("bandit_v1", "static_star"),
    ("seven", "seven_star"),
)
GIVEN = (
    "(CPython 3.11.7), seed 0, 10,000 tokens",
    "46 minutes on two cores",
    "`--plan` told 2,600 episodes",
    "how many of 100 tasks are of two families",
    "* What two tasks of 100 mean: nothing.",
)


def claims(home: Path) -> Iterator[str]:
    kept = imported("ablations", home)
    yield from kept.lines(page_of("ablations"))
    solved = {arm: sum(kept.solved(arm).values()) for arm in ("ten", "ten_star", "ten_chain", "ten_flat")}
    ten = kept.lift("ten", "ten_star")
    low, high = ten["low"].lstrip("+"), ten["high"].lstrip("+")
    yield (
        f"In a team of ten the bandit solves {solved['ten']} tasks and the static star {WORDS[solved['ten_star']]}"
        f" (95 % interval + {low} to + {high}; sign flips of modules p {ten['p_cluster']:.3f}, exact McNemar p {ten['p_exact']:.3f},"
    )
    assert not kept.apart("ten", "ten_flat")
    yield f"it solves the very {solved['ten']} tasks that the static flat solves"
    yield (
        f"In a team of ten flat solves {solved['ten_flat']} tasks, chain {solved['ten_chain']}, star {solved['ten_star']}; the"
    )
    free, paid = (
        [sum(kept.solved(arm).values()) for arm in arms]
        for arms in (("free", "free_star"), ("bandit_v1", "static_star"))
    )
    assert free[0] == free[1]
    yield f"with free ones both arms solve {free[0]}, at {paid[0]} and {paid[1]} with paid ones."
    tasks = len(kept.solved("ten"))
    yield f"On {tasks} tasks of `mini/dev`"
    yield f"{len({row.cluster for row in kept.rows})} modules: sign flips of whole modules"
    yield f"solves the same {solved['ten']} as flat."
    (power,) = re.findall(r"show a lift of \+([\d.]+) pp", printed("power", "--n", str(tasks), "--discordance", "0.07"))
    yield (
        f"no lift is shown with 80 % power; with 7 % of them apart one from {power} points on is (`apex power --n {tasks} --discordance 0.07`)."
    )
    most = max(kept.apart(*pair) for pair in PAIRS)
    assert "no possible lift" in printed("power", "--n", str(tasks), "--discordance", str(most / tasks))
    assert max(row.tokens or 0 for row in kept.rows) <= 10_000
    yield f"(per arm 0 of {tasks}: at most {upper_bound(tasks)} %)"
    shifted = imported("again/ablations-shifted", home)
    yield f"{_episodes('ablations', tasks) + len(shifted.rows):,} and {_episodes('ten', tasks)} episodes, none that could not be run"
    yield from _shifted(shifted)


def _episodes(plan: str, tasks: int) -> int:
    """Of all parts of a plan but those that name families, at one seed."""
    path = (ROOT / "examples" / "experiments" if plan == "ablations" else EVIDENCE / "plans") / f"{plan}.toml"
    parts = tomllib.loads(path.read_text(encoding="utf-8"))["part"]
    return sum(len(part["arms"]) * tasks for part in parts if "families" not in part)


def _shifted(kept: Episodes) -> Iterator[str]:
    assert not kept.apart("bandit_v1", "static_star")
    lift = kept.lift("bandit_v1", "static_star")
    solved, tasks = sum(kept.solved("static_star").values()), len(kept.solved("static_star"))
    points, low, high = spaced(lift["lift"]), signed(lift["low"]), spaced(lift["high"])
    yield f"{tasks} of them): bandit and star solve the same {WORDS[solved]}, {points} points ({low} to {high})."
