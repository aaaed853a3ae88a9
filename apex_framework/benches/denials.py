"""Whether a controller learns from denials: refused calls / (calls made + refused) on ``mini/train``, over the episodes.

``bandit_v1`` is trained on the path of ``apex train``, from nothing, one policy per lap over the tasks. The contenders
differ in what a refusal costs:

* ``penalty``: a refused token as much as a spent one (deny -1), credited to earlier decisions, too (deny_credit 1);
* ``as shipped``: the default coefficients, deny -0.1 to the decision before the refusal only;
* ``no penalty``: deny 0, the control;
* ``random``: uniform exploration, which learns but never acts on it; two windows suffice for its rate.

Beside them stand the static topologies on the same tasks: they say whether there is anything to learn. From 200 episodes
per contender on they are measured for several team sizes and budgets; below, for the setting in which is learned.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from ..episode.arm import Arm
from ..episode.episode import run_episode
from ..errors import RunFolderError, UsageError
from ..experiment.planning import make_plan
from ..experiment.train import Trainer, Training
from ..interfaces import EpisodeJob, EpisodeResult, Executor
from ..plugins import Plugins, load_plugins
from .denials_figure import Line, figure

TASKS = 12
WINDOW = 48
"""Episodes over which a rate is taken: whole laps over the tasks, so that tasks do not move it, only actions do."""
EPISODES = 24
GRID_FROM = 200
TEAM, BUDGET = 10, 3_000
"""Where is learned: the setting with room between the static topologies."""
TEAMS, BUDGETS = (5, 7, 10), (1_500, 3_000, 6_000)
STATICS = ("star", "chain", "flat")
STATIC = "static "
LEARNS = {"policy": "none", "epsilon_decisions": 1_000}
CONTENDERS: Mapping[str, Mapping[str, Any]] = {
    "penalty": {**LEARNS, "reward": {"deny": -1.0, "deny_credit": 1.0}},
    "as shipped": LEARNS,
    "no penalty": {**LEARNS, "reward": {"deny": 0.0}},
    "random": {**LEARNS, "epsilon_start": 1.0, "epsilon_end": 1.0},
}
KEPT = ("status", "success", "steps", "calls", "denied", "denied_tokens", "budget", "topologies")
"""What of an episode's record the rows are made of."""

Row = dict[str, object]
Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """Episodes of one contender under one seed, in their order, or of a static topology in one setting."""

    contender: str
    seed: int
    team: int
    budget: int
    episodes: Sequence[Record]
    """``KEPT`` of each; of a static topology's also ``again``: refusals of an agent that had been refused before."""

    @property
    def topology(self) -> str:
        """The static one; empty for a contender that learns."""
        return self.contender.removeprefix(STATIC) if self.contender.startswith(STATIC) else ""


def run(args: Any = None) -> Iterator[Row]:
    """Rows of bench ``denials``. ``args.n`` episodes per contender and seed; ``args.out`` for the figure and the episodes.

    Raises UsageError for fewer than two laps over the tasks.
    """
    episodes = int(getattr(args, "n", None) or EPISODES)
    seed, seeds = int(getattr(args, "seed", None) or 0), int(getattr(args, "seeds", None) or 1)
    out: Path | None = getattr(args, "out", None)
    if episodes < 2 * TASKS:
        raise UsageError(f"bench denials with {episodes} episodes", f"at least {2 * TASKS}: two laps over its tasks")
    parts: list[Part] = []
    with contextlib.ExitStack() as stack:
        bench = Bench(load_plugins(), stack, TASKS)
        yield from rows(_heard(bench.parts(episodes, range(seed, seed + seeds)), parts))
    if out is not None:
        _write(out / "denials.svg", drawn(parts))
        _write(out / "denials.episodes.jsonl", "".join(json.dumps(asdict(part)) + "\n" for part in parts))


def read_parts(lines: Iterable[str]) -> list[Part]:
    """What ``run`` wrote as ``denials.episodes.jsonl``."""
    return [Part(**json.loads(line)) for line in lines]


