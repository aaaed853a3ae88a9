"""What bandit_v1 sees: 5 + |topologies| numbers in [0, 1] (spec/apex-mvp.md section 4.1; eight for three topologies)."""

from __future__ import annotations

from collections.abc import Sequence

from apex_framework.interfaces import Observation

PLANNING = frozenset({"planner", "manager"})
WORKING = frozenset({"coder", "runner", "tester"})
REVIEWING = frozenset({"critic", "reviewer"})
"""Roles by the share that they count for; aliases beside the specified names."""

STATE_FEATURES = ("steps_since_switch", "planner_share", "coder_runner_share", "critic_share", "token_headroom_pct")
"""Names of the features after the topology's one-hot."""


def feature_names(topologies: Sequence[str]) -> tuple[str, ...]:
    """Names in the order of ``bandit_features``."""
    return (*(f"topo_onehot_{t}" for t in topologies), *STATE_FEATURES)


def bandit_features(observation: Observation, topologies: Sequence[str], k_dwell: int) -> list[float]:
    """The feature vector. The one-hot is all zeros at decision 0; shares of an empty window are 0."""
    topology = observation.topology
    features = [1.0 if t == topology else 0.0 for t in topologies]
    planner = worker = critic = 0
    for role in observation.recent_roles:
        if role in WORKING:
            worker += 1
        elif role in PLANNING:
            planner += 1
        elif role in REVIEWING:
            critic += 1
    total = len(observation.recent_roles) or 1
    budget = observation.token_budget
    headroom = 1.0 - observation.tokens_used / budget if budget > 0 else 0.0
    features += (
        min(1.0, observation.steps_since_switch / k_dwell),
        planner / total,
        worker / total,
        critic / total,
        headroom if headroom > 0.0 else 0.0,
    )
    return features
