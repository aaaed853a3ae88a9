"""Reports: verdict first, claim level, both denominators, limits, how to do it again; the same text every time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from apex_framework.errors import ArtifactError, NotComparableError
from apex_framework.testing.report import check_report
from apex_reports import plugin
from apex_reports.markdown import Markdown
from apex_reports.table import Table

ARMS = ("bandit_v1", "single", "static:star", "static:chain", "static:flat")


def make_run(
    path: Path,
    *,
    split: str = "dev",
    level: str = "L2",
    digest: str = "d1" * 20,
    tasks: int = 80,
    arms: tuple[str, ...] = ARMS,
    **rows: Any,
) -> Path:
    """A run folder in which the bandit solves four of five tasks and every other arm two of five."""
    path.mkdir()
    names = [[f"t{i:02}", f"m{i % 40}", ("clear", "vague")[i % 2]] for i in range(tasks)]
    settings = [
        {"name": a, "team": "single" if a == "single" else "swe", "controller": "static" if a == "single" else a}
        for a in arms
    ]
    plan = {
        "suite": "mini",
        "split": split,
        "suite_digest": digest,
        "level": level,
        "tasks": names,
        "arms": [{**arm, "budget": 10_000} for arm in settings],
        "seeds": [0],
        "settings": {},
    }
    run = {"format": 1, "run_id": "x", "digest": "x", "command": "apex run --seed 3", "plan": plan}
    (path / "run.json").write_text(json.dumps(run))
    lines, decisions = [], []
    for i, (task, cluster, family) in enumerate(names):
        for arm in arms:
            success = (i // 2) % 5 < (4 if arm == "bandit_v1" else 2)
            line = {
                "arm": arm,
                "task_id": task,
                "seed": 0,
                "success": success,
                "tokens": 4_000,
                "steps": 8,
                "switches": 0,
                "denied": 0,
                "status": "done",
                "cluster": cluster,
                "family": family,
                "suite_digest": digest,
                **rows,
            }
            lines.append(line)
            decisions.append({"arm": arm, "latency_ms": 0.25})
    (path / "episodes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (path / "decisions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in decisions))
    return path


@pytest.mark.parametrize("make", [Table, Markdown])
def test_built_in_reports_conform(make: type[Table] | type[Markdown], tmp_path: Path) -> None:
    check_report(make, make_run(tmp_path / "r"))


def test_the_verdict_is_the_first_sentence(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r")
    text = Table().render((run,))
    assert text.startswith("BETTER: bandit_v1 solves more tasks within the budget than every static topology")
    assert Markdown().render((run,)).startswith("**BETTER:** bandit_v1")


def test_both_forms_say_level_limits_and_how_to_do_it_again(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r")
    for report in (Table(), Markdown()):
        text = " ".join(report.render((run,)).split())
        assert "Claim level L2" in text and "nothing about language models" in text
        assert "What this does not show" in text and "carries over to language models" in text
        assert "exploratory" in text
        assert "apex run --seed 3" in text and f"apex report {run.as_posix()}" in text
        assert "By the rule fixed in advance: GO." in text


def test_numbers_are_in_the_tables(tmp_path: Path) -> None:
    lines = Table().render((make_run(tmp_path / "r"),)).splitlines()
    solved = next(line for line in lines if line.lstrip().startswith("bandit_v1"))
    assert solved.split()[:4] == ["bandit_v1", "80", "80.0", "%"]
    assert any("0.250 ms" in line for line in lines)
    rests, lift = (line for line in lines if "static:flat" in line and "+40.0 pp" in line)
    assert rests.split()[-4:] == ["pp", "+55.0", "pp", "yes"] and "80 of 80" in lift
    assert any(line.split()[:2] == ["clear", "40"] for line in lines)
    assert max(map(len, lines)) <= 120


def test_the_same_artifacts_give_the_same_text(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r")
    for report in (Table(), Markdown()):
        assert report.render((run,)) == report.render((run,))


def test_a_live_model_on_mini_is_called_contaminated(tmp_path: Path) -> None:
    assert "Contaminated" in Table().render((make_run(tmp_path / "r", level="L4"),))


def test_an_unfinished_run_says_so(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r")
    lines = (run / "episodes.jsonl").read_text().splitlines(keepends=True)
    (run / "episodes.jsonl").write_text("".join(lines[:-25]) + '{"arm": "torn')
    assert "Unfinished: 25 of 400 planned episodes are missing." in Table().render((run,))


def test_a_run_of_baselines_has_no_verdict(tmp_path: Path) -> None:
    text = Table().render((make_run(tmp_path / "r", arms=("static:star", "static:flat")),))
    assert text.startswith("No verdict: the run has no controller to judge")


def test_runs_of_other_suite_versions_or_levels_are_never_mixed(tmp_path: Path) -> None:
    one = make_run(tmp_path / "a")
    with pytest.raises(NotComparableError, match="suite_digest"):
        Table().render((one, make_run(tmp_path / "b", digest="d2" * 20)))
    with pytest.raises(NotComparableError, match="level"):
        Table().render((one, make_run(tmp_path / "c", level="L4")))


def test_two_runs_with_other_arms_make_one_report(tmp_path: Path) -> None:
    one = make_run(tmp_path / "a", arms=("bandit_v1",))
    two = make_run(tmp_path / "b", arms=ARMS[1:])
    assert Table().render((one, two)).startswith("BETTER")


def test_a_folder_that_is_no_run_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="is no run folder"):
        Table().render((tmp_path,))
    run = make_run(tmp_path / "r")
    (run / "episodes.jsonl").write_text("not json\n")
    with pytest.raises(ArtifactError, match="line 1"):
        Markdown().render((run,))


def test_all_are_registered() -> None:
    names = {}
    plugin.apex_reports(add=lambda name, factory, **_: names.setdefault(name, factory))
    assert {name: (factory().name, factory().suffix) for name, factory in names.items()} == {
        "table": ("table", ""),
        "markdown": ("markdown", ".md"),
        "html": ("html", ".html"),
    }


@pytest.mark.parametrize("make", [Table, Markdown])
def test_an_untrained_controller_is_named_among_what_a_report_does_not_show(
    make: type[Table] | type[Markdown], tmp_path: Path
) -> None:
    run = make_run(tmp_path / "r")
    assert "was untrained" not in make().render((run,))
    data = json.loads((run / "run.json").read_text())
    data["plan"]["policies"] = {"bandit_v1": "untrained"}
    (run / "run.json").write_text(json.dumps(data))
    limits = make().render((run,)).partition("What this does not show")[2].partition("Do it again")[0]
    assert "bandit_v1 was untrained" in limits
