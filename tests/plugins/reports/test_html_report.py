"""The page: verdict first, every number from the files, the same bytes, readable by all, harmless whatever a run says."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import re
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise, product
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_runs import ARMS, BUDGET, invent_run

from apex_controllers.features import feature_names as names_of_controllers
from apex_framework.errors import ArtifactError, NotComparableError
from apex_framework.experiment.layout import file_name
from apex_framework.testing.report import check_report
from apex_reports.html import Html
from apex_reports.lines import trace_path
from apex_reports.markdown import Markdown
from apex_reports.plain import cell, plain
from apex_reports.style import DARK, LIGHT, PAGE_STYLE
from apex_reports.switching import feature_names
from apex_reports.table import Table

HOSTILE = (
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "\u202egnp.exe\u2066",
    "a\nb\r\x00\x1b[31m",
    "\ud800 half",
    "x" * 5_000,
    "=HYPERLINK(1)",
    "]]></style><style>*{display:none}",
    "```|`<b>",
)
SECTIONS = (
    *("In short", "Arms", "Paired lifts", "Success@budget", "Tasks won and lost", "When and why it switched"),
    *("Timelines of episodes", "Budget proof", "Overheads", "Failures", "Leakage checks", "Deviations from the plan"),
    "Do it again",
)


QUESTION = "The question: does changing a team's topology while it works solve more tasks within its token budget?"


class Page(HTMLParser):
    """A page taken apart: tags with attributes in order, and tables by caption."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.words = ""
        self._open: list[str] = []
        self._rows: list[list[str]] = []
        self.feed(text)
        assert self._open == [], "tags left open"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img"):
            self._open.append(tag)
        if tag == "caption":
            self._rows = [[""]]
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, f"</{tag}> closes something else"
        if tag == "table":
            self.tables[self._rows[0][0]] = self._rows[1:]

    def handle_data(self, data: str) -> None:
        self.words += data
        if self._open and self._open[-1] in ("td", "th", "caption"):
            self._rows[-1][-1] += data


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 40 tasks and four arms, unfinished by its lack of a manifest, complete by its episodes."""
    return invent_run(tmp_path_factory.mktemp("report") / "run", tasks=40)


@pytest.fixture(scope="module")
def page(run: Path) -> str:
    """Its page."""
    return Html().render((run,))


def rows(run: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / f"{name}.jsonl").read_text().splitlines()]


def test_it_conforms(run: Path) -> None:
    check_report(Html, run)


def test_the_verdict_comes_first_with_interval_decision_and_level(page: str) -> None:
    words = Page(page).words
    start = words.index("BETTER")
    head = words[start : words.index("In short", start)]
    assert (
        "95 % interval" in head
        and "By APEX's default rule (this run was not registered): GO: " in head
        and "Claim level L2" in head
    )
    before = words[words.index(PAGE_STYLE) + len(PAGE_STYLE) : start].split("\n")
    assert [line for line in before if line] == ["To the verdict", "APEX report: mini/dev", QUESTION]


def test_all_sections_are_there_in_order(page: str) -> None:
    assert tuple(re.findall(r"<h2 [^>]*>([^<]*)</h2>", page)) == SECTIONS


def test_numbers_are_those_of_the_files(run: Path, page: str) -> None:
    tables = Page(page).tables
    episodes, calls, switches = rows(run, "episodes"), rows(run, "calls"), rows(run, "switches")
    arms = {line[0]: line for line in tables["Arms"][1:]}
    proof = {line[0]: line for line in tables["Budget proof"][1:]}
    for arm in ARMS:
        mine = [row for row in episodes if row["arm"] == arm]
        assert arms[arm][2] == f"{100 * sum(row['success'] for row in mine) / len(mine):.1f} %"
        worst = max(mine, key=lambda row: row["tokens"])
        assert proof[arm][3] == str(sum(row["tokens"] > BUDGET for row in mine)) == "0"
        assert proof[arm][5] == f"{worst['tokens']:,} ({worst['tokens'] / BUDGET:.1%})".replace("%", " %")
        assert proof[arm][6] == f"{worst['task_id']}, seed 0" and proof[arm][7] == "40 of 40"
        assert proof[arm][9] == f"episode {sum(c['arm'] == arm and c['event'] == 'CallDenied' for c in calls)}"
    moves = Counter((row["origin"], row["target"]) for row in switches if row["ok"])
    told = {(line[1], line[2]): int(line[3]) for line in tables["Switches that were committed"][1:]}
    assert told == moves
    assert int(tables["Switches that were aborted"][1][2]) == sum(not row["ok"] for row in switches)


def test_a_changed_file_is_a_changed_page(run: Path, page: str, tmp_path: Path) -> None:
    other = invent_run(tmp_path / "run", tasks=40)
    assert Html().render((other,)).replace(str(other), str(run)) == page
    lines = (other / "calls.jsonl").read_text().splitlines()
    forged = json.loads(lines[0])
    forged["tokens_out"] += 1
    (other / "calls.jsonl").write_text("\n".join([json.dumps(forged), *lines[1:], ""]))
    proof = Page(Html().render((other,))).tables["Budget proof"]
    assert sorted(line[7] for line in proof[1:]) == ["39 of 40", "40 of 40", "40 of 40", "40 of 40"]


def test_an_episode_over_its_budget_is_told(tmp_path: Path) -> None:
    run = invent_run(tmp_path / "run")
    lines = [{**row, "tokens": BUDGET + 7} if i == 0 else row for i, row in enumerate(rows(run, "episodes"))]
    (run / "episodes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    proof = {line[0]: line for line in Page(Html().render((run,))).tables["Budget proof"][1:]}["bandit_v1"]
    assert proof[3] == "1" and proof[5].startswith("10,007 (100.1 %)") and proof[7] == "11 of 12"


def test_the_same_run_is_the_same_bytes_in_another_process(run: Path, page: str) -> None:
    script = "import sys; from pathlib import Path; from apex_reports.html import Html; "
    script += "sys.stdout.buffer.write(Html().render((Path(sys.argv[1]),)).encode())"
    environment = {**os.environ, "PYTHONHASHSEED": "7", "LC_ALL": "C"}
    done = subprocess.run([sys.executable, "-c", script, str(run)], check=True, capture_output=True, env=environment)
    assert done.stdout == page.encode()


def test_nothing_on_it_can_run_or_reach_out(page: str) -> None:
    found = Page(page)
    policy = next(
        a["content"] for t, a in found.tags if t == "meta" and a.get("http-equiv") == "Content-Security-Policy"
    )
    digest = base64.b64encode(hashlib.sha256(PAGE_STYLE.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert [
        t for t, _ in found.tags if t in ("script", "img", "link", "iframe", "object", "form", "use", "image")
    ] == []
    assert sum(t == "style" for t, _ in found.tags) == 1
    for tag, attributes in found.tags:
        assert not any(
            name.startswith("on") or name in ("style", "src", "srcset", "xlink:href") for name in attributes
        ), tag
        assert (attributes.get("href") or "#").startswith("#")
    assert (
        "url(" not in page and "@import" not in page and "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    )


def test_everybody_can_find_their_way(page: str) -> None:
    tags = Page(page).tags
    ids = [attributes["id"] for _, attributes in tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for tag, attributes in tags:
        for name in (attributes.get("aria-labelledby") or "").split():
            assert name in ids, tag
        if (attributes.get("href") or "").startswith("#"):
            assert str(attributes["href"])[1:] in ids
        if tag == "th":
            assert attributes.get("scope") in ("col", "row")
        if tag == "svg":
            assert attributes["role"] == "img" and attributes["aria-labelledby"]
        if "scroll" in (attributes.get("class") or "").split():
            assert attributes["tabindex"] == "0" and attributes["aria-label"]
    count = Counter(tag for tag, _ in tags)
    assert count["main"] == count["header"] == count["footer"] == count["nav"] == count["h1"] == 1
    assert count["table"] == count["caption"] and count["svg"] == count["figure"] >= 6
    levels = [int(tag[1]) for tag, _ in tags if re.fullmatch("h[1-6]", tag)]
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert ("html", {"lang": "en"}) in tags


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_text_has_a_contrast_of_4_5(colours: dict[str, str]) -> None:
    def light(name: str) -> float:
        parts = [int(colours[name][i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    words = [name for name in colours if name not in ("paper", "panel", "rule")]
    for name, ground in product(words, ("paper", "panel")):
        low, high = sorted((light(name), light(ground)))
        assert (high + 0.05) / (low + 0.05) >= 4.5, f"{name} on {ground}"


@pytest.mark.parametrize("bad", HOSTILE, ids=[f"hostile-{i}" for i in range(len(HOSTILE))])
def test_hostile_names_stay_names(bad: str, tmp_path: Path) -> None:
    def rename(name: str) -> str:
        return name[:6] + name[-2:] + bad

    run = invent_run(tmp_path / "run", rename=rename, traced=0)
    text = Html().render((run,))
    assert len(text.encode()) < 2_000_000
    assert Counter(tag for tag, _ in Page(text).tags if tag in ("script", "style", "img", "section", "b")) == Counter(
        style=1, section=12
    )
    markdown = Markdown().render((run,))
    for shown in (text, markdown, Table().render((run,))):
        shown.encode()
        assert re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", shown) is None
    assert "<" not in markdown.partition("## Do it again")[0]
    fence = re.findall("^`{3,}", markdown, re.MULTILINE)
    assert len(fence) == 2 and fence[0] == fence[1] and markdown.endswith(f"\n{fence[0]}\n")


@given(st.text())
@settings(max_examples=300)
def test_plain_text_is_one_visible_line_and_a_cell_one_field(text: str) -> None:
    shown = plain(text)
    shown.encode()
    assert len(shown.splitlines()) <= 1 and len(shown) <= 300 * 10 + 40
    (fields,) = list(csv.reader(io.StringIO(f"{cell(text)},end\n"))) or [["", "end"]]
    assert fields[1:] == ["end"]
    if fields[0][:1] in ("=", "+", "-", "@"):
        float(fields[0])  # a number is the one thing that may begin so


def test_figures_are_drawings_and_numbers(run: Path) -> None:
    drawn = Html().illustrate((run,))
    assert drawn.text == Html().render((run,))
    names = {name.rpartition(".")[0] for name in drawn.figures if name.endswith(".svg")}
    assert {"forest", "success-at-budget", "flips", "switches", "budget", "timeline-1"} <= names
    for name, text in drawn.figures.items():
        if name.endswith(".svg"):
            root = ElementTree.fromstring(text)
            assert root.tag == "{http://www.w3.org/2000/svg}svg" and "…" not in "".join(
                p.get("d", "") for p in root.iter()
            )
        else:
            table = list(csv.reader(io.StringIO(text)))
            assert len(table) > 1 and {len(line) for line in table} == {len(table[0])}
    forest = list(csv.DictReader(io.StringIO(drawn.figures["forest.csv"])))
    lifts = {line["against"]: float(line["lift"]) for line in forest}
    solved = Counter(row["arm"] for row in rows(run, "episodes") if row["success"])
    assert lifts["static_star"] == pytest.approx((solved["bandit_v1"] - solved["static_star"]) / 40)


def test_stairs_end_at_the_budget_and_at_what_was_solved(run: Path) -> None:
    drawn = Html().illustrate((run,)).figures["success-at-budget.csv"]
    table = [line for line in csv.DictReader(io.StringIO(drawn)) if line["arm"] == "bandit_v1"]
    assert table[-1]["what"] == "run at this budget" and table[-1]["tokens"] == str(BUDGET)
    assert float(table[-2]["solved"]) == pytest.approx(float(table[-1]["solved"]))


def test_budgets_of_one_arm_are_points_of_one_curve(tmp_path: Path) -> None:
    run = invent_run(tmp_path / "run")
    facts = json.loads((run / "run.json").read_text())
    facts["plan"]["arms"] += [{**arm, "name": f"{arm['name']}@5k", "budget": 5_000} for arm in facts["plan"]["arms"]]
    (run / "run.json").write_text(json.dumps(facts))
    more = [{**row, "arm": f"{row['arm']}@5k", "tokens": row["tokens"] // 2} for row in rows(run, "episodes")]
    with (run / "episodes.jsonl").open("a") as file:
        file.write("".join(json.dumps(row) + "\n" for row in more))
    table = list(csv.DictReader(io.StringIO(Html().illustrate((run,)).figures["success-at-budget.csv"])))
    assert {line["what"] for line in table} == {"run at this budget"}
    assert Counter(line["arm"] for line in table) == dict.fromkeys(ARMS, 2)


def test_runs_at_other_budgets_are_points_and_nothing_else(tmp_path: Path) -> None:
    first = invent_run(tmp_path / "ten")
    other = invent_run(tmp_path / "five", budget=5_000, seed=1)
    (tmp_path / "deviations.jsonl").write_text('{"what": "stopped early", "why": "a power cut"}\n')
    alone, both = Html().illustrate((first,)), Html().illustrate((first, other))
    assert Page(both.text).tables["Arms"] == Page(alone.text).tables["Arms"]
    table = list(csv.DictReader(io.StringIO(both.figures["success-at-budget.csv"])))
    solved = {arm: sum(r["success"] for r in rows(other, "episodes") if r["arm"] == arm) / 12 for arm in ARMS}
    assert {line["arm"]: float(line["solved"]) for line in table if line["tokens"] == "5000"} == pytest.approx(solved)
    assert "stopped early. a power cut" in both.text
    told = "10,000 tokens an episode; what was solved with 5,000 is in Success@budget alone"
    box = both.text[both.text.index('class="interval"') :].partition("</p>")[0]
    assert told in box and f"The budget: {told}." in Page(both.text).words
    assert "10,000 tokens an episode" in alone.text and "one budget:" in alone.text and "one budget:" not in both.text
    facts = json.loads((other / "run.json").read_text())
    facts["plan"]["arms"][0]["controller"] = "another"
    (other / "run.json").write_text(json.dumps(facts))
    with pytest.raises(NotComparableError, match="differs in more than its budget"):
        Html().render((first, other))


def test_a_timeline_tells_of_messages_switches_and_decisions(run: Path) -> None:
    drawn = Html().illustrate((run,)).figures
    first = next(r for r in rows(run, "episodes") if r["arm"] == "bandit_v1" and r["switches"] >= 2)
    key = (first["arm"], first["task_id"], first["seed"])
    title = next(ElementTree.fromstring(drawn["timeline-1.svg"]).iter("{http://www.w3.org/2000/svg}title")).text
    assert title == f"Timeline of {first['task_id']}, seed 0, arm bandit_v1"
    mine = [r for r in rows(run, "switches") if (r["arm"], r["task_id"], r["seed"]) == key]
    table = list(csv.DictReader(io.StringIO(drawn["timeline-1-switches.csv"])))
    assert [(int(t["after step"]), t["to"], t["end"] == "COMMIT") for t in table] == [
        (r["step"], r["target"], r["ok"]) for r in mine
    ]
    decisions = list(csv.DictReader(io.StringIO(drawn["timeline-1-decisions.csv"])))
    assert len(decisions) == first["steps"] and {"score of stay", "token headroom", "is flat"} <= decisions[0].keys()
    text = drawn["timeline-1.svg"]
    for row in mine:
        assert f"after step {row['step']}: {row['origin']} to {row['target']}; PREPARE 0.20 ms" in text
    hops = list(csv.DictReader(io.StringIO(drawn["timeline-1.csv"])))
    trace = [json.loads(line) for line in trace_path(run, key).read_text().splitlines()]
    assert len(hops) == sum(row["what"] == "routed" for row in trace)
    assert {hop["relay"] for hop in hops} == {"yes", "no"} and hops[-1]["end"] == "dead: episode_over"


def test_names_of_features_are_those_of_the_controllers() -> None:
    ours = feature_names({"controller": "bandit_v1", "topologies": ["star", "chain", "flat"]}, 8)
    theirs = names_of_controllers(("star", "chain", "flat"))
    assert [name.replace("topo_onehot_", "is ").replace("_", " ") for name in theirs] == [
        name.replace("coder and runner", "coder runner").replace("token headroom", "token headroom pct")
        for name in ours
    ]
    assert feature_names({"controller": "mine"}, 2) == ("feature 1", "feature 2")


@pytest.mark.parametrize("name", ["a/b", "..", "ü", "a:b,c@d+e=f g", "50%"])
def test_traces_are_where_the_run_folder_puts_them(name: str, tmp_path: Path) -> None:
    assert (
        trace_path(tmp_path, (name, name, 3))
        == tmp_path / "episodes" / file_name(name) / file_name(name) / "3" / "trace.jsonl"
    )


def test_an_unfinished_run_says_so_in_the_first_place(tmp_path: Path) -> None:
    run = invent_run(tmp_path / "run")
    lines = (run / "episodes.jsonl").read_text().splitlines(keepends=True)
    (run / "episodes.jsonl").write_text("".join(lines[:-5]) + '{"arm": "torn')
    words = Page(Html().render((run,))).words
    assert words.index("Not finished: 5 of 48 planned episodes are missing.") < words.index("95 % interval")
    assert "no DONE in the folder: nothing vouches for its files" in words


def test_a_run_without_switches_traces_and_side_files_has_a_page_too(tmp_path: Path) -> None:
    run = invent_run(tmp_path / "run", traced=0)
    for name in ("decisions", "switches", "calls"):
        (run / f"{name}.jsonl").unlink()
    text = Html().render((run,))
    found = tuple(re.findall(r"<h2 [^>]*>([^<]*)</h2>", text))
    assert found == tuple(s for s in SECTIONS if s != "Timelines of episodes")
    mine = [row for row in rows(run, "episodes") if row["arm"] == "bandit_v1"]
    counted = f"{sum(row['switches'] for row in mine)} switches and {sum(row['aborted'] for row in mine)} aborted ones"
    assert f"bandit_v1: episodes count {counted}; when and why is not on file." in text
    assert "No arm of these runs wished to switch" not in text and "Switches are not timed" not in text
    assert "0 of 0 decisions" not in text and text.count("no decisions on file") == 2
    assert "Switches are not timed" not in Table().render((run,))


@pytest.mark.parametrize(
    ("file", "line", "said"),
    [
        ("decisions.jsonl", "not json", "line 3: not JSON"),
        ("decisions.jsonl", "[1]", "line 3: not an object"),
        ("decisions.jsonl", '{"arm": 3, "task_id": "t", "seed": 0}', "line 3: arm is no text"),
        (
            "decisions.jsonl",
            '{"arm": "a", "task_id": "t", "seed": 0, "latency_ms": NaN}',
            "line 3: latency_ms is no number",
        ),
        (
            "decisions.jsonl",
            '{"arm": "a", "task_id": "t", "seed": 0, "latency_ms": 1, "scores": {"x": "y"}}',
            "line 3, scores: x is no number",
        ),
        (
            "decisions.jsonl",
            '{"arm": "a", "task_id": "t", "seed": 0, "latency_ms": 1, "features": 3}',
            "line 3: features is no list",
        ),
        ("switches.jsonl", '{"arm": "a", "task_id": "t", "seed": 0, "step": "2"}', "line 3: step is no whole number"),
        (
            "calls.jsonl",
            '{"arm": "a", "task_id": "t", "seed": 0, "event": "CallSettled", "tokens_in": 1.5}',
            "tokens_in is no",
        ),
        ("episodes.jsonl", "[" * 100_000, "line 3: not JSON"),
        *((f"{name}.jsonl", '{"x": 1}', "line 3: arm is missing") for name in ("decisions", "switches", "calls")),
        ("decisions.jsonl", '{"arm": "a", "task_id": "t", "seed": 0, "propensity": 1}', "line 3: step is missing"),
        ("switches.jsonl", '{"arm": "a", "task_id": "t", "seed": 0}', "line 3: step is missing"),
    ],
)
def test_a_tampered_line_is_named(file: str, line: str, said: str, tmp_path: Path) -> None:
    run = invent_run(tmp_path / "run")
    lines = (run / file).read_text().splitlines()
    (run / file).write_text("\n".join([*lines[:2], line, *lines[3:], ""]))
    with pytest.raises(ArtifactError, match=re.escape(said)):
        Html().render((run,))


def test_runs_of_another_version_or_of_mixed_suites_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="another version"):
        Html().render((invent_run(tmp_path / "old", format=2),))
    runs = (invent_run(tmp_path / "a"), invent_run(tmp_path / "b", digest="6e" * 32))
    with pytest.raises(NotComparableError, match="suite_digest"):
        Html().render(runs)


def test_the_same_run_twice_counts_once(run: Path, page: str, tmp_path: Path) -> None:
    twice = Page(Html().render((run, invent_run(tmp_path / "copy", tasks=40)))).tables
    assert twice["Budget proof"] == Page(page).tables["Budget proof"]
    assert twice["Decisions"] == Page(page).tables["Decisions"]


@pytest.mark.slow
def test_thousands_of_episodes_fit_on_a_page(tmp_path: Path) -> None:
    run = invent_run(tmp_path / "run", tasks=500)
    text = Html().render((run,))
    assert len(text.encode()) < 2_000_000 and "2,000 episodes" in text


def test_a_topology_has_one_colour_in_every_figure(tmp_path: Path) -> None:
    figures = Html().illustrate((invent_run(tmp_path / "run"),)).figures
    star, flat = 0, 2  # as in the list of topologies, which timelines count by
    timeline = figures["timeline-1.svg"]
    assert re.search(rf'class="f{flat} strong">(epoch )?0 · flat<', timeline)
    for name in ("success-at-budget.svg", "budget.svg"):
        found = {arm: set(re.findall(rf'class="f(\d)"><title>{arm}: ', figures[name])) for arm in ARMS}
        assert found["static_star"] == {str(star)} and found["static_flat"] == {str(flat)}
        assert not {str(star), str(flat)} & (found["bandit_v1"] | found["single"])


def test_names_of_short_epochs_are_whole(tmp_path: Path) -> None:
    figures = Html().illustrate((invent_run(tmp_path / "run", tasks=40),)).figures
    labels = [
        label
        for name, text in figures.items()
        if re.fullmatch(r"timeline-\d\.svg", name)
        for label in re.findall(r'strong">((?:epoch )?\d+ · [^<]*)<', text)
    ]
    assert len(labels) > 3 and all(label.endswith(("star", "chain", "flat")) for label in labels)


def test_digests_and_words_of_figures_are_not_cut(tmp_path: Path) -> None:
    code = {f"package_{i}": f"{i:064x}" for i in range(40)}
    runs = [invent_run(tmp_path / f"b{n}", budget=n, code=code) for n in (1_000, 2_000, 4_000, 8_000, 16_000)]
    drawn = Html().illustrate(tuple(runs))
    assert "package_39 000000000000" in Page(drawn.text).words
    assert "single: " in drawn.figures["success-at-budget.svg"].partition("</desc>")[0].rpartition(";")[2]
    top = [float(y) for y in re.findall(r'y1="([\d.]+)"[^>]*class="rule"', drawn.figures["success-at-budget.svg"])]
    bars = [float(y) for y in re.findall(r'y2="([\d.]+)" class="c\d"', drawn.figures["success-at-budget.svg"])]
    assert min(bars) >= min(top) - 0.1


@pytest.mark.parametrize("make", [Table, Markdown])
def test_what_is_missing_stands_first(make: type[Table] | type[Markdown], tmp_path: Path) -> None:
    run = invent_run(tmp_path / "run")
    (run / "episodes.jsonl").write_text("".join((run / "episodes.jsonl").read_text().splitlines(keepends=True)[:-5]))
    assert make().render((run,)).strip("*").startswith("Unfinished: 5 of 48 planned episodes are missing.")


def test_one_of_a_thing_is_told_as_one(tmp_path: Path) -> None:
    words = Page(Html().render((invent_run(tmp_path / "run", tasks=1),))).words
    assert "1 task in 1 cluster, 1 seed, 4 episodes." in words and "Only 1 cluster:" in words
    assert "1 digest, 0 episodes without" in words
