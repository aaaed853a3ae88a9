"""Reward parts of a decision and the return that is learned from them (spec/apex-mvp.md section 4.3).

The specification charges 1e-4 per token; at its budget of 10,000 tokens that is ``tokens / budget``, the form used
here for every budget. The terminal bonus would reach only the last decision; it is credited to all decisions of the
episode, discounted by gamma per step between the end of a decision's own interval and the end of the episode. What is
refused late was often spent early; ``deny_credit`` hands that penalty back in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields

from apex_framework.errors import ConfigError
from apex_framework.interfaces import EpisodeContext, Transition


@dataclass(frozen=True, slots=True)
class RewardWeights:
    """Coefficient of every part; each is an option of bandit_v1 under ``reward``."""

    phase: float = 0.3
    """Per advance of the heuristic phase."""
    pass_rate: float = 0.7
    """Times the change of the share of visible tests that pass."""
    tokens: float = -1.0
    """Times tokens / budget."""
    switch: float = -0.05
    """Per committed switch; the starting topology costs nothing."""
    deny: float = -0.1
    """Times refused tokens / budget."""
    terminal: float = 1.0
    """For a full success."""
    gamma: float = 0.97
    """Discount per step of what is credited to earlier decisions."""
    deny_credit: float = 0.0
    """Share of ``deny`` that earlier decisions are credited with, too; 0: only the decision before the refusal."""

    def saved(self) -> dict[str, float]:
        """For a policy's settings: a policy trained without ``deny_credit`` is the same bytes as before there was one."""
        return {name: value for name, value in asdict(self).items() if name != "deny_credit" or value}

    @classmethod
    def of(cls, options: Mapping[str, float]) -> RewardWeights:
        """From options by name. Raises ConfigError for unknown ones."""
        known = [f.name for f in fields(cls)]
        if unknown := sorted(set(options) - set(known)):
            raise ConfigError(f"unknown reward coefficient {unknown[0]!r}", f"known: {', '.join(known)}")
        return cls(**{name: float(value) for name, value in options.items()})


def reward_parts(transition: Transition, context: EpisodeContext, weights: RewardWeights) -> dict[str, float]:
    """Parts of the decision's own interval, by name; ``terminal`` is the undiscounted bonus of the last one."""
    outcome, started = transition.outcome, transition.observation.topology
    budget = max(1, context.token_budget)
    return {
        "phase": weights.phase * outcome.phase_advanced,
        "pass_rate": weights.pass_rate * outcome.pass_rate_delta,
        "tokens": weights.tokens * outcome.tokens / budget,
        "switch": weights.switch * (outcome.switched and bool(started)),
        "deny": weights.deny * outcome.denied_tokens / budget,
        "terminal": weights.terminal * (outcome.terminal and outcome.success),
    }


def credited_returns(own: Sequence[float], durations: Sequence[int], bonus: float, gamma: float) -> list[float]:
    """``own[j] + gamma**k_j * bonus``, k_j the steps from the end of interval j to the end of the episode."""
    returns, later = [0.0] * len(own), 0
    for j in range(len(own) - 1, -1, -1):
        returns[j] = own[j] + bonus * gamma**later
        later += durations[j]
    return returns


def credited_denials(denied: Sequence[float], durations: Sequence[int], share: float, gamma: float) -> list[float]:
    """Per decision j: ``share`` of the sum of ``gamma**k_ji * denied[i]`` over i > j, k_ji the steps between their ends."""
    credits, following = [0.0] * len(denied), 0.0
    for j in range(len(denied) - 1, -1, -1):
        credits[j] = share * following
        following = gamma ** durations[j] * (denied[j] + following)
    return credits