def rows(parts: Iterable[Part]) -> Iterator[Row]:
    """All rows of the bench, each as soon as its episodes are there; parts of a contender stand together."""
    for name, group in groupby(parts, key=lambda part: part.contender):
        curves = []
        for part in group:
            if part.topology:
                yield from static_rows(part)
                continue
            curves.append(curve(part))
            first, last = curves[-1][0][1], curves[-1][-1][1]
            yield _curve_row(name, f"seed {part.seed}", "first window", first) | {"curve": curves[-1]}
            yield _curve_row(name, f"seed {part.seed}", "last window", last) | _conduct(part.episodes)
        if curves:
            changes = [one[-1][1] - one[0][1] for one in curves]
            said = {"least": round(min(changes), 4), "greatest": round(max(changes), 4)}
            yield _curve_row(name, "all seeds", "change, mean", sum(changes) / len(changes)) | said


def drawn(parts: Sequence[Part]) -> str:
    """The figure: every contender's curve, and what static topologies are refused where it learns."""
    last = max(len(part.episodes) for part in parts)
    lines: list[Line] = []
    for name, group in groupby(parts, key=lambda part: part.contender):
        here = [part for part in group if (part.team, part.budget) == (TEAM, BUDGET)]
        if here and here[0].topology:
            rate = deny_rate(here[0].episodes)
            lines.append(Line(name, [(1, [rate]), (last, [rate])]))
        elif here:
            curves = [curve(part) for part in here]
            lines.append(Line(name, [(at[0][0], [rate for _, rate in at]) for at in zip(*curves, strict=True)]))
    return figure(lines, f"Deny rate, team of {TEAM}, {BUDGET:,} tokens, mini/train")


def _heard(parts: Iterable[Part], into: list[Part]) -> Iterator[Part]:
    for part in parts:
        into.append(part)
        yield part


@dataclass
class Ear:
    """An executor that keeps the records of what another one runs."""

    executor: Executor
    records: list[Record]

    @property
    def name(self) -> str:
        """That of the other one."""
        return self.executor.name

    def run(
        self, jobs: Iterable[EpisodeJob], work: Callable[[EpisodeJob], EpisodeResult], *, workers: int
    ) -> Iterator[EpisodeResult]:
        """One result per job."""
        for result in self.executor.run(jobs, work, workers=workers):
            self.records.append(result.record)
            yield result


class Bench:
    """The tasks, and one warm worker for all episodes."""

    def __init__(self, plugins: Plugins, stack: contextlib.ExitStack, tasks: int, suite: str = "mini") -> None:
        self._plugins, self._tasks, self._suite = plugins, tasks, suite
        self._executor: Executor = plugins.catalog.make("executor", "local")
        if isinstance(self._executor, contextlib.AbstractContextManager):
            stack.enter_context(self._executor)

    def parts(self, episodes: int, seeds: Sequence[int]) -> Iterator[Part]:
        """Static topologies, in one setting or, of a long bench, in all; then every contender with each seed."""
        grid = [(team, budget) for team in TEAMS for budget in BUDGETS] if episodes >= GRID_FROM else [(TEAM, BUDGET)]
        for team, budget in grid:
            for topology in STATICS:
                yield self.static(topology, team, budget)
        for name in CONTENDERS:
            for seed in seeds:
                yield self.trained(
                    name, TEAM, BUDGET, min(episodes, 2 * WINDOW) if name == "random" else episodes, seed
                )

    def static(self, topology: str, team: int, budget: int) -> Part:
        """One episode per task under one topology."""
        arm = Arm(topology, team_size=team, controller=f"static:{topology}", budget=budget)
        plan = make_plan(self._plugins, [arm], suite=self._suite, split="train", limit=self._tasks)
        results = sorted(self._executor.run(plan.jobs(), run_episode, workers=1), key=lambda result: result.index)
        kept = [{**_kept(result.record), "again": repeated(result.calls)} for result in results]
        return Part(STATIC + topology, 0, team, budget, kept)

    def trained(self, name: str, team: int, budget: int, episodes: int, seed: int) -> Part:
        """A training of ``bandit_v1`` from nothing, one policy per lap, in the order of the plan."""
        arm = Arm("learner", team_size=team, controller="bandit_v1", controller_options=CONTENDERS[name], budget=budget)
        plan = make_plan(self._plugins, [arm], suite=self._suite, split="train", limit=self._tasks, seed=seed)
        tasks = tuple(task.id for task in plan.tasks)
        training = Training(arm, tasks, episodes, seed, round=len(tasks), run=next(plan.jobs()).run)
        ear = Ear(self._executor, [])
        for _ in Trainer(training, self._plugins.catalog, ear, run_episode).rounds():
            pass
        return Part(name, seed, team, budget, [_kept(record) for record in ear.records])


