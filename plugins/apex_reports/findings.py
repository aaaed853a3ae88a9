"""Everything on the page, found in the run folders once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os.path import isfile  # unlike Path's, false for a name that no disk can hold
from pathlib import Path
from shlex import quote

from apex_framework.analysis import Answer, EpisodeRow, answer_of, merge_runs, read_run
from apex_framework.analysis.rungs import apart_by_budget

from . import switching
from .account import Told
from .budget import Proof, budget_figure, proofs
from .chosen import chosen
from .colours import arm_colours
from .content import Content, content_from
from .curve import curve
from .figure import Figure
from .flips import flips
from .forest import forest
from .lines import Key, run_facts, trace_path
from .observed import Observed, observe
from .timeline import Shown, timeline
from .trace import read_trace


@dataclass(frozen=True, slots=True)
class Episode:
    """An episode with its timeline."""

    row: EpisodeRow
    why: str
    shown: Shown
    figure: Figure


@dataclass(frozen=True, slots=True)
class Findings:
    """What all sections of the page draw on."""

    answer: Answer
    content: Content
    told: tuple[Told, ...]
    rungs: int
    """Of these, runs at other budgets than the first, which the curve alone shows."""
    observed: Observed
    proofs: tuple[Proof, ...]
    forest: Figure | None
    curve: Figure | None
    flips: tuple[Figure, tuple[tuple[str, ...], ...]] | None
    when: Figure | None
    budget: Figure | None
    episodes: tuple[Episode, ...]

    @property
    def figures(self) -> tuple[Figure, ...]:
        """All that there are."""
        single = (self.forest, self.curve, self.flips and self.flips[0], self.when, self.budget)
        return (*(figure for figure in single if figure is not None), *(e.figure for e in self.episodes))


def find(runs: Sequence[Path], best_static: str = "") -> Findings:
    """Read run folders. Raises ArtifactError, NotComparableError."""
    told = tuple(Told(run, run_facts(run)) for run in runs)
    named, (read, rungs) = runs, apart_by_budget([read_run(run) for run in runs])
    runs = [run.path for run in read]
    answer = answer_of(merge_runs(read), best_static=best_static)  # its latencies are those of observe, read once
    given = f" --best-static {quote(best_static)}" if best_static else ""
    picked = chosen(answer)
    observed = observe(runs, picked)
    found = proofs(answer, observed.spent)
    return Findings(
        answer=answer,
        content=content_from(answer, named, rungs, " --format html --out report.html" + given),
        told=told,
        rungs=len(rungs),
        observed=observed,
        proofs=found,
        forest=forest(answer),
        curve=curve(answer, rungs),
        flips=flips(answer),
        when=switching.when(answer, observed),
        budget=budget_figure(found, arm_colours(answer)),
        episodes=tuple(_episodes(answer, observed, picked, runs)),
    )


def _episodes(answer: Answer, observed: Observed, picked: dict[Key, str], runs: Sequence[Path]) -> list[Episode]:
    rows = {(row.arm, row.task_id, row.seed): row for row in answer.run.rows}
    found: list[Episode] = []
    for key, why in picked.items():
        path = next((path for run in runs if isfile(path := trace_path(run, key))), None)
        if path is None:
            continue
        trace = read_trace(path, observed.roles.get(key, {}))
        if not trace.hops:
            continue
        setting = answer.run.arms.get(key[0], {})
        decisions = observed.decisions.get(key, [])
        count = max((len(d.features) for d in decisions), default=0)
        topologies = tuple(str(name) for name in setting.get("topologies") or ())
        names = switching.feature_names(setting, count)
        counted = rows[key].switches + rows[key].aborted
        shown = Shown(key, trace, decisions, observed.switches.get(key, []), topologies, names, counted)
        found.append(Episode(rows[key], why, shown, timeline(f"timeline-{len(found) + 1}", shown)))
    return found
