"""Value of a controller that was not run, from the logged decisions of one that was: IPS, self-normalised, doubly robust.

An episode's weight is the product over its decisions of the target's chance of the logged action over the logging
controller's. Estimates stand and fall with overlap: what the target does and the log never does cannot be seen, and
is said in numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

from ..errors import NotComparableError
from .doubly_robust import FOLDS, predictions, step_weights, stepwise
from .intervals import Interval
from .resampling import all_alike, cluster_sums, mean_interval, ratio_interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FEW_EFFECTIVE = 30.0
"""Effective sample size under which an estimate is no claim."""


@dataclass(frozen=True, slots=True)
class LoggedDecision:
    """One decision as it was logged, and what the target would have done."""

    action: str
    propensity: float
    """Chance that the logging controller had of this action."""
    target: Mapping[str, float]
    """Action -> the target's chance of it; adds up to 1."""
    features: tuple[float, ...] = ()
    """For the model of success; the same length in every decision of a log."""
    possible: frozenset[str] | None = None
    """Actions that the logging controller could have taken; None when the log does not tell."""


@dataclass(frozen=True, slots=True)
class LoggedEpisode:
    """One judged episode of the logging arm."""

    task_id: str
    cluster: str
    outcome: float
    """In [0, 1]; success."""
    decisions: tuple[LoggedDecision, ...]


@dataclass(frozen=True, slots=True)
class Estimate:
    """One estimator's answer."""

    name: str
    value: float
    interval: Interval | None
    """95 %; None when under two clusters carry weight."""
    method: str


@dataclass(frozen=True, slots=True)
class Overlap:
    """How far the log covers the target."""

    episodes: int
    weighted: int
    """Episodes that the target could have made."""
    effective: float
    """Effective sample size (Kish): (sum of weights)^2 / sum of their squares."""
    mean_weight: float
    """1 in expectation where the log covers the target; what lacks is the share of the target that it does not."""
    mean_weight_interval: Interval | None
    largest_weight: float
    largest_share: float
    """Of all weight, that of the heaviest episode."""
    decisions: int
    """That the target could have come to."""
    unsupported: int
    """Decisions at which the target wants, with some chance, what the logging controller could not do."""
    unsupported_episodes: int
    unknown: int
    """Decisions whose log does not tell what else was possible, where the target wants something else."""
    clip: float | None
    clipped_share: float
    """Of episodes, the ones whose weight was cut."""


@dataclass(frozen=True, slots=True)
class OffPolicyValue:
    """Success of the target, as the log tells it, beside that of the logging arm."""

    target: str
    logged: str
    logged_value: float
    estimates: tuple[Estimate, ...]
    """``ips``, ``snips``, ``dr``, ``sndr``; with a clip also ``ips_clipped`` and ``dr_clipped``, which are biased."""
    lift: Estimate
    """Doubly robust value minus the logging arm's, paired by episode."""
    overlap: Overlap
    warnings: tuple[str, ...]

    def estimate(self, name: str) -> Estimate:
        """One estimator's answer. Raises KeyError."""
        return {found.name: found for found in self.estimates}[name]


def off_policy_value(
    episodes: Sequence[LoggedEpisode],
    *,
    target: str = "",
    logged: str = "",
    clip: float | None = None,
    seed: int = 0,
) -> OffPolicyValue:
    """All estimators and the overlap.

    The doubly robust one is stepwise (Jiang and Li 2016) with a ridge model of success given features and action,
    fitted on other clusters' episodes; it is unbiased whatever the model predicts, as long as the propensities are
    right. ``clip`` caps an episode's weight, in the ``*_clipped`` estimates only. Raises NotComparableError for no
    episodes or no overlap at all, ValueError for impossible propensities, outcomes or features.
    """
    import numpy as np

    if not episodes:
        raise NotComparableError("the log has no judged episode with decisions", "run the logging arm")
    if clip is not None and not clip > 0.0:
        raise ValueError("a clip must be above 0")
    ratios = [_ratios(episode) for episode in episodes]
    weight = np.array([float(np.prod(r)) for r in ratios])
    if not weight.any():
        raise NotComparableError(
            f"no episode of the log could have been made by {target or 'the target'}",
            "log with a controller that tries, with some chance, what the target does",
        )
    outcome = np.array([episode.outcome for episode in episodes])
    clusters = [episode.cluster for episode in episodes]
    q, v = predictions(episodes)
    steps = [np.cumprod(r, dtype=np.float64) for r in ratios]
    plain = stepwise(steps, outcome, q, v)
    scaled = stepwise(step_weights(ratios), outcome, q, v)
    found = [
        _mean("ips", weight * outcome, clusters, seed, "inverse propensity, unclipped"),
        _ratio("snips", weight * outcome, weight, clusters, seed, "self-normalised inverse propensity"),
        _mean("dr", plain, clusters, seed, f"doubly robust, stepwise, ridge model cross-fitted over {FOLDS} folds"),
        _mean("sndr", scaled, clusters, seed, "doubly robust, self-normalised step by step; its scale taken as known"),
    ]
    if clip is not None:
        cut = stepwise([np.minimum(w, clip) for w in steps], outcome, q, v)
        note = f"weights cut at {clip:g}: biased, its interval does not know it"
        found.append(
            _mean("ips_clipped", np.minimum(weight, clip) * outcome, clusters, seed, f"inverse propensity, {note}")
        )
        found.append(_mean("dr_clipped", cut, clusters, seed, f"doubly robust, {note}"))
    overlap = _overlap(episodes, weight, clusters, clip, seed)
    lift = _mean("lift", plain - outcome, clusters, seed, "doubly robust value minus the logging arm's, by episode")
    return OffPolicyValue(target, logged, float(outcome.mean()), tuple(found), lift, overlap, _warnings(overlap))


