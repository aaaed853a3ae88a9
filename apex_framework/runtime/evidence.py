"""Exact one-sided bounds of a binomial rate, in the standard library alone: the runtime has to judge rates too."""

from __future__ import annotations

from math import exp, fsum, lgamma, log, log1p

HALVINGS = 60
"""Steps of the bisection: 2**-60 is below the spacing of floats in (0, 1)."""


def binomial_tail(x: int, n: int, p: float) -> float:
    """P(X >= x) for X binomial with n trials of probability p; exact up to rounding.

    Sums the probabilities on the side of ``x`` that lies away from the mean, where they fall in size, each
    from its neighbour.
    """
    if x <= 0:
        return 1.0
    if x > n or p <= 0.0:
        return 0.0
    if p >= 1.0:
        return 1.0
    if x > n * p:
        return _sum_from(x, n, p)
    return 1.0 - _sum_from(n - x + 1, n, 1.0 - p)


def lower_bound(x: int, n: int, confidence: float = 0.95) -> float:
    """One-sided lower Clopper-Pearson bound of a rate after ``x`` events in ``n`` trials.

    The largest p for which so many events or more are no more likely than 1 - confidence (Clopper and
    Pearson 1934): the quantile of a beta distribution, found here by bisection. 0 without events.
    Raises ValueError for impossible counts.
    """
    if not 0 <= x <= n or not 0.0 < confidence < 1.0:
        raise ValueError(f"no bound for {x} of {n} at {confidence}")
    if x == 0:
        return 0.0
    low, high = 0.0, x / n
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if binomial_tail(x, n, middle) < 1.0 - confidence:
            low = middle
        else:
            high = middle
    return low


def _sum_from(x: int, n: int, p: float) -> float:
    """P(X >= x) by adding up, for x above the mean."""
    odds = p / (1.0 - p)
    term = exp(lgamma(n + 1) - lgamma(x + 1) - lgamma(n - x + 1) + x * log(p) + (n - x) * log1p(-p))
    terms = []
    for k in range(x, n + 1):
        terms.append(term)
        term *= (n - k) / (k + 1) * odds
        if term < terms[0] * 1e-18:
            break
    return min(1.0, fsum(terms))
