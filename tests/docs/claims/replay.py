"""Replay of recorded systems."""

from __future__ import annotations

import csv
import importlib.util
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from apex_framework.analysis import EpisodeRow

from .episodes import Episodes, imported
from .numbers import ROOT, signed

FIRST = "20241220_blackboxai_agent_v1"
OTHERS = (
    "20241208_gru",
    "20241127_globant_codefixer_agent",
    "20241122_devlo",
    "20241207_kodu_sonnet_v1",
    "20240702_codestory_aide_mixed",
)
LIKE = "gpt4o$"
SEEDS = range(10)
PLANTED = (
    ("147 of 300", "247 of 300"),
    ("about 2,449 tasks", "about 2,149 tasks"),
    ("47 of the 53", "48 of the 53"),
    ("+8.3 pp (0.0, 20.3)", "+8.3 pp (0.0, 30.3)"),
    ("45.0 to 49.0 %", "45.0 to 59.0 %"),
    ("34,129 tokens", "54,129 tokens"),
)
GIVEN = ("95 % interval", "no worse by 2 points?", "less than the 5 that the gate wants")


def claims(home: Path) -> Iterator[str]:
    systems = imported("replay-systems", home, "swebench_lite/test")
    yield from _compared(systems)
    yield from _chosen(systems)
    yield from _runs(imported("replay-runs", home, "swebench_lite/test"), systems)


def figures(home: Path) -> dict[str, str]:
    return {"replay-forest.svg": imported("replay-systems", home, "swebench_lite/test").figure("forest.svg")}


def _compared(systems: Episodes) -> Iterator[str]:
    arms = list(systems.data.arms)
    tasks, sizes = len(systems.data.tasks), Counter(systems.data.tasks.values())
    yield f"{len(arms)} systems on {tasks} tasks, and three runs each of two systems."
    yield f"the {len(arms)} systems whose totals equal the leaderboard, {len(systems.rows):,} verdicts"
    (_, most), (_, next_most) = sizes.most_common(2)
    yield f"Clusters are the {len(sizes)} repositories (the largest has {most} of {tasks} tasks)"
    yield f"{len(sizes)} repositories, {most + next_most} of the {tasks} tasks in two of them: few independent units"
    yield f"sign flips of {len(sizes)} repositories p"
    yield f"## Can {tasks} tasks tell systems apart?"
    assert arms[0] == FIRST
    yield f"The system with most solved tasks ({sum(systems.solved(FIRST).values())} of {tasks}) against each other one."
    for arm in OTHERS:
        lift = systems.lift(FIRST, arm, "--margin", "2")
        answer = lift["non_inferiority"]
        verdict = (
            "yes" if answer["word"] == "NON-INFERIOR" else f"not certifiable; about {answer['tasks_needed']:,} tasks"
        )
        yield (
            f"| {arm} | {lift['lift']} | {signed(lift['low'])} to {lift['high']} | {lift['wins']} | {lift['losses']}"
            f" | {lift['p_exact']:.3f} | {lift['p_cluster']:.3f} | {verdict} |"
        )
    lows = [float(row["low"]) for row in csv.DictReader(systems.figure("forest.csv").splitlines())]
    assert len(lows) == len(arms) - 1
    yield f"{sum(low > 0 for low in lows)} of the {len(lows)} lower bounds are above zero"