def _ratios(episode: LoggedEpisode) -> NDArray[np.float64]:
    import numpy as np

    if not episode.decisions or not 0.0 <= episode.outcome <= 1.0:
        raise ValueError(f"episode of {episode.task_id!r}: no decisions, or an outcome outside [0, 1]")
    for d in episode.decisions:
        if not 0.0 < d.propensity <= 1.0 + 1e-9:
            raise ValueError(f"episode of {episode.task_id!r}: the propensity {d.propensity!r} is not in (0, 1]")
        if not all(map(isfinite, d.features)):  # a ridge of NaN would predict 0
            raise ValueError(f"episode of {episode.task_id!r}: a feature is no finite number")
        if not all(0.0 <= p <= 1.0 + 1e-9 for p in d.target.values()) or abs(sum(d.target.values()) - 1.0) > 1e-6:
            raise ValueError(f"episode of {episode.task_id!r}: the target's chances do not add up to 1")
    return np.array([d.target.get(d.action, 0.0) / d.propensity for d in episode.decisions])


def _mean(name: str, values: NDArray[np.float64], clusters: Sequence[str], seed: int, method: str) -> Estimate:
    interval = None
    if len(set(clusters)) > 1 and not all_alike(values.tolist()):
        interval = mean_interval(values.tolist(), clusters, seed=seed)
    method = f"{method}; {interval.method if interval else 'no interval: one cluster, or all values equal'}"
    return Estimate(name, float(values.mean()), _bounded(interval), method)


def _ratio(
    name: str,
    top: NDArray[np.float64],
    bottom: NDArray[np.float64],
    clusters: Sequence[str],
    seed: int,
    method: str,
) -> Estimate:
    sums, _ = cluster_sums(top.tolist(), clusters)
    sizes, _ = cluster_sums(bottom.tolist(), clusters)
    value = float(top.sum() / bottom.sum())
    if (sizes > 0).sum() < 2:
        return Estimate(name, value, None, f"{method}; no interval: one cluster has all weight")
    if all_alike((sums[sizes > 0] / sizes[sizes > 0]).tolist()):
        return Estimate(name, value, None, f"{method}; no interval: all clusters with weight agree")
    interval = ratio_interval(sums.tolist(), sizes.tolist(), seed=seed)
    return Estimate(name, value, _bounded(interval), f"{method}; {interval.method}")


def _bounded(interval: Interval | None) -> Interval | None:
    return interval if interval is not None and interval.bounded else None


def _overlap(
    episodes: Sequence[LoggedEpisode],
    weight: NDArray[np.float64],
    clusters: Sequence[str],
    clip: float | None,
    seed: int,
) -> Overlap:
    unsupported = unknown = decisions = touched = 0
    for episode in episodes:
        lacking = 0
        for step in episode.decisions:  # as far as the target could have come
            elsewhere = {action for action, p in step.target.items() if p > 1e-9 and action != step.action}
            decisions += 1
            if step.possible is not None:
                lacking += bool(elsewhere - step.possible)
            elif elsewhere:
                lacking += step.propensity >= 1.0 - 1e-9
                unknown += step.propensity < 1.0 - 1e-9
            if not step.target.get(step.action):
                break
        unsupported += lacking
        touched += lacking > 0
    mean = _mean("", weight, clusters, seed, "")
    return Overlap(
        episodes=len(episodes),
        weighted=int((weight > 0).sum()),
        effective=float(weight.sum() ** 2 / (weight**2).sum()),
        mean_weight=mean.value,
        mean_weight_interval=mean.interval,
        largest_weight=float(weight.max()),
        largest_share=float(weight.max() / weight.sum()),
        decisions=decisions,
        unsupported=unsupported,
        unsupported_episodes=touched,
        unknown=unknown,
        clip=clip,
        clipped_share=float((weight > clip).mean()) if clip is not None else 0.0,
    )


def _warnings(overlap: Overlap) -> tuple[str, ...]:
    found = []
    if overlap.unsupported:
        found.append(
            f"no support: at {overlap.unsupported} of {overlap.decisions} decisions, in {overlap.unsupported_episodes} "
            f"of {overlap.episodes} episodes, the target does what the log never does; no estimate sees what would follow"
        )
    interval = overlap.mean_weight_interval
    if interval is not None and not interval.low <= 1.0 <= interval.high:
        found.append(
            f"weights average {overlap.mean_weight:.3f} ({interval.low:.3f} to {interval.high:.3f}), not 1: "
            "the log does not cover the target, or its propensities are wrong; IPS is biased"
        )
    if overlap.effective < FEW_EFFECTIVE:
        found.append(
            f"effective sample size {overlap.effective:.1f} of {overlap.episodes} episodes: too little for a claim"
        )
    if overlap.largest_share > 0.1:
        found.append(f"one episode has {100 * overlap.largest_share:.0f} % of all weight")
    return tuple(found)
