"""The model of success behind the doubly robust estimate, and the stepwise estimate made with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .off_policy import LoggedEpisode

    Model = tuple[float, Mapping[str, NDArray[np.float64]]]
    """Mean outcome, and weights of every action."""

FOLDS = 5
RIDGE = 1.0


def predictions(episodes: Sequence[LoggedEpisode]) -> tuple[list[NDArray[np.float64]], list[NDArray[np.float64]]]:
    """Per episode and decision: predicted success of the logged action, and its mean under the target.

    One ridge per action on features and a constant, drawn to the folds' mean outcome, from clusters of other folds.
    """
    import numpy as np

    d = len(episodes[0].decisions[0].features)
    if any(len(step.features) != d for episode in episodes for step in episode.decisions):
        raise ValueError("decisions of one log must have equally many features")
    fold = {name: i % FOLDS for i, name in enumerate(dict.fromkeys(e.cluster for e in episodes))}
    q, v = [], []
    models: dict[int, Model] = {}
    for number in set(fold.values()):
        rows: dict[str, list[tuple[float, ...]]] = {}
        ends: dict[str, list[float]] = {}
        train = [e for e in episodes if fold[e.cluster] != number]
        centre = sum(e.outcome for e in train) / len(train) if train else 0.5
        for e in train:
            for step in e.decisions:
                rows.setdefault(step.action, []).append((1.0, *step.features))
                ends.setdefault(step.action, []).append(e.outcome - centre)
        weights = {}
        for action, x in rows.items():
            matrix = np.array(x)
            gram = matrix.T @ matrix + RIDGE * np.eye(d + 1)
            weights[action] = np.linalg.solve(gram, matrix.T @ np.array(ends[action]))
        models[number] = (centre, weights)
    for e in episodes:
        model = models[fold[e.cluster]]
        seen = [(step, np.array((1.0, *step.features))) for step in e.decisions]
        q.append(np.array([_predict(model, step.action, x) for step, x in seen]))
        v.append(np.array([sum(p * _predict(model, a, x) for a, p in step.target.items() if p) for step, x in seen]))
    return q, v


def _predict(model: Model, action: str, x: NDArray[np.float64]) -> float:
    centre, weights = model
    return min(1.0, max(0.0, centre + float(weights[action] @ x))) if action in weights else centre


def stepwise(
    weights: Sequence[NDArray[np.float64]],
    outcome: NDArray[np.float64],
    q: Sequence[NDArray[np.float64]],
    v: Sequence[NDArray[np.float64]],
) -> NDArray[np.float64]:
    """``V(x_0) + sum over t of w_t (next value - Q(x_t, a_t))``, the outcome standing for the last next value."""
    import numpy as np

    values = [
        target[0] + float((w * (np.append(target[1:], end) - mine)).sum())
        for w, end, mine, target in zip(weights, outcome, q, v, strict=True)
    ]
    return np.array(values)


def step_weights(ratios: Sequence[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
    """Cumulative weights of every step, divided by their mean over the log (weighted doubly robust, Thomas and Brunskill
    2016). An episode that has ended keeps its weight, so that every step's mean is over all episodes.
    """
    import numpy as np

    longest = max(len(r) for r in ratios)
    cumulative = np.array([np.append(np.cumprod(r), np.full(longest - len(r), np.prod(r))) for r in ratios])
    means = cumulative.mean(axis=0)
    scaled = np.divide(cumulative, means, out=np.zeros_like(cumulative), where=means > 0)
    return [w[: len(r)] for w, r in zip(scaled, ratios, strict=True)]
