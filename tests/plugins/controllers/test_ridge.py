"""The ridge of the bandits is the textbook's: equal to scikit-learn's, and the same bits everywhere."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apex_controllers.ridge import RidgeActions


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), rows=st.integers(1, 60), lam=st.sampled_from([0.1, 1.0, 7.0]))
def test_equals_scikit_learn_ridge(seed: int, rows: int, lam: float) -> None:
    from sklearn.linear_model import Ridge

    rng = np.random.default_rng(seed)
    features, targets = rng.random((rows, 8)), rng.normal(size=rows)
    ridge = RidgeActions(2, 8, lam)
    for x, r in zip(features.tolist(), targets.tolist(), strict=True):
        ridge.update(1, x, r)
    expected = Ridge(alpha=lam, fit_intercept=False).fit(features, targets).coef_
    np.testing.assert_allclose(ridge.weights[1], expected, rtol=1e-8, atol=1e-8)
    assert ridge.weights[0] == [0.0] * 8


def test_does_not_drift_over_twenty_thousand_updates() -> None:
    random = Random(3)
    ridge = RidgeActions(1, 8)
    gram, sums = np.eye(8), np.zeros(8)
    for _ in range(20_000):
        x = [random.random() for _ in range(8)]
        r = random.random()
        ridge.update(0, x, r)
        gram += np.outer(x, x)
        sums += r * np.array(x)
    np.testing.assert_allclose(ridge.weights[0], np.linalg.solve(gram, sums), rtol=1e-9)
    np.testing.assert_allclose(ridge.sums[0], sums, rtol=1e-12)
    inverse = np.array(ridge.inverses[0]).reshape(8, 8)
    assert (inverse == inverse.T).all()


def test_a_row_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 8 features"):
        RidgeActions(1, 8).update(0, [1.0] * 7, 1.0)