def _chosen(systems: Episodes) -> Iterator[str]:
    """Rows of the table of choices."""
    every = [_study(systems.rows, "", seed) for seed in SEEDS]
    like = [_study(systems.rows, LIKE, seed) for seed in SEEDS]
    both = (every, like)
    assert len(like[0]["arms"]) == 10
    yield f"| | {len(every[0]['arms'])} systems | the ten of GPT-4o |"
    yield _row("best one", *(f"{100 * max(of[0]['arms'].values()):.1f} %" for of in both))
    yield _row("any of them (oracle)", *(f"{100 * of[0]['oracle_of_all']:.1f} %" for of in both))
    yield _row(
        "discordance, median of all pairs (least, most)",
        *("{median:.1f} % ({least:.1f}, {most:.1f})".format(**_percent(of[0]["discordance"])) for of in both),
    )
    yield _row(
        "oracle of three over the best of the three, median (least, most)",
        *(
            "{median:+.1f} pp ({least:.1f}, {most:.1f})".format(**_percent(of[0]["oracle_of_three_over_their_best"]))
            for of in both
        ),
    )
    yield _row("selector by repository, ten folds, seeds 0 to 9", *(f"{_range(of, 'selector')} %" for of in both))
    yield _row("one system for all, same folds", *(f"{_range(of, 'one_for_all')} %" for of in both))
    lifts = [[100 * found["lift"].estimate for found in of] for of in both]
    yield _row("lift of the selector", *(signed(f"{min(of):+.1f} to {max(of):+.1f} pp") for of in lifts))
    spans = [[found["lift"].interval for found in of] for of in both]
    assert all(span.low < 0 < span.high for span in spans[0])
    assert {round(100 * span.high, 1) for span in spans[1]} == {0.0}
    yield _row("95 % intervals of these", "all hold zero", "upper ends at 0.0")


def _runs(runs: Episodes, systems: Episodes) -> Iterator[str]:
    attempts = Counter(row.arm for row in runs.rows)
    untold = [row for row in runs.rows if not row.judged]
    assert {row.arm for row in untold} == {"swe-agent"}
    acr, swe = (_study(runs.rows, arm, 0) for arm in ("acr", "swe-agent"))
    yield f"both GPT-4, {len(runs.rows):,} verdicts and their tokens"
    yield (
        f"SWE-agent published no trace for {len(untold)} of {attempts['swe-agent']} attempts: not judged, for all three runs"
        f" {swe['tasks']} tasks are left."
    )
    lift = runs.lift("acr", "swe-agent")
    shift = {key: f"{abs(int(value)):,}" for key, value in lift["shift"].items()}
    yield (
        f"AutoCodeRover against SWE-agent, three runs each: {lift['lift']} points ({lift['low']} to {lift['high']}), {lift['wins']} wins,"
        f" {lift['losses']} losses, {lift['tasks']} tasks, and {shift['tokens']} tokens less per task ({shift['most']} to {shift['fewest']})."
    )
    best, more = acr["luck"]["acr"], swe["luck"]["swe-agent"]
    gain = {name: 100 * (luck["any"] - luck["best_attempt"]) for name, luck in (("acr", best), ("swe", more))}
    yield (
        f"AutoCodeRover's best run of three solved {best['best_attempt'] * acr['tasks']:.0f} of {acr['tasks']} tasks, any of its three runs"
        f" {best['any'] * acr['tasks']:.0f}: {gain['acr']:+.1f} points from trying again. SWE-agent: {100 * more['best_attempt']:.1f} % in its best"
        f" run of three, {100 * more['any']:.1f} % in any ({swe['tasks']} tasks): {gain['swe']:+.1f}."
    )
    three = 100 * _study(systems.rows, LIKE, 0)["oracle_of_three_over_their_best"]["median"]
    yield f"So of the {three:+.1f} points that an oracle of three GPT-4o systems has over their best, about {three - gain['acr']:.0f} are more"
    yield f"an oracle of three adds {three:.1f} points to the best of the three, and three tries of one system add {gain['acr']:.1f} to its best one;"


@cache
def _selection() -> Any:
    spec = importlib.util.spec_from_file_location("selection", ROOT / "examples" / "selection.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _study(rows: Sequence[EpisodeRow], among: str, seed: int) -> dict[str, Any]:
    return dict(_selection().study(rows, among, seed))


def _percent(spread: dict[str, float]) -> dict[str, float]:
    return {name: 100 * value for name, value in spread.items()}


def _range(studies: list[dict[str, Any]], what: str) -> str:
    """``45.0 to 49.0``; the number alone where it is always the same."""
    values = sorted({f"{100 * found[what]:.1f}" for found in studies}, key=float)
    return " to ".join(values[:: max(1, len(values) - 1)])


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
