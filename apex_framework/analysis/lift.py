"""Paired lift of one arm over another, by task, with its uncertainty."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

from ..errors import NotComparableError
from .episodes import EpisodeRow, require_one_digest
from .intervals import Interval, newcombe_paired
from .mcnemar import mcnemar_exact, mcnemar_mid_p
from .power import MOST, detectable_by_error, detectable_lift, tasks_needed
from .resampling import FEW_CLUSTERS, all_alike, bears_bound, mean_error, mean_interval, sign_flip_interval, sign_flip_p


@dataclass(frozen=True, slots=True)
class PairedTask:
    """Success of two arms on one task, averaged over the seeds that both were judged on."""

    task_id: str
    cluster: str
    family: str
    ours: float
    theirs: float


@dataclass(frozen=True, slots=True)
class Pairing:
    """Two arms on the same tasks and seeds."""

    arm: str
    against: str
    tasks: tuple[PairedTask, ...]
    planned_pairs: int
    """(task, seed) pairs that both arms have."""
    judged_pairs: int
    """Of these, the ones where neither failed for infrastructure."""


@dataclass(frozen=True, slots=True)
class Lift:
    """Success of ``arm`` minus that of ``against``; all rates are shares, 0.1 is 10 percentage points."""

    arm: str
    against: str
    estimate: float
    interval: Interval
    tasks: int
    clusters: int
    planned_pairs: int
    judged_pairs: int
    wins: int
    """Tasks on which ``arm`` did better."""
    losses: int
    p_exact: float
    """McNemar; over tasks, so exact for one seed and a sign test for several. Tasks independent."""
    p_mid: float
    p_cluster: float
    """Sign flips of whole clusters."""
    detectable: float | None
    """Smallest lift that so many tasks show with 80 % power at the interval's level, as ``detectable_method`` says; None
    where the arms differ on too few tasks or clusters to show any."""

    @property
    def p(self) -> float:
        """The p-value to correct and to conclude from: ``p_cluster`` where clusters hold several tasks, else ``p_exact``."""
        return self.p_cluster if self.clusters < self.tasks else self.p_exact

    @property
    def test(self) -> str:
        """The name of the test that ``p`` is of."""
        return f"sign flips of {self.clusters} clusters" if self.clusters < self.tasks else "exact McNemar"

    @property
    def discordance(self) -> float:
        """Share of tasks on which the arms differ."""
        return (self.wins + self.losses) / self.tasks

    @property
    def several_seeds(self) -> bool:
        """Whether a task has more than one judged pair: then its difference is a mean, and not only -1, 0 or 1."""
        return self.judged_pairs > self.tasks

    @property
    def detectable_method(self) -> str:
        """What ``detectable`` comes from."""
        clustered = self.clusters < self.tasks
        spread = (
            f"the spread of the means of {self.clusters} clusters" if clustered else "the spread of the tasks' means"
        )
        if self.several_seeds:
            return spread
        return f"McNemar mid-p at the observed discordance{f', or {spread}, the larger' if clustered else ''}"

    def tasks_needed(self, lift: float) -> int | None:
        """About how many tasks of this spread (these seeds, clusters of this size) show ``lift`` with 80 % power.

        None where this run cannot tell, and where 20,000 are not enough.
        """
        alone = None if self.several_seeds else tasks_needed(lift, self.discordance)
        if self.detectable is None or not (self.several_seeds or self.clusters < self.tasks):
            return alone
        needed = max(alone or 0, ceil(self.tasks * (self.detectable / lift) ** 2))
        return needed if needed <= MOST else None


def pair(rows: Iterable[EpisodeRow], arm: str, against: str, *, partial: bool = False) -> Pairing:
    """Pair two arms by (task, seed).

    Raises NotComparableError for mixed suite digests, for an arm without episodes, and, unless ``partial``, when one
    arm has episodes that the other lacks.
    """
    rows = [row for row in rows if row.arm in (arm, against)]
    require_one_digest(rows)
    mine = {(row.task_id, row.seed): row for row in rows if row.arm == arm}
    theirs = {(row.task_id, row.seed): row for row in rows if row.arm == against}
    for name, found in ((arm, mine), (against, theirs)):
        if not found:
            raise NotComparableError(f"no episodes of the arm {name!r}", f"known: {_names(rows)}")
    if not partial and mine.keys() != theirs.keys():
        odd = sorted(mine.keys() ^ theirs.keys())
        raise NotComparableError(
            f"{len(odd)} episodes of {arm!r} and {against!r} have no partner, the first of task {odd[0][0]!r}, seed {odd[0][1]}",
            "run both arms on the same tasks and seeds, or finish the run: apex resume",
        )
    keys = [key for key in mine if key in theirs]
    judged = [key for key in keys if mine[key].judged and theirs[key].judged]
    by_task: dict[str, list[tuple[str, int]]] = {}
    for key in judged:
        by_task.setdefault(key[0], []).append(key)
    tasks = tuple(
        PairedTask(
            task,
            mine[seeds[0]].cluster,
            mine[seeds[0]].family,
            sum(mine[k].success for k in seeds) / len(seeds),
            sum(theirs[k].success for k in seeds) / len(seeds),
        )
        for task, seeds in sorted(by_task.items())
    )
    return Pairing(arm, against, tasks, len(keys), len(judged))


def estimate_lift(pairing: Pairing, *, seed: int = 0, confidence: float = 0.95) -> Lift:
    """Lift with interval and tests. Raises NotComparableError when no pair was judged."""
    tasks = pairing.tasks
    if not tasks:
        raise NotComparableError(
            f"no task on which both {pairing.arm!r} and {pairing.against!r} were judged", "run more episodes"
        )
    differences = [t.ours - t.theirs for t in tasks]
    clusters = [t.cluster for t in tasks]
    wins, losses = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    return Lift(
        arm=pairing.arm,
        against=pairing.against,
        estimate=sum(differences) / len(tasks),
        interval=_interval(tasks, differences, clusters, seed, confidence),
        tasks=len(tasks),
        clusters=len(set(clusters)),
        planned_pairs=pairing.planned_pairs,
        judged_pairs=pairing.judged_pairs,
        wins=wins,
        losses=losses,
        p_exact=mcnemar_exact(wins, losses),
        p_mid=mcnemar_mid_p(wins, losses),
        p_cluster=sign_flip_p(differences, clusters, seed=seed),
        detectable=_detectable(differences, clusters, pairing.judged_pairs > len(tasks), 1 - confidence),
    )


def lift_between(rows: Iterable[EpisodeRow], arm: str, against: str, *, seed: int = 0, partial: bool = False) -> Lift:
    """``pair`` and ``estimate_lift`` in one."""
    return estimate_lift(pair(rows, arm, against, partial=partial), seed=seed)


def _detectable(differences: Sequence[float], clusters: Sequence[str], seeds: bool, alpha: float) -> float | None:
    """McNemar's test knows differences of -1, 0 and 1 of independent tasks; means over seeds and clusters have a spread instead."""
    alone = detectable_lift(len(differences), sum(d != 0 for d in differences) / len(differences), alpha=alpha)
    groups = len(set(clusters))
    if not seeds and (alone is None or groups == len(differences)):
        return alone
    differing = len({cluster for cluster, d in zip(clusters, differences, strict=True) if d})
    if not bears_bound(differing, 1 - alpha) or not (error := mean_error(differences, clusters)):
        return None
    spread = detectable_by_error(error, groups, alpha=alpha)
    return spread if seeds or alone is None else max(spread, alone)


