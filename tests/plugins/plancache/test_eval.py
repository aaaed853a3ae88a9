"""The bench and the script: what they make of episodes, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from apex_framework import benches
from apex_framework.benches.plan_cache import Played, figures
from apex_framework.cli.boundary import run
from apex_framework.errors import ConfigError
from apex_framework.interfaces import EpisodeResult
from apex_framework.scripts.run_plan_cache_eval import evaluate, lines, plans_of
from apex_plancache.fitted import read_fitted

PUT = {
    "event": "PlanCacheUsed",
    "what": "put",
    "role": "planner",
    "purpose": "locate",
    "repo_id": "shop",
    "issue_cluster": "vague:none",
    "phase": "planning",
    "question": "d1",
    "steps": ("FOCUS a.py::f | why",),
    "version": "1/grammar-1",
}


def played(task: str, cluster: str, *, tokens: int = 9_000, saved: int = 0, success: bool = False) -> Played:
    return Played(task, cluster, 0, success, tokens, 2 if saved else 1, 1 if saved else 0, saved, (0.01,))


def test_an_episode_is_read_from_its_records() -> None:
    record = {"task_id": "t", "cluster": "c", "seed": 3, "success": True, "tokens": 900, "suite_digest": "s"}
    rows: list[dict[str, Any]] = [
        {"event": "PlanCacheUsed", "what": "miss"},
        PUT,
        {"event": "PlanCacheUsed", "what": "hit"},
        {"event": "CallAnswered", "tokens_in": 90, "tokens_out": 10},
        {"event": "ToolUsed"},
    ]
    one = Played.of(EpisodeResult(0, {**record, "decision_ms": [0.1]}, events=tuple(rows)))
    assert (one.lookups, one.hits, one.saved, one.share) == (2, 1, 100, 0.1)
    assert one.plans == (PUT,) and one.suite_digest == "s"


def test_figures_are_of_pairs_and_savings_of_episodes_with_a_hit() -> None:
    names = [(f"t{n}", f"c{n % 4}") for n in range(8)]
    off = [played(*name) for name in names]
    on = [played(*name, tokens=9_000 - 10 * n, saved=1_000 + 50 * n if n % 2 else 0) for n, name in enumerate(names)]
    on.append(played("t8", "c0", saved=1_000, success=True))
    off.append(played("t8", "c0", success=False))
    told = {metric: value for metric, value, _ in figures(off, on)}
    hit = [one for one in on if one.hits]
    assert (told["look-ups"], told["hits"], told["episodes with a hit"]) == (14, 5, 5)
    assert told["hit rate"] == round(5 / 14, 4)
    assert told["saved on hits"] == round(sum(one.share for one in hit) / 5, 4)
    assert told["success difference on hits"] == 0.2
    assert told["success difference on hits, low"] < 0.2 < told["success difference on hits, high"]
    assert told["fewer tokens on hits, paired"] == round(
        sum(1 - b.tokens / a.tokens for a, b in zip(off, on, strict=True) if b.hits) / 5, 4
    )


def test_without_a_look_up_or_a_hit_there_are_fewer_figures_and_no_error() -> None:
    off = [played("t", "c")]
    none = Played("t", "c", 0, False, 9_000, 0, 0, 0, (0.01,))
    assert {metric for metric, *_ in figures(off, [none])} == {"success", "tokens per episode", "decision p95"}
    assert "saved on hits" not in {metric for metric, *_ in figures(off, off)}
    few = {metric for metric, *_ in figures(off, [played("t", "c", saved=10)])}
    assert "saved on hits" in few and "saved on hits, low" not in few


def test_a_line_holds_both_episodes() -> None:
    (line,) = lines([played("t", "c", success=True)], [played("t", "c", tokens=8_000, saved=2_000)], "bandit_v1", "key")
    assert (line["success_off"], line["success_on"], line["tokens_off"], line["tokens_on"]) == (
        True,
        False,
        9_000,
        8_000,
    )
    assert (line["hits"], line["tokens_saved"], line["saved_share"]) == (1, 2_000, 0.2)


def test_what_is_fitted_can_be_read_and_holds_a_question_once(tmp_path: Path) -> None:
    other = {**PUT, "steps": ("FOCUS a.py::g | later",)}
    one = Played("t", "c", 0, True, 1, 1, 0, 0, (), (PUT, other, {**PUT, "question": "d2"}), "0123456789abcdef")
    file = tmp_path / "plans.json"
    file.write_text(json.dumps(plans_of([one], "mini", "evidence")))
    first, second = read_fitted(file, "0123456789ab", "evidence")
    assert first[0].digest == "d1" and first[1].steps == PUT["steps"] and second[0].digest == "d2"


def test_episodes_without_a_planner_fit_nothing() -> None:
    with pytest.raises(ConfigError, match="no plan"):
        plans_of([played("t", "c")], "mini", "evidence")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--out", "a.jsonl", "--fit", "b.json"],
        ["--fit", "b.json", "--split", "dev"],
        ["--fit", "b.json", "--fitted", "c.json"],
        ["--out", "a.jsonl", "--episodes", "0"],
        ["--out", "a.jsonl", "--match", "loose"],
        ["--out", "a.jsonl", "--policy", "nobody"],
        ["--out", "a.jsonl", "--suite", "none"],
        ["--nonsense"],
    ],
)
def test_wrong_flags_exit_2_and_write_nothing(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(arguments, evaluate, "run_plan_cache_eval") == 2
    assert not list(tmp_path.iterdir()) and "Traceback" not in capfd.readouterr().err


def test_the_bench_is_listed() -> None:
    assert "plan_cache" in benches.names() and benches.options("plan_cache") == {"n", "seed"}


@pytest.mark.slow
def test_fitted_plans_are_served_where_they_were_fitted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    plans, out = tmp_path / "plans.json", tmp_path / "out.jsonl"
    few = ["--episodes", "2", "--policy", "static_flat", "--workers", "1"]
    assert run([*few, "--fit", str(plans)], evaluate, "run_plan_cache_eval") == 0
    assert (
        run([*few, "--split", "train", "--fitted", str(plans), "--out", str(out)], evaluate, "run_plan_cache_eval") == 0
    )
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) == 2 and all(row["hits"] >= 1 and row["tokens_saved"] > 0 for row in rows)
    assert "hit rate" in capfd.readouterr().out
