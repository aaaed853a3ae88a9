"""The registry: declared names, labels, merging in any partition, the JSONL form, buckets from a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apex_framework.config import read_table
from apex_framework.errors import ArtifactError, ConfigError, UnknownNameError
from apex_framework.interfaces import MetricSample
from apex_framework.telemetry.buckets import DEFAULTS, checked_buckets
from apex_framework.telemetry.metrics import METRICS
from apex_framework.telemetry.registry import OTHER, SERIES, Registry, from_row, quantile, to_row

SPECIFIED = {
    "plan_cache_hits_total",
    "plan_cache_misses_total",
    "plan_cache_hit_rate",
    "topology_prevalidate_total",
    "switch_abort_total",
    "agent_health_age_s",
    "episode_tokens_used",
    "agent_tokens_used",
    "daily_tokens_used",
    "pool_acquire_ms",
    "pool_conn_in_use",
    "tokenize_ms",
    "token_est_abs_err_pct",
    "token_est_bias_pct",
    "reservation_expired_total",
    "switch_phase_ms",
    "budget_denied",
}
VALUES = st.lists(st.floats(0, 1e4), max_size=30)


def one(registry: Registry, name: str) -> MetricSample:
    (sample,) = (sample for sample in registry.snapshot() if sample.name == name)
    return sample


def test_every_specified_name_is_declared_as_it_is_spelt_and_with_its_labels() -> None:
    assert set(METRICS) >= SPECIFIED
    labels = {name: METRICS[name].labels for name in SPECIFIED if METRICS[name].labels}
    assert labels == {
        "topology_prevalidate_total": ("ok",),
        "switch_abort_total": ("reason",),
        "agent_health_age_s": ("agent",),
        "agent_tokens_used": ("role",),
        "switch_phase_ms": ("phase",),
        "budget_denied": ("role", "reason"),
    }


def test_every_histogram_has_default_buckets_and_every_metric_says_what_it_is() -> None:
    for spec in METRICS.values():
        assert spec.kind in ("counter", "gauge", "histogram")
        assert spec.help and spec.source and spec.unit
        assert spec.kind != "histogram" or spec.unit in DEFAULTS
    checked_buckets(DEFAULTS)


@given(st.lists(VALUES, max_size=5))
def test_the_parts_of_a_run_come_to_the_whole_however_it_is_cut(parts: list[list[float]]) -> None:
    whole, merged = Registry(), Registry()
    for part in parts:
        worker = Registry()
        for registry in (whole, worker):
            for value in part:
                registry.counter("agent_tokens_used", role="coder").inc(value)
                registry.histogram("decision_ms").observe(value)
                gauge = registry.gauge("episode_tokens_used")
                gauge.set(max(value, gauge.value or 0.0))
        merged.merge(worker.snapshot())
    assert [(s.name, s.labels, s.counts) for s in whole.snapshot()] == [
        (s.name, s.labels, s.counts) for s in merged.snapshot()
    ]
    for one, other in zip(whole.snapshot(), merged.snapshot(), strict=True):
        assert one.value == pytest.approx(other.value)
        assert (one.smallest, one.largest) == (other.smallest, other.largest)


@given(VALUES)
def test_a_line_is_the_sample_again(values: list[float]) -> None:
    registry = Registry(common={"arm": "a"})
    registry.gauge("decision_p95_ms").set(0.1)
    registry.counter("budget_denied", role="coder", reason="tok_headroom").inc()
    for value in values:
        registry.histogram("switch_phase_ms", phase="quiesce").observe(value)
    for sample in registry.snapshot():
        assert from_row(json.loads(json.dumps(to_row(sample)))) == sample


def test_lines_show_bins_and_quantiles() -> None:
    registry = Registry()
    for value in range(1, 101):
        registry.histogram("decision_ms").observe(float(value))
    row = to_row(one(registry, "decision_ms"))
    assert (row["p50"], row["p95"], row["p99"], row["count"], row["sum"]) == (
        pytest.approx(50, abs=1),
        pytest.approx(95, abs=1),
        pytest.approx(99, abs=1),
        100,
        5050.0,
    )
    assert sum(row["counts"]) == 100 and len(row["counts"]) == len(row["bounds"]) + 1
    assert quantile(one(registry, "decision_ms"), 1.0) == 100.0


def test_unknown_names_labels_and_lines_are_refused() -> None:
    registry = Registry()
    with pytest.raises(UnknownNameError) as caught:
        registry.counter("switch_abort_totl", reason="x")
    assert caught.value.remedy == "did you mean 'switch_abort_total'?"
    with pytest.raises(ValueError, match="with labels"):
        registry.counter("switch_abort_total")
    with pytest.raises(ValueError, match="is a counter"):
        registry.gauge("switch_abort_total", reason="x")
    with pytest.raises(ValueError, match="does not go back"):
        registry.counter("decisions_total", action="stay").inc(-1)
    for row in ({}, {"metric": "decision_ms"}, {"metric": "decision_ms", "kind": "gauge", "labels": {}, "value": 1}):
        with pytest.raises(ArtifactError, match="here is no metric"):
            from_row(row, "here")


def test_labels_without_end_are_counted_under_other() -> None:
    registry = Registry()
    for number in range(SERIES + 7):
        registry.counter("decisions_total", action=str(number)).inc()
    samples = {sample.labels: sample.value for sample in registry.snapshot()}
    assert len(samples) == SERIES + 1
    assert samples[(("action", OTHER),)] == 7


def test_parts_with_other_buckets_are_not_mixed() -> None:
    coarse, fine = Registry(buckets={"decision_ms": (1.0, 2.0)}), Registry()
    for registry in (coarse, fine):
        registry.histogram("decision_ms").observe(1.0)
    with pytest.raises(ConfigError, match="different buckets"):
        fine.merge(coarse.snapshot())


def test_buckets_come_from_a_file_by_metric_or_unit(tmp_path: Path) -> None:
    for name, text in (
        ("b.toml", "decision_ms = [1, 10]\ntokens = [5]"),
        ("b.yaml", "decision_ms: [1, 10]\ntokens: [5]"),
    ):
        (tmp_path / name).write_text(text)
        table = read_table(tmp_path / name)
        buckets = checked_buckets({key: value for key, (_, value) in table.items()})
        registry = Registry(buckets=buckets)
        for metric in ("decision_ms", "call_tokens_in", "switch_ms"):
            registry.histogram(metric).observe(3.0)
        assert one(registry, "decision_ms").bounds == (1.0, 10.0)
        assert one(registry, "call_tokens_in").bounds == (5.0,)
        assert one(registry, "switch_ms").bounds == DEFAULTS["ms"]


@pytest.mark.parametrize(
    ("name", "bounds", "cause"),
    [
        ("decison_ms", [1], "'decison_ms' is neither a histogram nor a unit"),
        ("decisions_total", [1], "'decisions_total' is neither a histogram nor a unit"),
        ("decision_ms", [], "the buckets of 'decision_ms' are no list of numbers"),
        ("decision_ms", "1, 2", "the buckets of 'decision_ms' are no list of numbers"),
        ("decision_ms", [2, 1], "the buckets of 'decision_ms' do not increase"),
        ("decision_ms", [1, 1], "the buckets of 'decision_ms' do not increase"),
        ("decision_ms", [1, "x"], "'x' is no bound of 'decision_ms'"),
        ("decision_ms", [1, float("inf")], "inf is no bound of 'decision_ms'"),
        ("decision_ms", [True], "True is no bound of 'decision_ms'"),
        ("decision_ms", list(range(101)), "'decision_ms' has 101 buckets"),
    ],
)
def test_wrong_buckets_are_one_line_with_their_place(name: str, bounds: object, cause: str) -> None:
    with pytest.raises(ConfigError) as caught:
        checked_buckets({name: bounds}, {name: "b.toml:3"})
    assert caught.value.cause == f"b.toml:3: {cause}"
    assert "\n" not in str(caught.value) and caught.value.remedy


def test_an_unknown_histogram_is_answered_with_every_known_name_once() -> None:
    with pytest.raises(ConfigError) as caught:
        checked_buckets({"qqqq": [1]})
    names = caught.value.remedy.removeprefix("known: ").split(", ")
    assert names == sorted(set(names)) and {"ms", "decision_ms", "token_est_bias_pct"} <= set(names)
