"""Bench ``statistics``: do the intervals cover, do the verdicts err as rarely as they say, do exact tests equal scipy's?

``-n`` is the number of simulated experiments per case. A case names its clusters; an interval of 95 % should cover in 93
to 97 % of experiments with 40 clusters or more.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from ..analysis import LoggedEpisode

EXPERIMENTS = 2_000
CLUSTERS = (10, 20, 30, 40, 60, 100)
STATICS = ("static:star", "static:chain", "static:flat")
LOOKS = (100, 300, 500)
TRUTH = 0.05
REPOSITORIES = (6, 114, 23, 4, 3, 6, 5, 6, 17, 23, 16, 77)
"""Tasks per repository of SWE-bench Lite."""
MODULES = (5,) * 60
CLUSTERED = (
    (REPOSITORIES, (0.0, 0.14, 0.28), (0.0, TRUTH)),
    (MODULES, (0.0, 0.14), (0.0, TRUTH, 0.15)),
)
"""Sizes of clusters, how far their lifts lie from the mean, and means."""
UNEQUAL = (20,) * 10 + (2,) * 50
RELATED = ((-0.25, 0.0), (0.25, TRUTH))
"""By how much the largest clusters' lift lies above that of the smallest, and the mean over tasks."""


def run(args: Any = None) -> Iterator[dict[str, object]]:
    """Rows of bench ``statistics``."""
    experiments, seed = int(getattr(args, "n", None) or EXPERIMENTS), int(getattr(args, "seed", None) or 0)
    yield from equalities(seed)
    for clusters in CLUSTERS:
        yield from coverage(clusters, experiments, seed)
    yield from shift_coverage(40, max(1, experiments // 4), seed)
    yield from null_verdicts(experiments, seed)
    yield from sequential(experiments, seed)
    for sizes, spreads, lifts in CLUSTERED:
        for spread, lift in product(spreads, lifts):
            yield from clustered_looks(experiments, seed, sizes, spread, lift)
    for related, lift in RELATED:
        yield from clustered_looks(experiments, seed, UNEQUAL, 0.0, lift, related=related)
    yield from off_policy(max(1, experiments // 4), seed)


def equalities(seed: int) -> Iterator[dict[str, object]]:
    """Largest differences to scipy, and to statsmodels where it is installed."""
    import numpy as np
    from scipy import stats

    from ..analysis import bca_interval, clopper_pearson_upper, mcnemar_exact, paired_shift

    rng = np.random.default_rng(seed)
    bca = wilcoxon = 0.0
    for draw in range(20):
        values = rng.choice([-1.0, 0.0, 1.0], 80, p=[0.1, 0.7, 0.2])
        theirs = stats.bootstrap(
            (values,), np.mean, method="BCa", n_resamples=10_000, random_state=np.random.default_rng(draw)
        ).confidence_interval
        ours = bca_interval(values.tolist(), [str(i) for i in range(80)], seed=draw)
        bca = max(bca, float(abs(ours.low - theirs.low)), float(abs(ours.high - theirs.high)))
        skewed = rng.normal(0.2, 1.0, 40)
        wilcoxon = max(wilcoxon, abs(paired_shift(skewed.tolist()).p - float(stats.wilcoxon(skewed).pvalue)))
    yield _row("BCa of 80 tasks", "scipy", "largest difference", bca)
    yield _row("Wilcoxon of 40 tasks", "scipy", "largest difference", wilcoxon)
    pairs = [(w, n - w) for n in range(1, 60) for w in range(n + 1)]
    exact = max(abs(mcnemar_exact(w, x) - float(stats.binomtest(w, w + x).pvalue)) for w, x in pairs)
    yield _row("McNemar exact", "scipy", "largest difference", exact)
    bounds = [(k, n) for n in (1, 10, 299, 500) for k in range(0, n + 1, max(1, n // 10))]
    upper = max(
        abs(clopper_pearson_upper(k, n) - stats.binomtest(k, n, alternative="less").proportion_ci(0.95).high)
        for k, n in bounds
    )
    yield _row("Clopper-Pearson", "scipy", "largest difference", upper)
    try:
        tables = importlib.import_module("statsmodels.stats.contingency_tables")
    except ImportError:
        yield _row("McNemar exact", "statsmodels", "not installed", 0.0)
        return
    p_values = [float(tables.mcnemar([[0, w], [x, 0]], exact=True).pvalue) for w, x in pairs]
    difference = max(abs(mcnemar_exact(w, x) - p) for (w, x), p in zip(pairs, p_values, strict=True))
    yield _row("McNemar exact", "statsmodels", "largest difference", difference)


def coverage(clusters: int, experiments: int, seed: int) -> Iterator[dict[str, object]]:
    """Share of intervals of a paired lift that hold the true one; 3 to 11 tasks per cluster, with effects of clusters."""
    import numpy as np

    from ..analysis import mean_interval

    rng = np.random.default_rng([seed, clusters])
    below = above = 0
    widths = 0.0
    for draw in range(experiments):
        values, names = differences(rng, clusters, TRUTH)
        interval = mean_interval(values, names, seed=draw)
        below += interval.high < TRUTH
        above += interval.low > TRUTH
        widths += interval.high - interval.low
    case = f"95 % interval, {clusters} clusters"
    yield _row(case, "apex", "coverage", round(1 - (below + above) / experiments, 4))
    yield _row(case, "apex", "too low", round(below / experiments, 4))
    yield _row(case, "apex", "too high", round(above / experiments, 4))
    yield _row(case, "apex", "mean width", round(100 * widths / experiments, 2), "pp")


def differences(rng: np.random.Generator, clusters: int, lift: float) -> tuple[list[float], list[str]]:
    """Paired differences -1, 0, 1 with the mean ``lift``, and their clusters."""
    import numpy as np

    sizes = rng.integers(3, 12, clusters)
    shift = np.repeat(rng.uniform(-0.14, 0.14, clusters), sizes)
    u = rng.random(len(shift))
    values = (u < 0.15 + shift / 2).astype(float) - (u > 0.85 + lift + shift / 2).astype(float)
    return values.tolist(), np.repeat(np.arange(clusters), sizes).astype(str).tolist()


def shift_coverage(clusters: int, experiments: int, seed: int) -> Iterator[dict[str, object]]:
    """The same for a Hodges-Lehmann shift of tokens."""
    import numpy as np

    from ..analysis import paired_shift

    rng = np.random.default_rng([seed, clusters, 1])
    hits = alone = 0
    names = np.repeat(np.arange(clusters), 3).astype(str).tolist()
    for draw in range(experiments):
        effect = np.repeat(rng.normal(0, 300, clusters), 3)
        spent = effect + rng.standard_t(3, 3 * clusters) * 400 + 200
        found = paired_shift(spent.tolist(), names, seed=draw).interval
        hits += found is not None and found.low <= 200 <= found.high
        single = paired_shift((rng.standard_t(3, clusters) * 400 + 200).tolist()).interval
        alone += single is not None and single.low <= 200 <= single.high
    yield _row(f"Hodges-Lehmann, {clusters} clusters of 3", "apex", "coverage", round(hits / experiments, 4))
    yield _row(f"Hodges-Lehmann, {clusters} tasks", "apex", "coverage", round(alone / experiments, 4))


def null_verdicts(experiments: int, seed: int) -> Iterator[dict[str, object]]:
    """Share of BETTER where nothing is better: all arms alike, and the hardest case, one rival alike and the others far off."""
    for case, handicap in (("null, all arms alike", 0.0), ("null, one rival alike", 0.5)):
        yield _row(case, "apex", "false BETTER", round(false_better(experiments, seed, handicap) / experiments, 4))


def false_better(experiments: int, seed: int, handicap: float) -> int:
    """Number of BETTER verdicts in worlds of 120 tasks in 40 clusters; all rivals but one lose ``handicap`` of success."""
    import numpy as np

    from ..analysis import EpisodeRow, Word, decide, lift_between

    rng = np.random.default_rng([seed, int(100 * handicap)])
    false = 0
    for _ in range(experiments):
        difficulty = np.clip(np.repeat(rng.random(40), 3) + rng.normal(0, 0.2, 120), 0.02, 0.98)
        rows = []
        for arm in ("subject", "single", *STATICS):
            weaker = handicap if arm not in ("subject", "single") else 0.0
            solved = rng.random(120) < difficulty * (1 - weaker)
            rows += [EpisodeRow(arm, f"t{t}", 0, bool(solved[t]), 1, 1, 0, 0, "done", f"m{t // 3}") for t in range(120)]
        lifts = {}
        for rival in ("single", *STATICS):
            lifts[rival] = lift_between(rows, "subject", rival)
            if lifts[rival].interval.low <= 0:  # BETTER needs all of them
                break
        else:
            false += decide("subject", lifts, statics=STATICS, single="single").word is Word.BETTER
    return false


def sequential(experiments: int, seed: int) -> Iterator[dict[str, object]]:
    """Looks at 100, 300 and 500 tasks, stopped at the first evidence: the e-process, and McNemar's test repeated."""
    import numpy as np

    from ..analysis import mcnemar_mid_p, sequential_power

    rng = np.random.default_rng([seed, 3])
    for case, lift in (("looks, no lift", 0.0), ("looks, lift of 10 pp", 0.1)):
        found = sequential_power(LOOKS, lift, 0.2, draws=experiments, seed=seed)
        for look, share in found.items():
            yield _row(case, "apex", f"stopped by {look}", round(share, 4))
        chances = [0.1 + lift / 2, 0.1 - lift / 2, 0.8]
        steps = [rng.multinomial(step, chances, size=experiments)[:, :2] for step in np.diff([0, *LOOKS])]
        stopped = np.zeros(experiments, dtype=bool)
        for look, seen in zip(LOOKS, np.cumsum(steps, axis=0), strict=True):
            better = [int(w) > int(x) and mcnemar_mid_p(int(w), int(x)) <= 0.05 for w, x in seen]
            stopped |= np.array(better)
            yield _row(case, "McNemar repeated", f"stopped by {look}", round(float(stopped.mean()), 4))


def clustered_looks(
    experiments: int, seed: int, sizes: Sequence[int], spread: float, lift: float, *, related: float = 0.0
) -> Iterator[dict[str, object]]:
    """Looks at a third, two thirds and all tasks of clusters whose lifts lie evenly within ``spread`` of the mean ``lift``.

    With ``related`` the lift goes with the size: the largest clusters' lies by so much above that of the smallest. Share of experiments in which some look has enough evidence: of "better"; or, at a lift of 5 points, of "below 5
    points", which is all that KILL needs. Bets by cluster and by task, each in its own order.
    """
    import numpy as np

    from ..analysis import Pairing
    from ..analysis.anytime import evidence_at
    from ..analysis.lift import PairedTask

    stream = [seed, 5, len(sizes), round(100 * spread), round(100 * lift)]
    rng = np.random.default_rng([*stream, round(100 * (1 + related))] if related else stream)
    names, n = np.repeat(np.arange(len(sizes)), sizes), sum(sizes)
    own = np.repeat(sizes, sizes).astype(float)
    by_size = related * (own - own.mean()) / (max(sizes) - min(sizes)) if related else 0.0
    found = {"cluster": 0, "task": 0}
    for _ in range(experiments):
        tilt = (lift + by_size + rng.uniform(-spread, spread, len(sizes))[names]) / 2
        u = rng.random(n)
        outcomes = zip(names, u < 0.165 + tilt, u > 1 - (0.165 - tilt), strict=True)
        tasks = tuple(PairedTask(f"t{i}", str(c), "", float(w), float(x)) for i, (c, w, x) in enumerate(outcomes))
        mixed, drawn = rng.permutation(n), rng.permutation(len(sizes))
        for unit, order in (("task", mixed), ("cluster", mixed[np.argsort(drawn[names[mixed]], kind="stable")])):
            clusters, seen = {f"t{i}": str(names[i]) for i in order}, None
            for look in (n // 3, 2 * n // 3, n):
                seen = evidence_at(
                    Pairing("a", "b", tasks, n, n), clusters, look, alpha=0.025, unit=unit, before=seen, bounds=False
                )
            found[unit] += seen is not None and (seen.small if lift == TRUTH else seen.better)
    metric = "false better" if not lift else "false KILL" if lift == TRUTH else "better"
    effects = f"large ones {100 * related:+.0f} pp" if related else f"effects of ±{100 * spread:.0f} pp"
    case = f"looks, {n} tasks in {len(sizes)} clusters, {effects}, lift of {100 * lift:.0f} pp"
    for unit, count in found.items():
        yield _row(case, f"bets by {unit}", metric, round(count / experiments, 4))


def off_policy(experiments: int, seed: int) -> Iterator[dict[str, object]]:
    """Bias and coverage of the value of a policy of known value, from logs of 400 episodes with two decisions."""
    import numpy as np

    from ..analysis import off_policy_value

    rng = np.random.default_rng([seed, 4])
    errors: dict[str, list[float]] = {}
    hits: dict[str, int] = {}
    for draw in range(experiments):
        found = off_policy_value(bandit_log(rng, 400), seed=draw)
        for estimate in found.estimates:
            errors.setdefault(estimate.name, []).append(estimate.value - BANDIT_VALUE)
            low, high = (estimate.interval.low, estimate.interval.high) if estimate.interval else (0.0, 1.0)
            hits[estimate.name] = hits.get(estimate.name, 0) + (low <= BANDIT_VALUE <= high)
    case = "off-policy, 40 clusters"
    for name, seen in errors.items():
        yield _row(case, name, "bias", round(100 * float(np.mean(seen)), 3), "pp")
        yield _row(case, name, "error of the bias", round(100 * float(np.std(seen)) / len(seen) ** 0.5, 3), "pp")
        yield _row(case, name, "root mean square error", round(100 * float(np.sqrt(np.mean(np.square(seen)))), 2), "pp")
        yield _row(case, name, "coverage", round(hits[name] / experiments, 4))


BANDIT_VALUE = 0.675
"""Of the target of ``bandit_log``."""


def bandit_log(rng: np.random.Generator, episodes: int) -> list[LoggedEpisode]:
    """Two contexts, two decisions between a and b. The log is a coin; the target plays what suits the context at first
    (a in context 0, b in context 1) with 0.9, then always a.

    Success has the chance 0.2, plus 0.5 for a suitable first action, plus 0.05 for a second action a in context 0,
    so the target is worth 0.5 x (0.2 + 0.45 + 0.05) + 0.5 x (0.2 + 0.45) = 0.675.
    """
    from ..analysis import LoggedDecision, LoggedEpisode

    draw = partial(rng.choice, ["a", "b"])
    found = []
    for number in range(episodes):
        context = int(rng.integers(2))
        suitable, first, second = "ab"[context], str(draw()), str(draw())
        chance = 0.2 + 0.5 * (first == suitable) + 0.05 * (second == "a" and context == 0)
        other = "ba"[context]
        steps = (
            LoggedDecision(first, 0.5, {suitable: 0.9, other: 0.1}, (float(context), 0.0), frozenset("ab")),
            LoggedDecision(second, 0.5, {"a": 1.0}, (float(context), 1.0), frozenset("ab")),
        )
        found.append(LoggedEpisode(f"t{number}", f"m{number % 40}", float(rng.random() < chance), steps))
    return found


def _row(case: str, contender: str, metric: str, value: float, unit: str = "") -> dict[str, object]:
    return {"bench": "statistics", "case": case, "contender": contender, "metric": metric, "value": value, "unit": unit}
