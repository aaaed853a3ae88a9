"""What a decision and an update cost, beside what a user would pick instead.

The same work for every contender: 4 actions, 8 features, one choice, one learned row. ``pure python dot`` is the
limit of deciding in Python, ``numpy ridge`` the same algorithm on arrays, ``vowpalwabbit`` the usual library.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from random import Random
from time import perf_counter_ns
from typing import Any

ACTIONS, FEATURES = 4, 8
ROUNDS = 10_000
WARM_UP = 200

Samples = dict[str, list[int]]
"""Case -> nanoseconds of every call."""


def run(args: Any = None) -> Iterator[dict[str, object]]:
    """Rows of bench ``decision``: p50 and p95 in microseconds. ``args.n`` is the number of calls."""
    rounds = int(getattr(args, "n", None) or ROUNDS)
    contenders: dict[str, Callable[[int], Samples]] = {
        "apex": _apex,
        "pure python dot": _pure_python,
        "numpy ridge": _numpy_ridge,
    }
    if importlib.util.find_spec("vowpalwabbit"):
        contenders["vowpalwabbit"] = _vowpalwabbit
    else:
        yield _row("decide", "vowpalwabbit", "not installed", 1.0, "")
    for contender, measure in contenders.items():
        for case, samples in measure(rounds).items():
            ordered = sorted(samples)
            for metric, share in (("p50", 0.50), ("p95", 0.95)):
                value = ordered[min(len(ordered) - 1, int(share * len(ordered)))] / 1_000
                yield _row(case, contender, metric, round(value, 3), "us")


def _row(case: str, contender: str, metric: str, value: float, unit: str) -> dict[str, object]:
    return {"bench": "decision", "case": case, "contender": contender, "metric": metric, "value": value, "unit": unit}


def _apex(rounds: int) -> Samples:
    """bandit_v1, explored as in training: on given features as the others, and on a whole observation."""
    from ..interfaces import EpisodeContext, Observation
    from ..plugins import load_plugins

    topologies = ("star", "chain", "flat")
    bandit = load_plugins().catalog.make("controller", "bandit_v1", policy="none")
    bandit.begin(EpisodeContext("bench", 0, topologies, 10_000, frozen=False))
    random, taken = Random(0), _samples("decide", "update", "decide from observation")
    for number in range(rounds + WARM_UP):
        features = _features(random)
        start = perf_counter_ns()
        action = bandit.decide_features(features)["action"]
        decided = perf_counter_ns()
        bandit.update(features, action, features[action])
        updated = perf_counter_ns()
        observation = Observation(
            number,
            topologies[number % 3],
            topologies,
            steps_since_switch=number % 5,
            recent_roles=("planner", "coder", "runner", "critic", "coder"),
            tokens_used=number % 10_000,
            token_budget=10_000,
        )
        begun = perf_counter_ns()
        bandit.decide(observation)
        ended = perf_counter_ns()
        if number >= WARM_UP:
            taken["decide"].append(decided - start)
            taken["update"].append(updated - decided)
            taken["decide from observation"].append(ended - begun)
    return taken


def _pure_python(rounds: int) -> Samples:
    random, taken = Random(0), _samples("decide")
    weights = [_features(random) for _ in range(ACTIONS)]
    for _ in range(rounds):
        x = _features(random)
        start = perf_counter_ns()
        best, chosen = float("-inf"), 0
        for action, w in enumerate(weights):
            score = (
                w[0] * x[0] + w[1] * x[1] + w[2] * x[2] + w[3] * x[3]
                + w[4] * x[4] + w[5] * x[5] + w[6] * x[6] + w[7] * x[7]
            )  # fmt: skip
            if score > best:
                best, chosen = score, action
        taken["decide"].append(perf_counter_ns() - start)
        weights[chosen][0] = x[0]
    return taken


def _numpy_ridge(rounds: int) -> Samples:
    import numpy as np

    random, taken = Random(0), _samples("decide", "update")
    inverses, sums = np.stack([np.eye(FEATURES)] * ACTIONS), np.zeros((ACTIONS, FEATURES))
    weights = np.zeros((ACTIONS, FEATURES))
    for _ in range(rounds):
        x = np.array(_features(random))
        start = perf_counter_ns()
        action = int(np.argmax(weights @ x))
        decided = perf_counter_ns()
        ax = inverses[action] @ x
        inverses[action] -= np.outer(ax, ax) / (1 + x @ ax)
        sums[action] += x[action] * x
        weights[action] = inverses[action] @ sums[action]
        taken["decide"].append(decided - start)
        taken["update"].append(perf_counter_ns() - decided)
    return taken


def _vowpalwabbit(rounds: int) -> Samples:
    from vowpalwabbit import Workspace  # type: ignore[import-untyped,import-not-found,unused-ignore]  # no stubs exist

    random, taken = Random(0), _samples("decide", "update")
    workspace = Workspace(f"--cb_explore {ACTIONS} --epsilon 0.1 --quiet")
    for _ in range(rounds):
        x = _features(random)
        example = " ".join(f"f{i}:{value:.4f}" for i, value in enumerate(x))
        start = perf_counter_ns()
        shares = workspace.predict("| " + example)
        decided = perf_counter_ns()
        action = max(range(ACTIONS), key=shares.__getitem__)
        label = f"{action + 1}:{-x[action]:.4f}:{shares[action]:.4f} | {example}"
        learning = perf_counter_ns()
        workspace.learn(label)
        taken["decide"].append(decided - start)
        taken["update"].append(perf_counter_ns() - learning)
    workspace.finish()
    return taken


def _features(random: Random) -> list[float]:
    """A topology's one-hot and five shares, as bandit_v1 sees them."""
    topology = random.randrange(3)
    return [*(1.0 if i == topology else 0.0 for i in range(3)), *(random.random() for _ in range(FEATURES - 3))]


def _samples(*cases: str) -> Samples:
    return {case: [] for case in cases}
