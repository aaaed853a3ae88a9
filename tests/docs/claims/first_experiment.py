"""The first experiment, and the gate before it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from .episodes import Episodes, imported, unpacked
from .gate import asked, figures_of
from .numbers import ROOT, WORDS, upper_bound

STATICS = ("static_star", "static_chain", "static_flat")
GATE_TASKS = 24
FROZEN = ROOT / "plugins" / "apex_controllers" / "policies" / "frozen.json"
PLANTED = (
    ("28.1 to 28.4 %", "28.1 to 38.4 %"),
    ("| clear_traceback | 96 | 50.0 %", "| clear_traceback | 96 | 60.0 %"),
    ("29.2 % (12.6 to 51.1)", "29.2 % (12.6 to 52.1)"),
    ("0 of 2,880", "0 of 2,890"),
)
GIVEN = (
    "at 10,000 tokens, it makes no",
    "a gain of 5 points is excluded.",
    "47 minutes on two cores",
    "what guard 6 found",
    "at most 0.06 ms at the 95th percentile",
    "| 95 % interval |",
    "random_switch:0.07",
    "the first 38 episodes with",
    "(ε = 0)",
    "(1.0 switches per episode there)",
    "| at least 15 % |",
    "| at least 5 pp |",
    "| 1 blind agents |",
    "| 2 free broadcast |",
    "| 3 renaming |",
    "| 4 frozen |",
    "| 5 hidden tests |",
    "| 6 sections, roles |",
    "| 7 null environment |",
    "false BETTER at most 5 %",
    "on the first 40 tasks of `mini/dev`",
    "functions of up to 60 lines per repair call; one function of 30 lines",
)


def claims(home: Path) -> Iterator[str]:
    (run,) = unpacked("first-experiment", home).values()
    yield from _arms(run)
    for heading in ("Arms", "Paired lifts", "Solved per family"):
        yield from run.table(heading)
    for *row, _ in run.tables["Conduct"][2:]:  # the last column is a time
        yield f"| {' | '.join(row)} |"
    yield from _gate(home)
    yield from _guards(home)


def _arms(run: Episodes) -> Iterator[str]:
    arms, tasks = list(run.data.arms), len(run.data.tasks)
    solved = {arm: run.arm(arm)[0] for arm in arms}
    teams = sorted({share for arm, share in solved.items() if arm != "single"}, key=float)
    yield f"# First experiment: {tasks} held-out tasks of `mini`"
    assert len(arms) == 9
    yield f"all eight team arms solve {teams[0]} to {teams[-1]} % of the tasks"
    yield f"A single agent with the same budget solves {solved['single']} %;"
    lifts = [run.lift("bandit_v1", arm) for arm in arms if arm != "bandit_v1"]
    assert all(lift["interval"]["low"] <= 0 <= lift["interval"]["high"] for lift in lifts)
    assert all(run.lift("bandit_v1", arm)["interval"]["high"] < 0.05 for arm in STATICS)
    modules = len(set(run.data.tasks.values()))
    yield f"over {modules} modules"
    yield f"Suite digest `{run.suite_digest}` (CPython 3.11.7; another Python makes other tasks), plan digest `{run.digest}`, one seed, {len(run.rows):,} episodes, no infrastructure failure"
    assert all(row.judged and (row.tokens or 0) <= 10_000 for row in run.rows)
    yield f"No episode spent more than its budget: 0 of {len(run.rows):,}; the one-sided 95 % bound per arm is {upper_bound(tasks)} %."
    yield f"(oracle) solves {run.oracle(*STATICS)} %"
    yield f"the bandit that ships switches {run.mean('bandit_v1', 'switches'):.2f} times"


def _gate(home: Path) -> Iterator[str]:
    """The gate of then: the first of the tasks of the later one, whose episodes are kept."""
    gate = unpacked("gate", home / "gate")
    tasks = list(gate["statics"].data.tasks)[:GATE_TASKS]
    found = asked(gate["statics"], gate["schedules"], tasks)
    yield from figures_of(found)
    yield f"| discordance, each pair of statics | 0 of {len(tasks)} tasks |"
    episodes = sum(row.task_id in tasks for part in gate.values() for row in part.rows)
    yield f"{len(tasks)} dev tasks, each static topology with three seeds, {len(gate['schedules'].data.arms)} phase schedules, {episodes} episodes."


def _guards(home: Path) -> Iterator[str]:
    files = json.loads(FROZEN.read_text(encoding="utf-8"))["files"]
    yield f"{len(files)} files unchanged since the policies were trained"
    kept = imported("first-experiment-sections", home, "mini/dev")
    solved = {arm: sum(kept.solved(arm).values()) for arm in kept.data.arms}
    yield (
        f"{len(kept.data.tasks)} tasks of `mini/dev`: solved {solved['whole']} with all sections, {solved['without_SUSPICIOUS']} without SUSPICIOUS, {solved['without_FAILING']} without FAILING,"
        f" {solved['without_TRIED']} without TRIED; **the critic is not needed**: muting it changed {WORDS[kept.apart('whole', 'mute_critic')]} of the {len(kept.data.tasks)} outcomes"
    )