def _interval(
    tasks: Sequence[PairedTask], differences: Sequence[float], clusters: Sequence[str], seed: int, confidence: float
) -> Interval:
    groups = len(set(clusters))
    if all_alike(differences):
        if groups < len(tasks) and not bears_bound(groups, confidence):
            method = f"{groups} clusters whose tasks all agree: too few for a bound"
            return Interval(-1.0, 1.0, confidence, method, bounded=False)
        return newcombe_paired([t.ours for t in tasks], [t.theirs for t in tasks], confidence)
    drawn = mean_interval(differences, clusters, seed=seed, confidence=confidence)
    differing = len({cluster for cluster, d in zip(clusters, differences, strict=True) if d})
    if not differing < FEW_CLUSTERS <= groups:
        return drawn
    # A bootstrap of few differences among many zeros sees no more than these: three wins and no loss would be above zero.
    flipped = sign_flip_interval(differences, clusters, seed=seed, confidence=confidence)
    low, high = min(drawn.low, flipped.low), max(drawn.high, flipped.high)
    method = f"{drawn.method} or sign flips, the wider: arms differ in {differing} clusters"
    return Interval(low, high, confidence, method, bounded=drawn.bounded and flipped.bounded)


def _names(rows: Iterable[EpisodeRow]) -> str:
    return ", ".join(sorted({row.arm for row in rows})) or "none"
