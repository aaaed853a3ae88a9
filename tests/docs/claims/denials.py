"""Learning from denials."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from apex_framework.benches.denials import BUDGET, STATICS, TEAM, Part, curve, deny_rate, drawn, read_parts, rows

from .numbers import DATA, listed, signed

PLANTED = (
    ("54.7 → 50.6 %", "54.7 → 40.6 %"),
    ("by 4.0 points on average", "by 9.0 points on average"),
    ("27 to 58 %", "27 to 59 %"),
    ("| 7 | 6,000 | 28.7 %", "| 7 | 6,000 | 38.7 %"),
)
GIVEN = (
    "12 tasks of `mini/train`",
    "ε from 0.2 to 0.05 over 1,000 decisions",
    "10 minutes of processor time on a shared two-core x86-64 machine, CPython 3.11.7",
    "(24 episodes, one seed)",
    "| seed 0 | seed 1 | seed 2 |",
    "The topology of decision 0 never",
    "decision 0 then scores exactly",
    "at 3,000 tokens a team of ten",
    "five agents at 10,000 tokens",
    "trials with seed 0 on 16 tasks, of which nothing is kept: with deny −1 and no credit",
    "At 6,000 tokens with seven agents it did not fall",
)
CHARGES = {
    "penalty": "deny −1, deny_credit 1",
    "as shipped": "deny −0.1, deny_credit 0",
    "no penalty": "deny 0",
    "random": "never acts on what it learns",
}


def claims(home: Path) -> Iterator[str]:
    parts = _parts()
    learned: dict[str, list[Part]] = {}
    static: dict[tuple[int, int], dict[str, Part]] = {}
    for part in parts:
        if part.topology:
            static.setdefault((part.team, part.budget), {})[part.topology] = part
        else:
            learned.setdefault(part.contender, []).append(part)
    told = {(row["case"], row["contender"], row["metric"]): row for row in rows(parts)}
    yield from _episodes(parts, learned)
    yield from _learned(learned)
    best = min(deny_rate(part.episodes) for part in static[TEAM, BUDGET].values())
    yield from _shapes(learned, best)
    yield from _static(static, told)
    five = [[deny_rate(part.episodes) for part in of.values()] for (team, _), of in static.items() if team == 5]
    yield f"With five agents the topologies are within {100 * max(max(rates) - min(rates) for rates in five):.1f} points of each other."
    assert not any(episode["success"] for part in static[TEAM, BUDGET].values() for episode in part.episodes)


def figures(home: Path) -> dict[str, str]:
    return {"denials.svg": drawn(_parts())}


def _parts() -> list[Part]:
    with gzip.open(DATA / "denials.jsonl.gz", "rt", encoding="utf-8") as lines:
        return read_parts(lines)


def _episodes(parts: Sequence[Part], learned: Mapping[str, Sequence[Part]]) -> Iterator[str]:
    learning = sum(len(part.episodes) for of in learned.values() for part in of)
    others = sum(len(part.episodes) for part in parts if part.topology)
    assert not any(episode["status"] == "infrastructure" for part in parts for episode in part.episodes)
    penalty, random = (len(learned[name][0].episodes) for name in ("penalty", "random"))
    yield f"team of {TEAM}, {BUDGET:,} tokens per episode, seeds 0, 1 and 2, {penalty} episodes each (random: {random})"
    yield f"{learning:,} episodes of learning and {others} of static topologies, no infrastructure failure"
    first, last = curve(learned["penalty"][0])[0][0], penalty
    yield f"First window: episodes 1 to {first}; last: {last - first + 1} to {last} (random: {random - first + 1} to {random})."


def _learned(learned: Mapping[str, Sequence[Part]]) -> Iterator[str]:
    ends: dict[str, list[tuple[float, float]]] = {}
    for name, of in learned.items():
        ends[name] = [(curve(part)[0][1], curve(part)[-1][1]) for part in of]
        cells = [f"{100 * first:.1f} → {100 * last:.1f} %" for first, last in ends[name]]
        change = _change(ends[name])
        shown = f"**{signed(f'{change:.1f}')}**" if change < 0 else f"+ {change:.1f}"
        yield f"| {name} | {CHARGES[name]} | {' | '.join(cells)} | {shown} |"
    falls = [last < first for first, last in ends["penalty"]]
    assert all(falls) and len(falls) == 3
    yield f"falls on `mini/train` in three of three seeds, by {-_change(ends['penalty']):.1f} points on average"
    yield f"change it by + {_change(ends['as shipped']):.1f} points."
    last = {name: 100 * sum(end for _, end in of) / len(of) for name, of in ends.items()}
    yield (
        f"The last window of the penalised learner is {last['penalty']:.1f} % on average, {last['random'] - last['penalty']:.1f} points below random"
        f" exploration and {last['no penalty'] - last['penalty']:.1f} below no penalty."
    )


def _shapes(learned: Mapping[str, Sequence[Part]], best: float) -> Iterator[str]:
    """Where the penalised learners and those without a penalty went."""
    penalty, free = ([_shares(part) for part in learned[name]] for name in ("penalty", "no penalty"))
    last = [rate for _, rate in curve(learned["penalty"][2])]
    assert last[-1] < best
    yield (
        f"seed 2 was at {100 * last[0]:.1f} % within its first window, rose to {100 * max(last):.1f} % and fell to {100 * last[-1]:.1f} %, below the best"
        f" static topology, with chain in {100 * penalty[2]['chain']:.0f} % of its steps; the others went to flat"
        f" ({100 * penalty[0]['flat']:.0f} and {100 * penalty[1]['flat']:.0f} %)."
    )
    chain = listed([f"{100 * shares['chain']:.0f}" for shares in free])
    yield f"Without a penalty the share of chain grows ({chain} % of the steps)"


def _shares(part: Part) -> dict[str, float]:
    """Topology -> share of the steps."""
    steps = sum(int(episode["steps"]) for episode in part.episodes)
    return {name: sum(episode["topologies"].get(name, 0) for episode in part.episodes) / steps for name in STATICS}


def _change(ends: Sequence[tuple[float, float]]) -> float:
    """Mean over seeds, in points."""
    return 100 * sum(last - first for first, last in ends) / len(ends)


def _static(
    static: Mapping[tuple[int, int], Mapping[str, Part]],
    told: Mapping[tuple[object, object, object], Mapping[str, object]],
) -> Iterator[str]:
    again, table = [], []
    for (team, budget), of in static.items():
        case = f"team of {team}, {budget:,} tokens"
        rates = [f"{100 * float(str(told[case, name, 'deny rate']['value'])):.1f} %" for name in of]
        refused = ", ".join(f"{float(str(told[case, name, 'deny rate']['refused'])):.1f}" for name in of)
        again += [float(str(told[case, name, "refused again"]["value"])) for name in of]
        cells = [str(team), f"{budget:,}", *rates]
        if (team, budget) == (TEAM, BUDGET):
            cells = [f"**{cell}**" for cell in cells]
        table.append(f"| {' | '.join(cells)} | {refused} |")
    yield " ".join(table)
    yield f"{100 * min(again):.0f} to {100 * max(again):.0f} % of them go to an agent that was refused before"
