"""A ladder of budgets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from .episodes import Episodes, unpacked
from .numbers import listed, points, printed, signed, upper_bound

RUNGS = (5_000, 10_000, 20_000)
TEAMS = ("bandit_v1", "static_star", "phase_heuristic")
PLANTED = (
    ("30, 31 and 33 of 100", "30, 31 and 43 of 100"),
    ("2.0, 2.9 and 4.1 times", "2.0, 2.9 and 0.1 times"),
    ("(20.7 to 39.3)", "(20.7 to 38.3)"),
    ("16 / 16 / 16", "16 / 17 / 16"),
    ("10.0 points (5,000)", "3.3 points (5,000)"),
)
GIVEN = (
    "At 5,000, 10,000 and 20,000 tokens",
    "The first 100 of the sample",
    "seed 0: tasks",
    "at 10,000 tokens",
    "(CPython 3.11.7)",
    "16 minutes on two cores",
    "mean tokens, which differ by up to 2 (addresses that tests print are told as 0 since)",
    "| 5,000 | 10,000 | 20,000 |",
    "95 % band",
)


def claims(home: Path) -> Iterator[str]:
    runs = unpacked("ladder", home)
    rungs = [runs[f"ladder@{budget}"] for budget in RUNGS]
    tasks = len(rungs[0].data.tasks)
    for rung, budget in zip(rungs, RUNGS, strict=True):
        assert not any(rung.apart("bandit_v1", arm) for arm in TEAMS)
        assert max(row.tokens or 0 for row in rung.rows) <= budget
    modules = len(set(rungs[0].data.tasks.values()))
    yield f"# A ladder of budgets: {len(rungs[0].data.arms)} arms, {tasks} tasks, three rungs"
    yield f"`mini/test`, {modules} modules"
    yield f"(bootstrap over {modules} modules)"
    (team,), (single,) = ({_solved(rungs, arm) for arm in arms} for arms in (TEAMS, ("single",)))
    switches = [f"{rung.mean('bandit_v1', 'switches'):.1f}" for rung in rungs]
    yield f"solve the very same tasks: {listed(team)} of {tasks}, not one task apart, while the bandit switches {listed(switches)} times an episode."
    yield f"Four times the tokens bring {team[2] - team[0]} tasks. The single agent solves {listed(single)};"
    episodes = sum(len(rung.rows) for rung in rungs)
    assert all(row.judged for rung in rungs for row in rung.rows)
    yield f"{episodes:,} episodes, none that could not be run, none over budget (per arm and rung 0 of {tasks}: at most {upper_bound(tasks)} %)"
    yield f"Suite digest `{rungs[0].suite_digest}`"
    yield f"plan digests {', '.join(f'`{rung.digest}`' for rung in rungs)};"
    yield from _success(rungs)
    yield from _lifts(rungs)
    for row in zip(*(rung.tables["Solved per family"][2:] for rung in rungs), strict=True):
        of = int(row[0][1])
        one, alone = (" / ".join(f"{float(cells[i].split()[0]) * of / 100:.0f}" for cells in row) for i in (2, 5))
        yield f"| {row[0][0]} | {of} | {one} | {alone} |"
    families = {row[0]: row[1] for row in rungs[0].tables["Solved per family"][2:]}
    yield f"on {families['misleading_traceback']} to {families['clear_traceback']} tasks per family"
    yield f"* One seed, {tasks} tasks."
    found = [rung.tables["Paired lifts"][3][9] for rung in rungs]
    assert found[2] == "none"
    yield f"lifts from {points(found[0])} points (5,000) and {points(found[1])} points (10,000) are found with 80 % power at the spread of the modules observed, none at 20,000."


def figures(home: Path) -> dict[str, str]:
    runs = unpacked("ladder", home)
    first, *others = (runs[f"ladder@{budget}"] for budget in RUNGS)
    return {"ladder-success.svg": first.figure("success-at-budget.svg", *others)}


def _solved(rungs: Sequence[Episodes], arm: str) -> tuple[int, ...]:
    return tuple(sum(rung.solved(arm).values()) for rung in rungs)


def _success(rungs: Sequence[Episodes]) -> Iterator[str]:
    """Rows of the table of curves."""
    for curve in json.loads(printed("compare", "--json", "--curve", *(rung.run for rung in rungs)))["curves"]:
        at = [
            f"{100 * point['success']:.1f} % ({100 * point['band']['low']:.1f} to {100 * point['band']['high']:.1f})"
            for point in curve["points"]
        ]
        tokens = " / ".join(f"{point['tokens']:,.0f}" for point in curve["points"])
        yield f"| {curve['arm']} | {' | '.join(at)} | {tokens} |"


def _lifts(rungs: Sequence[Episodes]) -> Iterator[str]:
    """Rows of the table of lifts."""
    for arms in (("static_star", "phase_heuristic"), ("single",)):
        cells = []
        for rung in rungs:
            (told,) = {_lift(rung, arm, with_tasks=arms == ("single",)) for arm in arms}
            cells.append(told)
        yield f"| {', '.join(arms)} | {' | '.join(cells)} |"


def _lift(rung: Episodes, against: str, *, with_tasks: bool) -> str:
    lift = rung.lift("bandit_v1", against)
    assert lift["interval"]["low"] <= 0 <= lift["interval"]["high"]
    told = f"{lift['lift']} pp ({signed(lift['low'])} to {lift['high']})"
    return f"{told}, {lift['wins']} to {lift['losses']}" if with_tasks else told