def deny_rate(records: Iterable[Record]) -> float:
    """Refused calls / (calls made + refused); 0 where nothing was asked for. Broken episodes do not count."""
    counted = [record for record in records if record["status"] != "infrastructure"]
    refused = sum(int(record["denied"]) for record in counted)
    asked = refused + sum(int(record["calls"]) for record in counted)
    return refused / asked if asked else 0.0


def windows(records: Sequence[Record], width: int, step: int) -> list[tuple[int, float]]:
    """(last episode, deny rate) of windows of ``width`` episodes, ``step`` apart; the last one ends with the records."""
    ends = range(len(records), width - 1, -step)
    return [(end, round(deny_rate(records[end - width : end]), 4)) for end in reversed(ends)]


def curve(part: Part) -> list[tuple[int, float]]:
    """Deny rates of a training's windows, a lap apart; short trainings have windows of half their length."""
    return windows(part.episodes, min(WINDOW, len(part.episodes) // 2), TASKS)


def repeated(calls: Sequence[Record]) -> int:
    """Refusals of an agent that had been refused before in the same episode."""
    refused = [str(call["agent_id"]) for call in calls if call["event"] == "CallDenied"]
    return len(refused) - len(set(refused))


def static_rows(part: Part) -> Iterator[Row]:
    """What a static topology is refused."""
    case = f"team of {part.team}, {part.budget:,} tokens"
    refused, again = (sum(episode[what] for episode in part.episodes) for what in ("denied", "again"))
    yield _row(case, part.topology, "deny rate", deny_rate(part.episodes)) | _conduct(part.episodes)
    yield _row(case, part.topology, "refused again", again / refused if refused else 0.0)


def _kept(record: Record) -> Row:
    return {key: record[key] for key in KEPT if key in record}


def _conduct(records: Sequence[Record]) -> Row:
    count = len(records)
    steps = sum(int(record["steps"]) for record in records) or 1
    shares = {
        name: round(sum(int(record.get("topologies", {}).get(name, 0)) for record in records) / steps, 3)
        for name in STATICS
    }
    return {
        "episodes": count,
        "calls": round(sum(int(record["calls"]) for record in records) / count, 2),
        "refused": round(sum(int(record["denied"]) for record in records) / count, 2),
        "refused_of_budget": round(
            sum(int(record["denied_tokens"]) / int(record["budget"]) for record in records) / count, 3
        ),
        "solved": round(sum(bool(record["success"]) for record in records) / count, 3),
        "infrastructure": sum(record["status"] == "infrastructure" for record in records),
        "steps_in": shares,
    }


def _curve_row(contender: str, case: str, metric: str, value: float) -> Row:
    return _row(f"learning, {case}", contender, f"deny rate, {metric}", value)


def _row(case: str, contender: str, metric: str, value: float) -> Row:
    return {
        "bench": "denials",
        "case": case,
        "contender": contender,
        "metric": metric,
        "value": round(value, 4),
        "unit": "",
    }


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RunFolderError(f"cannot write {path}: {error.strerror}", "choose another --out") from error
