"""Reports: verdict first, claim level, both denominators, limits, how to do it again; the same text every time."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from apex_framework.errors import ArtifactError, NotComparableError
from apex_framework.testing.report import check_report
from apex_reports import plugin
from apex_reports.html import Html
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
            decisions.append({"arm": arm, "task_id": "t", "seed": 0, "step": 0, "action": "star", "latency_ms": 0.25})
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
    assert Markdown().render((run,)).split("\n\n")[1].startswith("**BETTER:** bandit_v1")


def test_both_forms_say_level_limits_and_how_to_do_it_again(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r")
    for report in (Table(), Markdown()):
        text = " ".join(report.render((run,)).split())
        assert "Claim level L2" in text and "nothing about language models" in text
        assert "What this does not show" in text and "carries over to language models" in text
        assert "exploratory" in text
        assert "apex run --seed 3" in text and f"apex report {run.as_posix()}" in text
        assert (
            text.count(
                "By APEX's default rule (this run was not registered): GO: bandit_v1 gains +40.0 pp over static:"
            )
            == 1
        )


def test_numbers_are_in_the_tables(tmp_path: Path) -> None:
    lines = Table().render((make_run(tmp_path / "r"),)).splitlines()
    solved = next(line for line in lines if line.lstrip().startswith("bandit_v1"))
    assert solved.split()[:4] == ["bandit_v1", "80", "80.0", "%"]
    assert any("0.250 ms" in line for line in lines)
    rests, lift = (line for line in lines if "static:flat" in line and "+40.0 pp" in line)
    assert rests.split()[-4:] == ["pp", "+55.6", "pp", "yes"] and "80 of 80" in lift
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
    assert text.startswith("No verdict: no arm is a controller under test. Any two of its 2 arms can be compared: apex")
    assert "--arm static:star --against static:flat" in text and "INCONCLUSIVE" not in text


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


@pytest.mark.parametrize("make", [Table, Markdown])
def test_what_a_suite_says_of_itself_is_among_what_a_report_does_not_show_once(
    make: type[Table] | type[Markdown], tmp_path: Path
) -> None:
    runs = tuple(make_run(tmp_path / name) for name in ("one", "two"))
    for run in runs:
        data = json.loads((run / "run.json").read_text())
        (run / "run.json").write_text(json.dumps({**data, "caveats": ["Its tasks are\x1b[2J riddles."]}))
    limits = make().render(runs).partition("What this does not show")[2].partition("Do it again")[0]
    assert limits.count("riddles.") == 1 and "\x1b" not in limits


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("decisions", {}),
        ("decisions", {"latency_ms": "0.2"}),
        ("decisions", {"latency_ms": True}),
        ("decisions", {"latency_ms": -1.0}),
        ("decisions", {"latency_ms": float("nan")}),
        ("decisions", {"latency_ms": [1.0]}),
        ("switches", {"phase_ms": [0.1, 0.2]}),
        ("switches", {"phase_ms": "0.1"}),
        ("switches", {"phase_ms": {"prepare": "0.1"}}),
        ("switches", {"phase_ms": {"prepare": None}}),
        ("switches", {"phase_ms": {"prepare": float("inf")}}),
    ],
)
def test_damaged_latencies_are_one_line_with_their_place(tmp_path: Path, name: str, row: dict[str, Any]) -> None:
    run = make_run(tmp_path / "r", tasks=2)
    good = {"arm": "bandit_v1", "latency_ms": 0.1, "phase_ms": {"prepare": 0.1}}
    lines = [json.dumps(good), json.dumps({"arm": "bandit_v1", **row})]
    (run / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    with pytest.raises(ArtifactError, match=rf"{name}\.jsonl, line 2: (latency|phase)_ms is missing or no time"):
        Table().render((run,))


@pytest.mark.parametrize("make", [Table, Markdown])
def test_a_switch_of_nobody_is_one_line_with_its_place(make: type[Table] | type[Markdown], tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", tasks=2)
    (run / "switches.jsonl").write_text('{"x": 1}\n')
    with pytest.raises(ArtifactError, match=r"switches\.jsonl, line 1: arm is missing"):
        make().render((run,))


def test_decisions_are_read_one_at_a_time(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", tasks=2)
    line = json.dumps({"arm": "bandit_v1", "latency_ms": 0.1, "features": list(range(200))})
    (run / "decisions.jsonl").write_text(f"{line}\n" * 3_000)
    Table().render((run,))
    tracemalloc.start()
    Table().render((run,))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < (run / "decisions.jsonl").stat().st_size


def decided(run: Path, **changes: Any) -> None:
    """Puts a run into an experiment that has decided."""
    data = json.loads((run / "run.json").read_text())
    data["plan"]["settings"] = {"experiment": {"name": "e", "part": "main", "registered": "ab12"}}
    (run / "run.json").write_text(json.dumps(data))
    look = {"arm": "bandit_v1", "against": "static:star", "estimate": 0.4, "low": 0.1, "high": 0.6, "e_better": 99.5}
    result = {
        "lock": "ab12",
        "registered": "2026-11-22",
        "plan": {"name": "e", "prereg": {"hypothesis": "it <b>helps</b>", "part": "main", "looks": [40, 80]}},
        "runs": [{"folder": "main", "runs": [run.name]}],
        "decision": {
            "word": "GO",
            "sentence": "GO: bandit_v1 solves more.",
            "registered": True,
            "rule": "looks at 40, 80 tasks",
            "looks": [{"number": 1, "tasks": 40, "decision": "GO", "comparisons": [look]}],
        },
        "deviations": [{"what": "version of x: 1 -> 2", "why": ""}],
        **changes,
    }
    (run.parent / "experiment.json").write_text(json.dumps(result))


@pytest.mark.parametrize("make", [Table, Markdown, Html])
def test_the_decision_of_the_experiment_stands_above_everything_else(
    make: type[Table] | type[Markdown] | type[Html], tmp_path: Path
) -> None:
    run = make_run(tmp_path / "r")
    assert "registered rule" not in make().render((run,))
    decided(run)
    text = " ".join(make().render((run,)).split())
    for words in (
        "bandit_v1 solves more.",
        "Rule (registered 2026-11-22, before the first episode): looks at 40, 80 tasks.",
        "Look 1 of 2, 40 tasks: GO (against static:star +40.0 pp, anytime +10.0 pp to +60.0 pp, e-value 99.5).",
        "Look 1 stopped it at 40 tasks. Its intervals are of the anytime kind",
        "Deviations from the plan: version of x: 1 -&gt; 2." if make is Html else "version of x: 1 -> 2.",
    ):
        assert words in text
    assert text.index("registered rule") < text.index("BETTER")
    assert make is Table or "<b>" not in text
    assert make().render((run,)) == make().render((run,))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"lock": "other"}, "not of the plan that"),
        ({"runs": [{"folder": "elsewhere"}]}, "not of the plan that"),
        ({"plan": []}, "is damaged"),
        ({"decision": {"word": "GO"}}, "is damaged"),
        ({"deviations": 3}, "is damaged"),
    ],
)
def test_a_decision_of_another_plan_or_a_damaged_one_is_one_line(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    run = make_run(tmp_path / "r", tasks=4)
    decided(run, **changes)
    with pytest.raises(ArtifactError, match=words):
        Table().render((run,))


def test_an_exploratory_experiment_and_a_strangers_file_change_nothing(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", tasks=4)
    before = Table().render((run,))
    (tmp_path / "experiment.json").write_text("not json")
    assert Table().render((run,)) == before
    decided(run, decision=None)
    after = Table().render((run,))
    assert after.replace("the rule fixed in advance", "") != after  # it was registered
    assert (
        after.partition("\nArms")[2].partition("What this")[0]
        == before.partition("\nArms")[2].partition("What this")[0]
    )
