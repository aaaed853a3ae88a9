"""McNemar's test of paired outcomes, and Holm's correction for several tests."""

from __future__ import annotations

from collections.abc import Mapping


def mcnemar_exact(wins: int, losses: int) -> float:
    """Two-sided exact p-value: wins among discordant pairs are binomial with p = 1/2."""
    from scipy.stats import binomtest

    return 1.0 if wins + losses == 0 else float(binomtest(wins, wins + losses).pvalue)


def mcnemar_mid_p(wins: int, losses: int) -> float:
    """Two-sided mid-p: the observed count weighs half; closer to its nominal level than the exact test."""
    from scipy.stats import binom

    n = wins + losses
    if n == 0:
        return 1.0
    tail = min(wins, losses)
    p = 2 * binom.cdf(tail, n, 0.5) - binom.pmf(tail, n, 0.5)
    return min(1.0, float(p))


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Adjusted p-values (Holm 1979), in the given order. Raises ValueError for what is no p-value, NaN among it."""
    if wrong := [name for name, p in p_values.items() if not 0.0 <= p <= 1.0]:
        raise ValueError(f"the p-value of {wrong[0]!r} is {p_values[wrong[0]]}")
    adjusted: dict[str, float] = {}
    running = 0.0
    for rank, name in enumerate(sorted(p_values, key=lambda name: (p_values[name], name))):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[name]))
        adjusted[name] = running
    return {name: adjusted[name] for name in p_values}
