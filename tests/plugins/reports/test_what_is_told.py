"""What a reader is told: a decision with its meaning, once; arms that are the same; no zero that was not measured."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from dataclasses import asdict
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from report_runs import invent_run

from apex_framework.analysis import Answer, EpisodeRow, answer_runs, p_text
from apex_framework.cli.boundary import run
from apex_reports.account import leakage
from apex_reports.chosen import chosen
from apex_reports.decision import Bound, meaning, remainder, rivals_of
from apex_reports.html import Html
from apex_reports.markdown import Markdown
from apex_reports.observed import Observed
from apex_reports.table import Table

FORMS = (Table, Markdown, Html)
TASKS = 120


def changed(folder: Path, name: str, change: Callable[[int, dict[str, Any]], dict[str, Any]]) -> None:
    """Every line of a file becomes what ``change`` makes of its number and itself."""
    file = folder / f"{name}.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps(change(i, row)) + "\n" for i, row in enumerate(rows)))


def alike(path: Path, odd: str = "") -> Path:
    """All arms solve every third task, but ``odd``, which does not solve the first one."""
    folder: Path = invent_run(path, tasks=TASKS, traced=2)

    def outcome(_: int, row: dict[str, Any]) -> dict[str, Any]:
        number = int(row["task_id"].removeprefix("task-"))
        solved = number % 3 == 0 and not (row["arm"] == odd and number == 0)
        reason = "change accepted" if solved else "no budget for another repair" if number % 3 == 1 else "gave up"
        return {**row, "success": solved, "reason": reason}

    changed(folder, "episodes", outcome)
    return folder


def registered(folder: Path) -> None:
    """Puts the run into an experiment that has judged it by one look."""
    verdict = answer_runs([folder], best_static="static_star").verdicts[0]
    data = json.loads((folder / "run.json").read_text())
    experiment = {"name": "e", "part": "main", "registered": "ab12"}
    data["plan"]["settings"] = {"experiment": experiment, "best_static": "static_star"}
    (folder / "run.json").write_text(json.dumps(data))
    said = {"hypothesis": "it helps", "part": "main", "arm": verdict.arm}
    decision = {
        "word": verdict.decision,
        "sentence": verdict.sentence,
        "registered": True,
        "lifts": [asdict(lift) for lift in verdict.lifts],
    }
    result = {
        "lock": "ab12",
        "registered": "2026-11-22",
        "plan": {"name": "e", "prereg": said, "parts": [{"name": "main", "best_static": "static_star"}]},
        "runs": [{"folder": "main", "runs": [folder.name]}],
        "decision": decision,
        "deviations": [],
    }
    (folder.parent / "experiment.json").write_text(json.dumps(result))


def words(make: Any, folder: Path) -> str:
    return " ".join(re.sub(r"<(style|head).*?</\1>", "", make().render((folder,)), flags=re.S).split())


@pytest.fixture(scope="module")
def same(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return alike(tmp_path_factory.mktemp("same") / "r")


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = alike(tmp_path_factory.mktemp("killed") / "r")
    registered(folder)
    return folder


@pytest.mark.parametrize("make", FORMS)
def test_a_registered_kill_says_what_it_excludes_before_what_is_open_and_each_once(make: Any, killed: Path) -> None:
    text = words(make, killed)
    excluded = re.search(r"a gain of 5 points over static_star is excluded \(upper bound \+[0-4]\.\d pp\)\.", text)
    assert excluded is not None and text.index("KILL") < excluded.start() < text.index("INCONCLUSIVE")
    defined = r"GO: above every .*? neither is shown\.|GO: a gain is shown\. .*? EXTEND: neither\."
    assert text.count("INCONCLUSIVE") == re.sub(defined, "", text).count("KILL") == 1
    assert "whether bandit_v1 has any smaller gain over static_star is not known (+0.0 pp" in text
    for contradiction in (
        "cannot be told from this run",
        "This run by itself",
        "By the rule fixed in advance",
        "to learn more",
    ):
        assert contradiction not in text
    assert text.count("Claim level") == 1
    assert make().render((killed,)) == make().render((killed,))


def test_what_was_claimed_is_what_is_told() -> None:
    star = Bound("star", 0.12, 0.06, 0.18)
    assert meaning("KILL", "mine", [star], [star], 0.2).startswith("a gain of 20 points over star is excluded")
    assert meaning("EXTEND", "mine", [star], [star], 0.15).startswith("a gain of 15 points over star is not excluded")
    assert rivals_of([star], "chain", ["star", "chain"]) == []  # the best one was not compared with


def test_go_and_extend_say_what_they_mean() -> None:
    star, single = Bound("star", 0.12, 0.06, 0.18), Bound("single", 0.09, 0.02, 0.16)
    assert meaning("GO", "mine", [star, single], [star]) == (
        "mine gains +12.0 pp over star, 5 points or more, and is above each of star, single "
        "(smallest lower bound +2.0 pp, against single)."
    )
    assert meaning("EXTEND", "mine", [star, single], [star]).startswith(
        "a gain of 5 points over star is not excluded (upper bound +18.0 pp)"
    )
    low = [Bound("star", 0.0, -0.01, 0.01), Bound("flat", 0.0, -0.02, 0.02)]
    assert meaning("KILL", "mine", low, low) == (
        "a gain of 5 points over any static topology is excluded (largest upper bound +2.0 pp)."
    )
    assert meaning("EXTEND", "mine", [single], []) == ""
    told = "INCONCLUSIVE: whether a beats b cannot be told from this run (x)."
    assert remainder("EXTEND", told) == told


@pytest.mark.parametrize("make", FORMS)
def test_arms_that_are_the_same_and_the_budget_are_told_in_short(make: Any, same: Path, tmp_path: Path) -> None:
    text = words(make, same)
    assert "bandit_v1, static_star, static_flat and single solve the same tasks in every episode." in text
    assert "end alike" not in text
    assert (
        "The budget: 10,000 tokens an episode. 160 of 320 unsolved episodes (50.0 %) ended for want of budget." in text
    )
    text = words(make, alike(tmp_path / "r", odd="single"))
    assert "bandit_v1, static_star and static_flat solve the same tasks in every episode." in text
    assert "All 4 arms end alike on 119 of 120 pairs of task and seed." in text


def test_lifts_and_verdicts_of_further_arms_stand_with_the_lifts(tmp_path: Path) -> None:
    folder = alike(tmp_path / "r")
    data = json.loads((folder / "run.json").read_text())
    first = data["plan"]["arms"][0]
    data["plan"]["arms"].append({**first, "name": "linucb", "controller": "linucb"})
    (folder / "run.json").write_text(json.dumps(data))
    rows = [json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines()]
    with (folder / "episodes.jsonl").open("a") as file:
        file.write("".join(json.dumps({**r, "arm": "linucb"}) + "\n" for r in rows if r["arm"] == "bandit_v1"))
    for make in (Table, Markdown):
        before, _, after = words(make, folder).partition("Paired lifts")
        assert "whether linucb beats" not in before and after.count("whether linucb beats") == 1
        assert "3 more lifts, of linucb:" in after
    assert "| linucb | static_star |" not in Markdown().render((folder,))
    drawn = Html().illustrate((folder,))
    assert "<summary>3 paired lifts of further arms: linucb</summary>" in drawn.text
    assert drawn.text.index('id="lifts"') < drawn.text.index("whether linucb beats")
    lifts = list(csv.DictReader(io.StringIO(drawn.figures["forest.csv"])))
    assert [row["arm"] for row in lifts].count("linucb") == 3 and "linucb over" not in drawn.figures["forest.svg"]


@pytest.mark.parametrize("make", FORMS)
def test_columns_of_the_lifts_are_explained(make: Any, same: Path) -> None:
    text = words(make, same)
    assert "none: the two arms differ on so few tasks or clusters that no lift would be shown with that power." in text
    assert (
        "pairs: of task and seed, judged of planned. 120 pairs of 120 tasks: seeds are averaged within a task" in text
    )
    assert "characters)" not in text, "a note is cut"


def test_switches_that_took_no_episode_time_show_no_zeros(same: Path, tmp_path: Path) -> None:
    assert "Phases of switches" in words(Html, same) and "switch p95" in words(Table, same)
    folder = invent_run(tmp_path / "r")

    def timeless(_: int, row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "phase_ms": dict.fromkeys(row["phase_ms"], 0.0), "whole_ms": 0.0}

    changed(folder, "switches", timeless)
    page, table = words(Html, folder), words(Table, folder)
    for text in (page, table):
        assert (
            text.count(
                "Switches are not timed: an episode's clock is virtual".replace("'", "&#x27;" * (text is page) or "'")
            )
            == 1
        )
        assert "Phases of switches" not in text and "switch p95" not in text
    assert "0.00 · 0.00" not in page and "0.00 ms" not in page and "PREPARE ms" not in page


def test_timelines_that_went_alike_are_not_shown_twice() -> None:
    def row(task: str, success: bool, steps: int, tokens: int, switches: int = 2) -> EpisodeRow:
        return EpisodeRow("a", task, 0, success, tokens, steps, switches, 0, "finished")

    def of(*rows: EpisodeRow) -> dict[str, str]:
        answer = cast(Answer, SimpleNamespace(run=SimpleNamespace(rows=rows), verdicts=()))
        return {key[1]: why for key, why in chosen(answer).items()}

    twin = row("twin", False, 9, 500)
    assert of(row("first", False, 9, 500), twin, row("other", False, 11, 700, switches=1)) == {
        "first": "the first with two switches or more",
        "other": "the first not solved with a switch that went otherwise",
    }
    assert of(row("first", False, 9, 500), twin) == {"first": "the first with two switches or more"}


def test_that_nothing_was_chosen_on_a_split_rests_on_its_name(same: Path) -> None:
    text = words(Html, same)
    assert "the split is by its name a held-out one" in text and "nothing was chosen on it, no file can tell" in text
    assert "nothing was chosen on this split" not in text


def test_a_small_p_is_below_a_thousandth_and_says_what_it_is_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [p_text(p) for p in (0.0, 0.00099, 0.001, 0.5, 1.0)] == ["< 0.001", "< 0.001", "0.001", "0.500", "1.000"]
    folder = invent_run(tmp_path / "r", tasks=TASKS, traced=0)

    def costs(_: int, row: dict[str, Any]) -> dict[str, Any]:
        number = int(row["task_id"].removeprefix("task-"))
        ours = row["arm"] == "bandit_v1"
        return {**row, "success": ours or number % 2 == 0, "tokens": 4_000 + 400 * (ours and number % 40 < 6)}

    changed(folder, "episodes", costs)
    assert run(["compare", str(folder), "--arm", "bandit_v1", "--against", "single"]) == 0
    lift, tokens, *_ = capsys.readouterr().out.splitlines()
    assert lift.endswith("exact McNemar p < 0.001 if tasks were independent, sign flips of 40 clusters p < 0.001")
    assert "+0 tokens per task (95 % +0 to +0, for on most tasks both cost the same; mean +60.0); " in tokens
    assert re.search(r"; p of the tasks that differ 0\.0\d\d, Holm ", tokens)
    assert "| &lt; 0.001 |" in Markdown().render((folder,))


def check_of(folder: Path, name: str) -> tuple[str, str]:
    """Result and evidence of a leakage check."""
    checks = {row[0]: row[1:] for row in leakage(answer_runs([folder]), Observed()).rows}
    return cast(tuple[str, str], checks[name])


def test_that_hidden_tests_decide_is_told_by_an_episode_that_passed_the_visible_ones_alone(tmp_path: Path) -> None:
    folder = invent_run(tmp_path / "run")
    assert check_of(folder, "hidden tests decide")[0] == "cannot be told"
    changed(folder, "episodes", lambda i, row: {**row, "visible_passed": True, "overfit": not row["success"]})
    assert check_of(folder, "hidden tests decide")[0] == "holds"


@pytest.mark.parametrize(
    ("said", "result", "evidence"),
    [
        ({}, "holds", "no interceptors"),
        ({"interceptors": ["plan_cache:ttl_s=60"]}, "does not hold", "single: plan_cache:ttl_s=60"),
        ({"backends": {"*": "repair", "coder": "replay:tape"}}, "does not hold", "single: replay:tape"),
        ({"interceptors": ["mine"]}, "cannot be told", "whether interceptors answer calls, no file tells: mine"),
    ],
)
def test_a_cache_is_what_answers_from_one(tmp_path: Path, said: dict[str, Any], result: str, evidence: str) -> None:
    folder = invent_run(tmp_path / "run")
    data = json.loads((folder / "run.json").read_text())
    data["plan"]["arms"][-1].update(said)
    (folder / "run.json").write_text(json.dumps(data))
    assert check_of(folder, "no arm answers from a cache or a recording") == (result, evidence)


def test_a_rule_is_called_fixed_in_advance_only_where_it_was(killed: Path, tmp_path: Path) -> None:
    free = alike(tmp_path / "r")
    lock = {"experiment": {"name": "e", "part": "main", "registered": "ab12"}, "best_static": "static_star"}
    for make in FORMS:
        text = unescape(words(make, free))
        assert "By APEX's default rule (this run was not registered): " in text
        assert "Nothing was registered: arms, tasks and rule could have been chosen" in text
        assert "Nothing was registered" not in words(make, killed)
    data = json.loads((free / "run.json").read_text())
    (free / "run.json").write_text(json.dumps(data | {"plan": data["plan"] | {"settings": lock}}))
    for make in FORMS:
        assert "By the rule fixed in advance: " in words(make, free)


@pytest.mark.parametrize("make", FORMS)
def test_a_stranger_is_told_the_question_and_the_words(make: Any, tmp_path: Path) -> None:
    text = unescape(words(make, invent_run(tmp_path / "r")))
    assert (
        "The question: does changing a team's topology while it works" in text
        and "pp: percentage points" in text
        and "cluster: " in text
    )
    if make is not Table:
        assert "single agent: one agent alone, with the whole budget." in text
        assert "static topology: one topology from start to end." in text and "EXTEND: neither is shown." in text


@pytest.mark.parametrize("make", FORMS)
def test_every_form_takes_runs_at_other_budgets(make: Any, tmp_path: Path) -> None:
    runs = (invent_run(tmp_path / "ten"), invent_run(tmp_path / "five", budget=5_000, seed=1))
    text = " ".join(make().render(runs).split())
    assert "10,000 tokens an episode; what was solved with 5,000 is in Success@budget alone" in text
    if make is not Html:
        five = answer_runs([runs[1]]).arms[0]
        row = text[text.index("Tokens an episode, a run each") - 700 : text.index("Tokens an episode, a run each")]
        assert "5,000" in row and f"{100 * five.success:.1f} % ({100 * five.interval.low:.1f} %" in row


def test_no_file_of_a_figure_has_a_zero_that_was_not_measured(tmp_path: Path) -> None:
    folder = invent_run(tmp_path / "r")
    changed(folder, "switches", lambda _, row: row | {"phase_ms": dict.fromkeys(row["phase_ms"], 0.0), "whole_ms": 0.0})
    figures = Html().illustrate((folder,)).figures
    sheets = [text for name, text in figures.items() if name.startswith("timeline-") and name.endswith("-switches.csv")]
    assert sheets and not any(" ms" in sheet.partition("\n")[0] for sheet in sheets)


@pytest.mark.parametrize("make", FORMS)
def test_the_command_is_one_that_needs_no_file_and_no_variable(make: Any, tmp_path: Path) -> None:
    again = "apex run --out q --set budget=8000"
    folder = invent_run(tmp_path / "r", again=again, settings={"budget": "8000"})
    text = words(make, folder)
    assert again in text
    if make is Html:
        assert "settings that differ from the defaultsbudget=8000" in re.sub(r"<[^>]*>", "", text)
