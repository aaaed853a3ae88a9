"""Verdicts of others: what nobody told is not a number, and a run without a controller under test says what can be done."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from report_runs import invent_run

from apex_framework.cli.boundary import run
from apex_framework.testing.report import check_report
from apex_reports.html import Html
from apex_reports.markdown import Markdown
from apex_reports.table import Table

FORMS = (Table, Markdown, Html)


def imported(folder: Path, arms: int = 3, tasks: int = 24, **told: dict[str, int]) -> Path:
    """``told`` is, by quantity, what each arm tells of each of its tasks: arms that are not in it tell nothing."""
    rows = []
    for task in range(tasks):
        for arm in range(arms):
            row: dict[str, Any] = {"arm": f"s{arm}", "task": f"t{task}", "cluster": f"c{task % 8}"}
            row["success"] = (task * (arm + 2)) % 5 < 2
            row |= {name: by_arm[row["arm"]] + task for name, by_arm in told.items() if row["arm"] in by_arm}
            rows.append(json.dumps(row) + "\n")
    (folder / "v.jsonl").write_text("".join(rows))
    assert run(["suite", "import", str(folder / "v.jsonl"), "--out", str(folder / "r")]) == 0
    return folder / "r"


def words(make: Any, folder: Path) -> str:
    return " ".join(re.sub(r"<(style|head).*?</\1>", "", make().render((folder,)), flags=re.S).split())


@pytest.fixture(scope="module")
def silent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Only successes were told."""
    return imported(tmp_path_factory.mktemp("silent"))


@pytest.mark.parametrize("make", FORMS)
def test_reports_conform(make: Any, silent: Path) -> None:
    check_report(make, silent)


@pytest.mark.parametrize("make", FORMS)
def test_there_is_no_verdict_once_and_how_to_compare(make: Any, silent: Path) -> None:
    text = words(make, silent)
    assert text.lower().count("no arm is a controller under test") == 1 and "INCONCLUSIVE" not in text
    assert "Any two of its 3 arms can be compared: apex compare RUN --arm A --against B." in text
    assert "--arm s0 --against s1" in text
    assert "held out" not in text and "machine's clock" not in text


@pytest.mark.parametrize("make", FORMS)
def test_what_nobody_told_is_left_out_and_said_once(make: Any, silent: Path) -> None:
    text = words(make, silent)
    line = "Not told by the judged episodes: tokens, steps, wall time. Therefore no Success@budget, no budget proof"
    assert text.count(line) == 1
    for column in ("overfit", "switches", "aborted", "denied", "over budget", "messages"):
        assert column not in text.replace("Leakage checks", "").lower() or (make is Html and column == "switches"), (
            column
        )
    assert not re.search(r"(?<![\w.])0(\.0+)?(?![\w.])", text.split("Paired lifts")[0]), "a zero that nobody told"


def test_the_page_has_no_panel_that_needs_what_is_not_there(silent: Path, tmp_path: Path) -> None:
    made = Html().illustrate((silent,))
    titles = re.findall(r"<h2 [^>]*>([^<]*)</h2>", made.text)
    assert titles == [
        *("In short", "Arms", "Paired lifts", "Tasks won and lost", "Failures", "Leakage checks"),
        *("Deviations from the plan", "Do it again"),
    ]
    assert {name.split(".")[0] for name in made.figures} == {"forest", "flips"}
    checks = re.findall(r'<tr><th scope="row"[^>]*>([^<]*)</th><td class="(\w+)">', made.text)
    assert [name for name, cls in checks if cls == "holds"] == ["all arms met the same tasks and seeds"]
    assert "nothing was run; its verdicts were imported" in made.text


def test_what_some_told_stands_beside_what_others_did_not(tmp_path: Path) -> None:
    folder = imported(tmp_path, tokens={"s0": 1_000, "s1": 2_000}, steps={"s1": 5}, wall_ms={"s2": 100})
    lines = Table().render((folder,)).splitlines()
    arms = {line.split()[0]: line.split() for line in lines if re.match(r"  s\d +24 ", line)}
    assert arms["s0"][-2:] == ["1,012", "—"] and arms["s1"][-2:] == ["2,012", "16.5"] and arms["s2"][-2:] == ["—", "—"]
    text = words(Table, folder)
    assert "Not told by the judged episodes: tokens of 24 of 72, steps of 48 of 72, wall time of 48 of 72." in text
    page = Html().render((folder,))
    assert "Overheads" in page and "Budget proof" not in page


def test_what_all_told_is_shown(tmp_path: Path) -> None:
    every = {"s0": 1_000, "s1": 2_000}
    text = words(Table, imported(tmp_path, arms=2, tokens=every, steps=every, wall_ms=every))
    assert "Not told" not in text and "No budget is on file: no Success@budget and no budget proof." in text
    assert "2,012" in text


def test_compare_says_not_told_and_null(silent: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pair = ["compare", str(silent), "--arm", "s1", "--against", "s2"]
    assert run(pair) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "s1 against s2, tokens: not told",
        "s1 against s2, wall_ms: not told",
    ]
    assert run([*pair, "--json"]) == 0
    tokens, wall = json.loads(capsys.readouterr().out)["costs"]
    assert tokens["quantity"] == "tokens" and wall["quantity"] == "wall_ms"
    assert {tokens[key] for key in ("estimate", "interval", "mean", "p", "p_holm")} == {None}

    assert run(["compare", str(silent)]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("No verdict: no arm is a controller under test. Any two of its 3 arms")
    assert rest[-2:] == ["2 of these pairs, tokens: not told", "2 of these pairs, wall_ms: not told"]
    assert run(["compare", str(silent), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["verdicts"] == [] and [lift["against"] for lift in found["lifts"]] == ["s1", "s2"]
    assert all(cost["estimate"] is None for cost in found["costs"]) and len(found["costs"]) == 4

    folder = imported(tmp_path, tokens={"s0": 10, "s1": 30})
    capsys.readouterr()
    assert run(["compare", str(folder), "--arm", "s1", "--against", "s0", "--json"]) == 0
    told, untold = json.loads(capsys.readouterr().out)["costs"]
    assert (told["estimate"], untold["estimate"]) == (20.0, None)


def test_one_arm_has_nothing_to_be_compared_with(tmp_path: Path) -> None:
    assert "There is nothing to compare s0 with." in words(Table, imported(tmp_path, arms=1))


def test_verify_and_slo_bear_what_nobody_told(silent: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", str(silent)]) == 0
    assert "intact" in capsys.readouterr().out
    assert run(["slo", str(silent)]) in (0, 5)
    assert "Traceback" not in capsys.readouterr().err


def test_an_episode_that_lost_its_tokens_takes_its_arms_proof_along(tmp_path: Path) -> None:
    folder = invent_run(tmp_path / "r", tasks=8)
    file = folder / "episodes.jsonl"
    first, *rest = file.read_text().splitlines(keepends=True)
    row = json.loads(first)
    file.write_text(json.dumps({**row, "tokens": None, "steps": None}) + "\n" + "".join(rest))
    page = Html().render((folder,))
    assert "Not told by the judged episodes: tokens of 1 of 32, steps of 1 of 32." in page
    budgets = page.split('id="proof"')[1].split("</section>")[0]
    assert "static_star" in budgets and row["arm"] not in budgets
    assert "over budget" in Table().render((folder,))


@pytest.mark.slow
def test_a_page_of_many_systems_is_small(tmp_path: Path) -> None:
    assert len(Html().render((imported(tmp_path, arms=54, tasks=300),)).encode()) < 2_000_000
