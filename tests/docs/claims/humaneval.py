"""HumanEval in its repair form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .episodes import Episodes, imported, unpacked
from .numbers import page_of, printed, registered, signed, upper_bound

STATICS = ("static_star", "static_chain", "static_flat")
PLANTED = (
    ("63.3 % | 63.3 %", "63.3 % | 93.3 %"),
    ("2 won", "9 won"),
    ("+62 to +104", "+62 to +114"),
)
GIVEN = (
    "so a gain of 5 points is ruled out",
    "Paired lifts with 95 % intervals",
    ", 164 programs)",
    "18 minutes on two cores",
    "all were 1.000 too",
    "to the single agent began at −1.1",
    "in under 30 clusters",
    "a gain of 5 points is excluded;",
    "within a margin of 5 points",
)


def claims(home: Path) -> Iterator[str]:
    kept = imported("humaneval", home)
    yield from kept.lines(page_of("humaneval"))
    yield from registered("humaneval")
    solved = kept.solved("bandit_v1")
    tasks = len({row.task_id for row in kept.rows})
    bandit, single = kept.arm("bandit_v1")[0], kept.arm("single")[0]
    yield f"# HumanEval in its repair form: six arms, {tasks} held-out tasks, two seeds"
    yield f"all {tasks} of the split that make a task"
    yield f"none: {tasks} tasks show no lift with 80 % power at 7 % discordant tasks (`apex power --n {tasks} --discordance 0.07`)"
    assert "no possible lift" in printed("power", "--n", str(tasks), "--discordance", "0.07")
    yield f"The trained bandit solves {bandit} % of {tasks} tasks ({sum(solved.values())} of {len(solved)} episodes), and"
    others = (*STATICS, "phase_heuristic")
    assert not any(kept.apart("bandit_v1", arm) for arm in others)
    yield f"the very same {len(solved)} episodes have the same outcome in all five."
    star, alone = kept.lift("bandit_v1", "static_star"), kept.lift("bandit_v1", "single", "--margin", "5")
    yield (
        f"over the best static topology is {star['lift']} points, 95 % interval {signed(star['low'])} to {star['high']}, so"
    )
    yield (
        f"over the single agent ({single} %) it is {alone['lift']}, {signed(alone['low'])} to {alone['high']}. The bandit switches"
    )
    yield f"by task: {alone['wins']} won (HumanEval-10, HumanEval-36), {alone['losses']} lost (HumanEval-98);"
    yield f"(`--margin 5`: lower bound {signed(format(100 * alone['non_inferiority']['bound'], '+.1f'))})."
    yield f"Holm p: of exact McNemar, two-sided, {len(kept.holm)} at once"
    shift = star["shift"]
    yield f"about {shift['tokens']} tokens a task more than the star (95 % interval +{shift['fewest']} to +{shift['most']};"
    known, unknown = kept.family_rows(" ".join(("bandit_v1", *others)), "single")
    yield known.replace("| known |", "known: the solver has the edit that undoes the fault |")
    yield unknown.replace("| unknown |", "unknown: it has not |")
    program = [cell.split()[0].partition(".")[0] for cell in (known.split("|")[3], unknown.split("|")[3])]
    yield f"{program[0]} % where the list holds the way back, {program[1]} % where it does not"
    yield f"* Two seeds of {tasks} tasks are {tasks} tasks, not {len(solved)}:"
    yield f"Of {len(solved)} episodes each."
    yield f"{len(kept.rows):,} episodes from an installed wheel"
    yield f"oracle static (hindsight) {kept.oracle(*STATICS)} %;"
    yield f"in hindsight has {kept.oracle(*STATICS)} %, too:"
    assert kept.tokens("static_star") == kept.tokens("static_flat")
    yield f"Star and flat use the same tokens in all {len(solved)} episodes"
    per_task = Counter(task for (task, _), success in solved.items() if success)
    both = sum(n == 2 for n in per_task.values())
    yield f"or at neither ({both} and {tasks - len(per_task)} of {tasks} for the bandit)."
    episodes = len(kept.rows)
    assert max(row.tokens or 0 for row in kept.rows) <= 10_000
    yield from _run_again(kept, unpacked("again/humaneval", home / "again"))
    yield (
        f"(0 of {len(solved)} per arm: at most {upper_bound(len(solved))} %; 0 of {episodes:,}: at most {upper_bound(episodes)} %,"
    )


def figures(home: Path) -> dict[str, str]:
    return {"humaneval-forest.svg": imported("humaneval", home).figure("forest.svg")}


def _run_again(kept: Episodes, runs: dict[str, Episodes]) -> Iterator[str]:
    """Once more with later code: the same outcomes, and what an import has no place for."""
    again, dev = runs["humaneval"], runs["dev"]
    arms = list(kept.data.arms)
    for arm in arms:
        assert again.solved(arm) == kept.solved(arm)
        assert again.tokens(arm) == kept.tokens(arm)
    yield f"outcomes of all {len(again.rows):,} came out the same, tokens included."
    yield f"The bandit switches {again.mean('bandit_v1', 'switches'):.1f} times an episode for it."
    ended = {arm: Counter(_ending(record) for record in again.records if record["arm"] == arm) for arm in arms}
    teams = [arm for arm in arms if arm != "single"]
    assert all(ended[arm] == ended[teams[0]] for arm in teams)
    team, single = ended[teams[0]], ended["single"]
    for how in team:
        yield f"| {how} | {team[how]} | {single[how]} |"
    unsolved = sum(team.values()) - team["solved"]
    yield f"has nothing left to try ({team['nothing left to look at']} of {unsolved}), not for want of tokens ({team['no budget for another repair']})"
    four = {frozenset(row.task_id for row in dev.rows if row.arm == arm and row.success) for arm in teams}
    (same,) = four
    alone = sum(dev.solved("single").values())
    yield f"On dev the teams solve the same {len(same)} of {len(dev.data.tasks)} tasks and the single agent {alone}."


def _ending(record: dict[str, Any]) -> str:
    if record["success"]:
        return "solved"
    return "visible tests pass, hidden ones do not" if record["overfit"] else str(record["reason"])
